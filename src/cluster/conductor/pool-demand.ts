/** What a fleet was asked for lately, whether it took it or not. */

/** As one router saw it; what several saw adds up. Of some time up to now. */
export interface PoolLoad {
  readonly spanMs: number;
  /** Requests that came in a ms, and those that were taken. */
  readonly asked: number;
  readonly taken: number;
  /** Predicted ms of computing prompts that came in a ms: so many workers are busy with them. */
  readonly promptWork: number;
  /** Requests that decode, their tokens of context, and by how many they grew in a ms. */
  readonly decoding: number;
  readonly decodingTokens: number;
  readonly growth: number;
  /** Of all lines of prompts, what is above the deadline, in ms. */
  readonly lateMs: number;
}

/** What several routers saw; null: none saw enough. */
export function sumOfLoads(loads: readonly PoolLoad[]): PoolLoad | null {
  const [first = null, ...others] = loads;
  if (first === null) return null;
  return others.reduce(
    (sum, load) => ({
      spanMs: Math.max(sum.spanMs, load.spanMs),
      asked: sum.asked + load.asked,
      taken: sum.taken + load.taken,
      promptWork: sum.promptWork + load.promptWork,
      decoding: sum.decoding + load.decoding,
      decodingTokens: sum.decodingTokens + load.decodingTokens,
      growth: sum.growth + load.growth,
      lateMs: sum.lateMs + load.lateMs,
    }),
    first,
  );
}

/** A request that was asked for. */
export interface AskedRequest {
  readonly prefillMs: number;
  readonly isTaken: boolean;
  /** Requests that decode when it comes. */
  readonly decoding: number;
}

interface Slot {
  readonly second: number;
  /** At its first request. */
  readonly decoding: number;
  asked: number;
  taken: number;
  prefillMs: number;
}

/** Less of it is chance. */
const SPAN_MS_MIN = 20_000;
const REQUESTS = 64;
/** What is older says nothing of now; fewer requests say nothing at all. */
const SPAN_MS_MAX = 300_000;
const REQUESTS_MIN = 16;

/**
 * Looks back over 20 s, or as long as the last 64 requests took to come, 300 s at most: where few
 * come, less would show what came by chance.
 */
export class PoolDemand {
  /** By seconds, the oldest first; those without a request have none. */
  readonly #slots: Slot[] = [];
  #sinceMs: number | null = null;

  add(nowMs: number, { prefillMs, isTaken, decoding }: AskedRequest): void {
    const slot = this.#slotAt(nowMs, decoding);
    slot.asked++;
    slot.prefillMs += prefillMs;
    if (isTaken) slot.taken++;
  }

  /** Null: too few were asked to say. */
  read(nowMs: number, decoding: number): Omit<PoolLoad, "decodingTokens" | "lateMs"> | null {
    const sum = { asked: 0, taken: 0, prefillMs: 0 };
    let spanMs = SPAN_MS_MIN;
    let before = decoding;
    for (let place = this.#slots.length - 1; place >= 0; place--) {
      const slot = this.#slots[place];
      if (slot === undefined) break;
      const ageMs = nowMs - slot.second * 1000;
      if (ageMs > SPAN_MS_MAX || (ageMs > SPAN_MS_MIN && sum.asked >= REQUESTS)) break;
      spanMs = Math.max(spanMs, ageMs);
      before = slot.decoding;
      sum.asked += slot.asked;
      sum.taken += slot.taken;
      sum.prefillMs += slot.prefillMs;
    }
    const seenMs = nowMs - (this.#sinceMs ?? nowMs);
    if (sum.asked < REQUESTS_MIN || seenMs < spanMs - 1000) return null;
    return {
      ...{ spanMs, asked: sum.asked / spanMs, taken: sum.taken / spanMs },
      ...{ promptWork: sum.prefillMs / spanMs, decoding, growth: (decoding - before) / spanMs },
    };
  }

  #slotAt(nowMs: number, decoding: number): Slot {
    this.#sinceMs ??= nowMs;
    const second = Math.floor(nowMs / 1000);
    const last = this.#slots.at(-1);
    if (last !== undefined && last.second >= second) return last;
    const made = { second, decoding, asked: 0, taken: 0, prefillMs: 0 };
    this.#slots.push(made);
    const oldest = second - SPAN_MS_MAX / 1000;
    while ((this.#slots[0]?.second ?? second) < oldest) this.#slots.shift();
    return made;
  }
}
