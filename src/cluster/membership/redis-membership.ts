import { messageOf } from "#base";
import type { Member, Membership, MembershipListener, ToldRole } from "#cluster/protocol";
import { HangWatch } from "./hang-watch.ts";
import {
  type LeaseRecord,
  RECORD_LENGTH_MAX,
  readRecord,
  WORKERS_CHANNEL,
  WORKERS_KEY,
  workerKey,
} from "./lease-record.ts";
import { MemberBook } from "./member-book.ts";
import type { RedisLink } from "./redis-link.ts";

const WORKERS_MAX = 4096;
const READ_INTERVAL_MS = 1000;
/** Reads that many events ask for at once are one. */
const TOLD_DELAY_MS = 5;
/** A read that comes this much later than planned means that this process hung. */
const LATE_MS = 50;
/** Unreadable entries that are remembered, so that each is said once. */
const REFUSED_MAX = 256;

/** Removes an id whose entry has ended, unless it was written again meanwhile. */
const FORGET_SCRIPT =
  "if redis.call('exists', KEYS[2]) == 0 then return redis.call('srem', KEYS[1], ARGV[1]) end " +
  "return 0";

/** The state of one entry as it was seen. */
interface Lease {
  readonly epoch: string;
  readonly leaseMs: number;
  beat: number;
  /** On this process's own monotonic clock. */
  endsMs: number;
  /** It ended, and the same entry is still there: no sign of life. */
  ended: boolean;
}

/** One read entry. */
interface Entry {
  readonly id: string;
  readonly text: string;
  readonly remainingMs: number;
}

/** How a router learns of workers. */
export interface RedisMembershipOptions {
  readonly link: RedisLink;
  readonly warn: (message: string) => void;
  /** Between reads of all entries. Default: a second. */
  readonly readIntervalMs?: number;
}

/**
 * The workers that announce themselves in Redis. All entries are read once a second and whenever
 * Redis tells of a change; what it tells is never taken for true by itself [CL43]. While Redis is
 * away, what was known stays; afterwards workers have one lease to come back [CL45].
 */
export class RedisMembership implements Membership {
  readonly #link: RedisLink;
  readonly #warn: (message: string) => void;
  readonly #book = new MemberBook();
  readonly #leases = new Map<string, Lease>();
  readonly #refused = new Map<string, string>();
  readonly #readIntervalMs: number;
  #timer: NodeJS.Timeout | null = null;
  #reading: Promise<void> | null = null;
  #askedMeanwhile = false;
  #wasAway = true;
  #heardMs: number | null = null;
  #closed = false;

