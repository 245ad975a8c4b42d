/** Workers given by URL: probed until they answer, and again every few seconds. */

import { isPlainObject, messageOf } from "#base";
import { readWorkerReport } from "#cluster/membership";
import type { Member, Membership, MembershipListener, WorkerInfo } from "#cluster/protocol";

const PROBE_MS = 2000;
const PROBE_TIMEOUT_MS = 2000;

export class StaticFleet implements Membership {
  readonly workers = new Map<string, Member>();
  readonly #listeners = new Set<MembershipListener>();
  readonly #urls: readonly string[];
  readonly #key: string | null;
  readonly #warn: (message: string) => void;
  readonly #timer: NodeJS.Timeout;

  constructor(urls: readonly string[], key: string | null, warn: (message: string) => void) {
    this.#urls = urls.map((url) => url.replace(/\/+$/, ""));
    this.#key = key;
    this.#warn = warn;
    this.#timer = setInterval(() => void this.look(), PROBE_MS);
  }

  async look(): Promise<void> {
    await Promise.all(this.#urls.map((url) => this.#probe(url)));
  }

  listen(listener: MembershipListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
  }

  async #probe(url: string): Promise<void> {
    const known = this.workers.get(url);
    try {
      const health = await this.#get(`${url}/health`);
      if (known === undefined) {
        if (!health.ok) return;
        const info = await this.#describe(url);
        const member: Member = { info, state: "ready" };
        this.workers.set(url, member);
        for (const listener of this.#listeners) listener.joined(member);
      } else this.#change(known, health.ok ? "ready" : "draining");
    } catch (error) {
      if (known !== undefined) this.#change(known, "unreachable");
      else this.#warn(`worker ${url} does not answer: ${messageOf(error)}`);
    }
  }

  #change(known: Member, state: Member["state"]): void {
    if (known.state === state) return;
    const member = { info: known.info, state };
    this.workers.set(known.info.id, member);
    for (const listener of this.#listeners) listener.changed(member);
  }

  async #describe(url: string): Promise<WorkerInfo> {
    const said = await this.#get(`${url}/worker_info`);
    if (said.ok) return { ...readWorkerReport(await said.json()).info, id: url, url };
    const listed: unknown = await (await this.#get(`${url}/v1/models`)).json();
    const cards = isPlainObject(listed) && Array.isArray(listed.data) ? listed.data : [];
    const models = cards.map((card: { id?: unknown }) => String(card.id));
    return {
      ...{ id: url, epoch: "0", url, kind: "openai", version: "", models },
      ...{ fingerprint: null, contextTokensMax: 0, kv: null },
    };
  }

  #get(url: string): Promise<Response> {
    const headers = this.#key === null ? {} : { authorization: `Bearer ${this.#key}` };
    return fetch(url, { headers, signal: AbortSignal.timeout(PROBE_TIMEOUT_MS) });
  }
}
