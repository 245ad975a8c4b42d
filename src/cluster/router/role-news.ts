/** What workers do now, where their role is another one than a request was routed by. */
import { EngineError, isPlainObject, messageOf } from "#base";
import { readToldRole, readWorkerReport } from "#cluster/membership";
import type { Membership, ToldRole, WorkerInfo, WorkerRole } from "#cluster/protocol";
import { HttpError } from "#server";
import { askWorker, type WorkerWords } from "./ask-worker.ts";
import type { Outcome } from "./attempt.ts";
import { answerText } from "./worker-body.ts";
import type { WorkerLink } from "./worker-link.ts";

/** A code of #server. */
const ROLE_CHANGED = "role_changed";

/** Whether a worker has refused a request for what its router knew of its role. */
export function isStale(outcome: Outcome, { roleEpoch }: WorkerInfo): boolean {
  if (roleEpoch === undefined || outcome.kind !== "answered") return false;
  const { status, body } = outcome.answer;
  return status === 409 && codeOf(body.toString("utf8")) === ROLE_CHANGED;
}

export interface RoleNewsOptions {
  readonly membership: Membership;
  readonly timeoutMs: number;
}

/** Asks workers for their roles and changes them; the membership is told what they answer. */
export class RoleNews {
  readonly #options: RoleNewsOptions;
  /** By id of a worker: of many requests that it refuses at once, one asks. */
  readonly #asked = new Map<string, Promise<void>>();

  constructor(options: RoleNewsOptions) {
    this.#options = options;
  }

  /** Settles when a later role than that of `routed` is known. False: the worker does not say. */
  async learn(link: WorkerLink, routed: WorkerInfo): Promise<boolean> {
    if (this.#isNews(routed)) return true;
    const { id } = routed;
    const asked = this.#asked.get(id) ?? this.#ask(link).finally(() => this.#asked.delete(id));
    this.#asked.set(id, asked);
    await asked;
    return this.#isNews(routed);
  }

  /**
   * Gives a worker a role. Throws what it says, with the remedy. One that was changed meanwhile is
   * changed from what it is now, or, where the order is fenced, not at all.
   */
  async change(link: WorkerLink, role: WorkerRole, isFenced = false): Promise<ToldRole> {
    const { info } = link;
    if (info.kind !== "perigee") throw refused(link, "must be one of Perigee, it is another one");
    let answer = await this.#order(link, role);
    if (answer.status === 409 && (await this.learn(link, info)) && !isFenced) {
      answer = await this.#order(link, role);
    }
    if (answer.status !== 200) throw refused(link, reasonOf(answer));
    const told = toldBy(link, answer.text);
    this.#options.membership.learnRole(info.id, told);
    return told;
  }

  #order(link: WorkerLink, role: WorkerRole): Promise<WorkerWords> {
    const { roleEpoch } = link.info;
    const body = JSON.stringify({
      role,
      ...(roleEpoch !== undefined && { role_epoch: roleEpoch }),
    });
    const { timeoutMs } = this.#options;
    return askWorker(link, { method: "POST", path: "/worker_role", body, timeoutMs });
  }

  async #ask(link: WorkerLink): Promise<void> {
    const { membership, timeoutMs } = this.#options;
    const question = { method: "GET", path: "/worker_info", body: null, timeoutMs } as const;
    try {
      const { text } = await askWorker(link, question);
      const { epoch, role = "both", roleEpoch = 0 } = readWorkerReport(JSON.parse(text)).info;
      membership.learnRole(link.info.id, { epoch, role, roleEpoch });
    } catch {
      // The request goes on elsewhere, and the membership asks again.
    }
  }

  #isNews({ id, epoch, roleEpoch = 0 }: WorkerInfo): boolean {
    const now = this.#options.membership.workers.get(id)?.info;
    return now !== undefined && (now.epoch !== epoch || (now.roleEpoch ?? 0) > roleEpoch);
  }
}

function toldBy({ info }: WorkerLink, text: string): ToldRole {
  try {
    return readToldRole(JSON.parse(text));
  } catch (cause) {
    const message = `Cannot read the role of worker ${info.id}: ${messageOf(cause)}`;
    throw new EngineError("WORKER_FAILED", message, { cause });
  }
}

function codeOf(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text);
    return isPlainObject(value) && isPlainObject(value.error) ? value.error.code : null;
  } catch {
    return null;
  }
}

function reasonOf({ status, text }: WorkerWords): string {
  if (status === 404) return "must know /worker_role, it is older; restart it with --role";
  const said = answerText(Buffer.from(text));
  if (status === 401) return `must take the router's key; check --cluster-secret-file: ${said}`;
  return `must take it, it answers ${status}: ${said}`;
}

function refused({ info }: WorkerLink, reason: string): Error {
  const message = `Cannot change role: worker ${info.id} ${reason}`;
  return new HttpError(409, "role_refused", message);
}
