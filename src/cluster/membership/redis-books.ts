import { createHash } from "node:crypto";
import { assert, EngineError } from "#base";
import type { SharedAnswer, SharedBid, SharedBooks, SharedLoad } from "#cluster/protocol";
import { ADJUST, bookKey, RESERVE, ROUTERS_KEY, SYNC } from "./book-scripts.ts";
import type { RedisLink } from "./redis-link.ts";

/** Routers wait no longer: their own books are nearly as good. */
const DEADLINE_MS = 2;
const LEASE_MS = 5000;
const SYNCS_PER_LEASE = 3;

/** How a router's books are shared. */
export interface RedisBooksOptions {
  readonly link: RedisLink;
  /** Unique for each start of a router. */
  readonly router: string;
  /** What a router that is not heard of for this long had booked is no load. Default: 5 s. */
  readonly leaseMs?: number;
  /** Longest wait for an answer. Default: 2 ms. */
  readonly deadlineMs?: number;
}

/** One request, as this router booked it. */
interface Booked {
  readonly key: string;
  uncachedTokens: number;
  heldBlocks: number;
}

/** A request whose worker is not known yet. */
interface Asked {
  /** Released before the answer came: booked in Redis, but no load. */
  abandoned: boolean;
  computed: boolean;
  heldBlocks: number | null;
}

/**
 * Books of load in Redis. Each router knows what it booked and writes all of it three times per
 * lease: what a broken connection lost is repaired then, and a router that died takes its load
 * along [CL52].
 */
export class RedisBooks implements SharedBooks {
  readonly #link: RedisLink;
  readonly #router: string;
  readonly #leaseMs: number;
  readonly #deadlineMs: number;
  readonly #booked = new Map<string, Booked>();
  readonly #asked = new Map<string, Asked>();
  /** Books that may have entries of this router. */
  readonly #keys = new Set<string>();
  readonly #timer: NodeJS.Timeout;
  /** Counts the syncs that were sent: a reservation that was sent before one is erased by it. */
  #syncs = 0;

  /** Closes the link when it is closed. */
  constructor(options: RedisBooksOptions) {
    const { link, router, leaseMs = LEASE_MS, deadlineMs = DEADLINE_MS } = options;
    this.#link = link;
    this.#router = router;
    this.#leaseMs = leaseMs;
    this.#deadlineMs = deadlineMs;
    this.#timer = setInterval(() => void this.#sync(), leaseMs / SYNCS_PER_LEASE);
    link.onReady(() => void this.#sync());
  }

  async reserve(id: string, bids: readonly SharedBid[]): Promise<SharedAnswer> {
    assert(bids.length > 0, "Cannot reserve without a bid");
    if (!this.#link.isReady) throw unreachable("it is away");
    const asked: Asked = { abandoned: false, computed: false, heldBlocks: null };
    this.#asked.set(id, asked);
    const answer = this.#ask(id, bids, asked);
    return await this.#within(answer, asked);
  }

  firstToken(id: string): void {
    const asked = this.#asked.get(id);
    if (asked !== undefined) asked.computed = true;
    const booked = this.#booked.get(id);
    if (booked === undefined) return;
    this.#adjust(booked.key, 0, -booked.uncachedTokens, 0);
    booked.uncachedTokens = 0;
  }

  renew(id: string, heldBlocks: number): void {
    const asked = this.#asked.get(id);
    if (asked !== undefined) asked.heldBlocks = heldBlocks;
    const booked = this.#booked.get(id);
    if (booked === undefined) return;
    this.#adjust(booked.key, 0, 0, heldBlocks - booked.heldBlocks);
    booked.heldBlocks = heldBlocks;
  }

  release(id: string): void {
    const asked = this.#asked.get(id);
    if (asked !== undefined) asked.abandoned = true;
    const booked = this.#booked.get(id);
    if (booked === undefined) return;
    this.#booked.delete(id);
    this.#adjust(booked.key, -1, -booked.uncachedTokens, -booked.heldBlocks);
  }

  /** What this router booked is no load any more. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    try {
      if (this.#link.isReady) await this.#link.client.hdel(ROUTERS_KEY, this.#router);
    } catch (error) {
      this.#link.failed(error); // Its lease ends by itself.
    }
    this.#link.close();
  }

  async #ask(id: string, bids: readonly SharedBid[], asked: Asked): Promise<SharedAnswer> {
    const keys = bids.map(({ worker, epoch }) => bookKey(worker, epoch));
    for (const key of keys) this.#keys.add(key);
    const syncs = this.#syncs;
    try {
      const numbers = await this.#run(RESERVE, [ROUTERS_KEY, ...keys], bids.flatMap(numbersOf));
      const answer = readAnswer(numbers, bids.length);
      this.#took(id, { asked, syncs, bid: bids[answer.chosen], key: keys[answer.chosen] });
      return answer;
    } finally {
      this.#asked.delete(id);
    }
  }

  /** The request is booked in Redis; what happened to it meanwhile is told now. */
  #took(
    id: string,
    how: { asked: Asked; syncs: number; bid: SharedBid | undefined; key: string | undefined },
  ): void {
    const { asked, syncs, bid, key } = how;
    if (bid === undefined || key === undefined) return;
    const { uncachedTokens, heldBlocks } = bid;
    if (syncs !== this.#syncs) this.#adjust(key, 1, uncachedTokens, heldBlocks);
    // A sync while Redis was asked forgot the book, which had nothing of this router yet.
    this.#keys.add(key);
    this.#booked.set(id, { key, uncachedTokens, heldBlocks });
    if (asked.computed) this.firstToken(id);
    if (asked.heldBlocks !== null) this.renew(id, asked.heldBlocks);
    if (asked.abandoned) this.release(id);
  }

  /** Rejects at the deadline. Timers run before answers are read, so those have one turn more. */
  async #within(answer: Promise<SharedAnswer>, asked: Asked): Promise<SharedAnswer> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_resolve, reject) => {
      const give = () => {
        asked.abandoned = true;
        reject(unreachable(`no answer within ${this.#deadlineMs} ms`));
      };
      timer = setTimeout(() => setImmediate(() => setImmediate(give)), this.#deadlineMs);
    });
    try {
      return await Promise.race([answer, late]);
    } catch (error) {
      asked.abandoned = true;
      throw error instanceof EngineError ? error : unreachable(String(error));
    } finally {
      clearTimeout(timer);
      answer.catch(() => {}); // Said by the link.
      late.catch(() => {});
    }
  }