  /** Begins at once; closes the link when it is closed. */
  constructor({ link, warn, readIntervalMs = READ_INTERVAL_MS }: RedisMembershipOptions) {
    this.#link = link;
    this.#warn = warn;
    this.#readIntervalMs = readIntervalMs;
    const subscriber = link.subscriber();
    subscriber.on("ready", () => {
      // Expiries are told where the server is set to: then a dead worker is noticed at once.
      subscriber.subscribe(WORKERS_CHANNEL).catch(() => {});
      subscriber.psubscribe("__keyevent@*__:expired").catch(() => {});
    });
    subscriber.on("message", () => this.#readSoon(TOLD_DELAY_MS));
    subscriber.on("pmessage", (_pattern, _channel, key) => {
      if (key.startsWith(workerKey(""))) this.#readSoon(TOLD_DELAY_MS);
    });
    link.onReady(() => this.#readSoon(0));
    this.#readSoon(0);
  }

  get workers(): ReadonlyMap<string, Member> {
    return this.#book.workers;
  }

  get heardMs(): number | null {
    return this.#heardMs;
  }

  listen(listener: MembershipListener): () => void {
    return this.#book.listen(listener);
  }

  learnRole(id: string, told: ToldRole): void {
    this.#book.learnRole(id, told);
  }

  async close(): Promise<void> {
    this.#closed = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#book.close();
    await this.#reading;
    this.#link.close();
  }

  #readSoon(delayMs: number): void {
    if (this.#closed) return;
    if (this.#reading !== null) {
      this.#askedMeanwhile ||= delayMs <= TOLD_DELAY_MS;
      return;
    }
    if (this.#timer !== null) clearTimeout(this.#timer);
    const plannedMs = performance.now() + delayMs;
    this.#timer = setTimeout(() => {
      this.#timer = null;
      const lateMs = performance.now() - plannedMs;
      if (lateMs > LATE_MS) this.#prolongAll(lateMs);
      this.#reading = this.#read().finally(() => {
        this.#reading = null;
        const next = this.#askedMeanwhile ? TOLD_DELAY_MS : this.#nextReadMs();
        this.#askedMeanwhile = false;
        this.#readSoon(next);
      });
    }, delayMs);
  }

  /** When a lease ends, or the interval is over. */
  #nextReadMs(): number {
    const nowMs = performance.now();
    const running = [...this.#leases.values()].filter(({ ended }) => !ended);
    const ends = running.map(({ endsMs }) => endsMs - nowMs + 1);
    return Math.max(TOLD_DELAY_MS, Math.min(this.#readIntervalMs, ...ends));
  }

  async #read(): Promise<void> {
    if (!this.#link.isReady) return this.#lost();
    try {
      // Before it is asked for: a lease must not seem longer than it is.
      const askedMs = performance.now();
      const hangs = new HangWatch();
      const entries = await this.#entries().finally(() => this.#prolongAll(hangs.stop()));
      if (this.#closed) return;
      if (this.#wasAway) this.#extendAll(askedMs);
      this.#wasAway = false;
      this.#heardMs ??= askedMs;
      this.#take(entries, askedMs);
      await this.#forget(entries);
    } catch (error) {
      this.#lost();
      this.#link.failed(error);
    }
  }

  /** Redis tells nothing now. A router that knows no worker cannot say that there is none. */
  #lost(): void {
    this.#wasAway = true;
    if (this.#book.workers.size === 0) this.#heardMs = null;
  }

  async #entries(): Promise<readonly Entry[]> {
    const ids = await this.#link.client.srandmember(WORKERS_KEY, WORKERS_MAX);
    if (ids === null || ids.length === 0) return [];
    const batch = this.#link.client.pipeline();
    for (const id of ids) {
      batch.getrange(workerKey(id), 0, RECORD_LENGTH_MAX).pttl(workerKey(id));
    }
    const answers = (await batch.exec()) ?? [];
    return ids.map((id, place) => {
      const [textError, text] = answers[2 * place] ?? [new Error("Connection is closed")];
      const [ttlError, remainingMs] = answers[2 * place + 1] ?? [null];
      // An entry of another type is a stranger's; a lost connection fails the whole read.
      if (textError !== null && !/WRONGTYPE/.test(textError.message)) throw textError;
      if (ttlError !== null) throw ttlError;
      return { id, text: String(text ?? ""), remainingMs: Number(remainingMs ?? 0) };
    });
  }

  /** Redis may have come back empty: each worker has one lease to write an entry again. */
  #extendAll(nowMs: number): void {
    for (const lease of this.#leases.values()) {
      lease.endsMs = Math.max(lease.endsMs, nowMs + lease.leaseMs);
    }
  }

  /** While this process hung it heard no worker, which says nothing of the workers [CL42]. */
  #prolongAll(ms: number): void {
    for (const lease of this.#leases.values()) lease.endsMs += ms;
  }

  #take(entries: readonly Entry[], askedMs: number): void {
    const present = new Set<string>();
    for (const entry of entries) {
      if (entry.text === "") continue;
      const record = this.#readEntry(entry);
      if (record === null) continue;
      present.add(entry.id);
      this.#takeRecord(record, askedMs + Math.min(entry.remainingMs, record.leaseMs), askedMs);
    }
    for (const [id, lease] of this.#leases) {
      // A lease that ended after the question is judged by the next answer.
      if (lease.endsMs > askedMs) continue;
      if (!lease.ended) this.#book.drop(id, "its lease ended");
      lease.ended = true;
      if (!present.has(id)) this.#leases.delete(id);
    }
  }

  #takeRecord({ info, state, beat, leaseMs }: LeaseRecord, endsMs: number, nowMs: number): void {
    const { id, epoch } = info;
    if (state === "left") {
      this.#leases.delete(id);
      this.#book.drop(id, "it left");
      return;
    }
    const known = this.#leases.get(id);
    if (known?.epoch === epoch && known.beat === beat) {
      // The entry is as it was: Redis's clock may have been set back, so its word does not count.
      if (!known.ended) this.#book.put({ info, state });
      return;
    }
    // Redis's clock may have been set forward: an entry that is new here lives a moment anyway.
    const ends = Math.max(endsMs, nowMs + this.#readIntervalMs);
    this.#leases.set(id, { epoch, leaseMs, beat, endsMs: ends, ended: false });
    this.#book.put({ info, state });
  }

  /** Null for an entry that is not readable, which is said once. */
  #readEntry({ id, text }: Entry): LeaseRecord | null {
    try {
      const record = readRecord(id, text);
      this.#refused.delete(id);
      return record;
    } catch (error) {
      const message = messageOf(error);
      if (this.#refused.get(id) !== message && this.#refused.size < REFUSED_MAX) {
        this.#refused.set(id, message);
        this.#warn(message);
      }
      return null;
    }
  }

  async #forget(entries: readonly Entry[]): Promise<void> {
    const gone = entries.filter(({ id, text }) => text === "" && !this.#leases.has(id));
    for (const { id } of gone) {
      await this.#link.client.eval(FORGET_SCRIPT, 2, WORKERS_KEY, workerKey(id), id);
    }
  }
}
