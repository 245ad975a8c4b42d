import type { Clock } from "#base";
import type { Member, Membership, WorkerInfo } from "#cluster/protocol";
import { CircuitBreaker } from "./breaker.ts";
import { Upstream } from "./upstream.ts";
import type { WorkerLink } from "./worker-link.ts";

export interface WorkerLinksOptions {
  readonly clock: Clock;
  readonly connectTimeoutMs: number;
  readonly answerBytesMax: number;
  readonly breakerFailures: number;
  readonly breakerOpenMs: number;
  /** Sent to the worker as bearer token; null: nothing. */
  readonly keyFor: (info: WorkerInfo) => string | null;
  /** Certificates of authorities for https workers, in PEM; null: the system's. */
  readonly ca: string | null;
  readonly onJoined: (link: WorkerLink) => void;
  readonly onLeft: (workerId: string) => void;
  /** Told of a worker that is gone: its requests go on elsewhere. */
  readonly onGone: (workerId: string, reason: string) => void;
  /** One line for operators; `warn`: of trouble. */
  readonly say: (message: string) => void;
  readonly warn: (message: string) => void;
}

/** Connections and breakers of all members. */
export class WorkerLinks {
  readonly #options: WorkerLinksOptions;
  readonly #links = new Map<string, WorkerLink>();
  readonly #stopListening: () => void;

  constructor(membership: Membership, options: WorkerLinksOptions) {
    this.#options = options;
    for (const member of membership.workers.values()) this.#join(member);
    this.#stopListening = membership.listen({
      joined: (member) => this.#join(member),
      changed: ({ info, state }) => {
        const link = this.#links.get(info.id);
        const before = link?.info ?? info;
        if (link !== undefined) link.info = info;
        if (namesOf(before) !== namesOf(info)) {
          options.say(`worker ${info.id} serves ${namesOf(info)} now`);
          return;
        }
        if (before.role !== info.role) {
          options.say(`worker ${info.id} has the role ${info.role ?? "both"} now`);
          return;
        }
        const isAway = state === "unreachable";
        (isAway ? options.warn : options.say)(`worker ${info.id} is ${state}`);
        if (isAway) options.onGone(info.id, "it is unreachable");
      },
      left: (id, reason) => this.#leave(id, reason),
    });
  }

  get all(): Iterable<WorkerLink> {
    return this.#links.values();
  }

  /** Null: it has left. */
  find(workerId: string): WorkerLink | null {
    return this.#links.get(workerId) ?? null;
  }

  /** Whether a request may go to the worker now. */
  admits(workerId: string): boolean {
    return this.#links.get(workerId)?.breaker.admits ?? false;
  }

  async close(): Promise<void> {
    this.#stopListening();
    await Promise.all([...this.#links.values()].map(({ upstream }) => upstream.close()));
    this.#links.clear();
  }

  #join({ info, state }: Member): void {
    const { clock, breakerFailures, breakerOpenMs, keyFor, onJoined } = this.#options;
    const key = keyFor(info);
    const link: WorkerLink = {
      info,
      upstream: new Upstream(info.url, this.#options),
      breaker: new CircuitBreaker({ clock, failuresMax: breakerFailures, openMs: breakerOpenMs }),
      headers: key === null ? {} : { authorization: `Bearer ${key}` },
    };
    this.#links.set(info.id, link);
    onJoined(link);
    const served = namesOf(info);
    this.#options.say(`worker ${info.id} joined: ${info.kind}, ${state}, serves ${served}`);
  }

  #leave(id: string, reason: string): void {
    const link = this.#links.get(id);
    if (link === undefined) return;
    this.#links.delete(id);
    this.#options.warn(`worker ${id} is gone: ${reason}`);
    this.#options.onGone(id, reason);
    this.#options.onLeft(id);
    void link.upstream.close();
  }
}

function namesOf({ models }: WorkerInfo): string {
  return models.join(", ");
}