  #adjust(key: string, requests: number, uncachedTokens: number, heldBlocks: number): void {
    if (!this.#link.isReady) return; // The next sync tells.
    const changes = [requests, uncachedTokens, heldBlocks];
    this.#run(ADJUST, [key], changes.map(String)).catch(() => {});
  }

  /** Writes all that this router has booked: it is alive, and the books are right. */
  async #sync(): Promise<void> {
    if (!this.#link.isReady) return;
    const sums = new Map(
      [...this.#keys].map((key) => [key, [0, 0, 0] as [number, number, number]]),
    );
    for (const { key, uncachedTokens, heldBlocks } of this.#booked.values()) {
      const sum = sums.get(key);
      assert(sum !== undefined, "Every reservation is in a known book");
      sum[0] += 1;
      sum[1] += uncachedTokens;
      sum[2] += heldBlocks;
    }
    for (const [key, [requests]] of sums) if (requests === 0) this.#keys.delete(key);
    this.#syncs++;
    const args = [...sums.values()].flat().map(String);
    await this.#run(SYNC, [ROUTERS_KEY, ...sums.keys()], args).catch(() => {});
  }

  async #run(
    script: string,
    keys: readonly string[],
    args: readonly string[],
  ): Promise<readonly unknown[]> {
    const { client } = this.#link;
    const all = [...keys, this.#router, `${this.#leaseMs}`, ...args];
    try {
      const answer = await client.evalsha(digestOf(script), keys.length, ...all);
      return Array.isArray(answer) ? answer : [];
    } catch (error) {
      if (!String(error).includes("NOSCRIPT")) {
        this.#link.failed(error);
        throw error;
      }
      const answer = await client.eval(script, keys.length, ...all);
      return Array.isArray(answer) ? answer : [];
    }
  }
}

const digests = new Map<string, string>();

function digestOf(script: string): string {
  const known = digests.get(script);
  if (known !== undefined) return known;
  const digest = createHash("sha1").update(script).digest("hex");
  digests.set(script, digest);
  return digest;
}

function numbersOf(bid: SharedBid): string[] {
  const { costMs, perUncachedTokenMs, perRequestMs, seen, uncachedTokens, heldBlocks } = bid;
  return [
    ...[costMs, perUncachedTokenMs, perRequestMs, seen.requests, seen.uncachedTokens],
    ...[Math.round(uncachedTokens), Math.round(heldBlocks)],
  ].map(String);
}

function readAnswer(numbers: readonly unknown[], count: number): SharedAnswer {
  const [chosen = -1, ...rest] = numbers.map(Number);
  if (rest.length !== 3 * count || !(chosen >= 0 && chosen < count)) {
    throw unreachable("an answer that is none");
  }
  const loads: SharedLoad[] = [];
  for (let place = 0; place < rest.length; place += 3) {
    const [requests = 0, uncachedTokens = 0, heldBlocks = 0] = rest.slice(place, place + 3);
    loads.push({ requests, uncachedTokens, heldBlocks });
  }
  return { chosen, loads };
}

function unreachable(reason: string): EngineError {
  const message = `Cannot reach the shared books: Redis must answer, current state is ${reason}`;
  return new EngineError("NETWORK", message);
}
