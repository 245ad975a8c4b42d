import type { WorkerInfo } from "#cluster/protocol";
import type { Announcer } from "./announcer.ts";
import {
  type LeaseRecord,
  readRecord,
  WORKERS_CHANNEL,
  WORKERS_KEY,
  workerKey,
  writeRecord,
} from "./lease-record.ts";
import type { RedisLink } from "./redis-link.ts";

const REFRESHES_PER_LEASE = 3;

/** How a worker announces itself. */
export interface RedisAnnouncerOptions {
  readonly link: RedisLink;
  readonly leaseMs: number;
  readonly warn: (message: string) => void;
}

/**
 * Keeps a worker's entry in Redis alive: written anew three times per lease, so that it ends with
 * the process, or when the process hangs. Timers of this machine alone count: a step of its clock
 * changes nothing [CL44].
 */
export class RedisAnnouncer implements Announcer {
  readonly #link: RedisLink;
  readonly #leaseMs: number;
  readonly #warn: (message: string) => void;
  #info: WorkerInfo;
  readonly #timer: NodeJS.Timeout;
  #state: LeaseRecord["state"] = "ready";
  #beat = 0;
  /** Another process has this worker's id, and was told of. */
  #displaced = false;

  /** Begins at once; closes the link when it leaves. */
  constructor(info: WorkerInfo, { link, leaseMs, warn }: RedisAnnouncerOptions) {
    this.#info = info;
    this.#link = link;
    this.#leaseMs = leaseMs;
    this.#warn = warn;
    this.#timer = setInterval(() => void this.#refresh(), leaseMs / REFRESHES_PER_LEASE);
    link.onReady(() => void this.#refresh());
  }

  /** Routers that are not asked by the worker itself read it there. */
  roleChanged(role: Required<Pick<WorkerInfo, "role" | "roleEpoch">>): void {
    this.#info = { ...this.#info, ...role };
    void this.#refresh();
  }

  async drain(): Promise<void> {
    this.#state = "draining";
    await this.#refresh();
  }

  async leave(): Promise<void> {
    this.#state = "left";
    clearInterval(this.#timer);
    await this.#refresh();
    this.#link.close();
  }

  async #refresh(): Promise<void> {
    if (!this.#link.isReady) return;
    try {
      const { id } = this.#info;
      if (this.#beat > 0 && (await this.#isTaken())) return;
      this.#beat++;
      const record = { info: this.#info, state: this.#state, beat: this.#beat };
      const text = writeRecord({ ...record, leaseMs: this.#leaseMs });
      await this.#link.client
        .multi()
        .set(workerKey(id), text, "PX", this.#leaseMs)
        .sadd(WORKERS_KEY, id)
        .publish(WORKERS_CHANNEL, id)
        .exec();
    } catch (error) {
      this.#link.failed(error);
    }
  }

  /**
   * Whether a process that started later took the id. Then this one is silent, or the two would
   * replace each other for ever; it goes on when the other has left.
   */
  async #isTaken(): Promise<boolean> {
    const text = await this.#link.client.get(workerKey(this.#info.id));
    const taken = text !== null && this.#isOther(text);
    if (taken && !this.#displaced) {
      this.#warn(
        `Cannot announce worker ${this.#info.id}: its id must be unique, another process has ` +
          "it now; give each worker its own --worker-id",
      );
    }
    this.#displaced = taken;
    return taken;
  }

  #isOther(text: string): boolean {
    try {
      const { info, state } = readRecord(this.#info.id, text);
      return info.epoch !== this.#info.epoch && state !== "left";
    } catch {
      return false; // Not readable by anyone: replaced.
    }
  }
}
