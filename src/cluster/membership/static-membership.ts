import { EngineError } from "#base";
import { systemHttp } from "#cluster/http";
import type { Member, Membership, MembershipListener, ToldRole } from "#cluster/protocol";
import { MemberBook } from "./member-book.ts";
import type { ProbeAccess } from "./probe.ts";
import { StaticWorker } from "./static-worker.ts";
import { readUrl } from "./worker-info-reader.ts";

/** Workers that are given by address. */
export interface StaticMembershipOptions extends Partial<ProbeAccess> {
  /** Values of `--worker`. */
  readonly urls: readonly string[];
  readonly warn: (message: string) => void;
  /** Receives what is no trouble: a worker that still loads its model. */
  readonly say?: (message: string) => void;
  /** Between checks of a worker that is well. Default: 2 s. */
  readonly checkMs?: number;
}

/**
 * A fleet without Redis, and workers of other engines. A worker is a member once it has answered
 * what it is, and stays one: it is unreachable while it does not answer.
 */
export class StaticMembership implements Membership {
  readonly #book = new MemberBook();
  readonly #workers: readonly StaticWorker[];

  /** Throws INVALID_ARGUMENT for what is no address. Asks at once, and never rejects. */
  constructor(options: StaticMembershipOptions) {
    const { urls, warn, say = () => {}, checkMs } = options;
    const { secret = null, workerApiKey = null, http = systemHttp() } = options;
    const events = { onMember: (member: Member) => this.#book.put(member), warn, say };
    this.#workers = [...new Set(urls.map(addressOf))].map(
      (url) => new StaticWorker({ url, secret, workerApiKey, http }, events, checkMs),
    );
  }

  get workers(): ReadonlyMap<string, Member> {
    return this.#book.workers;
  }

  /** Who is away is known by its address, and asked again: nothing is waited for. */
  get heardMs(): number {
    return 0;
  }

  listen(listener: MembershipListener): () => void {
    return this.#book.listen(listener);
  }

  learnRole(id: string, told: ToldRole): void {
    this.#book.learnRole(id, told);
  }

  /** Checks of that worker wait from now on [CL264]. */
  heard(member: Member): void {
    this.#workers.find(({ url }) => url === member.info.id)?.heard(member);
  }

  async close(): Promise<void> {
    this.#book.close();
    await Promise.all(this.#workers.map((worker) => worker.close()));
  }
}

function addressOf(url: string): string {
  try {
    // `…/v1` is the address that clients of OpenAI's API are given.
    return readUrl(url).replace(/\/v1$/, "");
  } catch {
    throw new EngineError(
      "INVALID_ARGUMENT",
      "Cannot use worker: worker must be an address such as http://10.0.0.7:8000, current value " +
        `is ${JSON.stringify(url.slice(0, 200))}`,
      { param: "worker" },
    );
  }
}
