import type { FetchedKv } from "#cluster/protocol";

/** Of a speed, what a newer measurement counts. */
const NEWEST = 1 / 4;
/** Less says nothing: it is the time of asking. */
const SAMPLE_TOKENS_MIN = 256;

/** What is known of a worker. */
interface Known {
  /** Up to where its fetches are in `tokensPerMs`. */
  counted: FetchedKv;
  /** 0: nothing was measured. */
  tokensPerMs: number;
}

const NOTHING: FetchedKv = { tokens: 0, seconds: 0 };

/**
 * How fast keys and values come to workers, by what these say of their fetches. One that fetched
 * nothing is taken for as quick as the others: it may be the one that sends to them.
 */
export class FetchSpeeds {
  readonly #workers = new Map<string, Known>();

  /** Nothing that was known of a worker of this name is true of one that joins. */
  join(id: string): void {
    this.#workers.set(id, { counted: NOTHING, tokensPerMs: 0 });
  }

  leave(id: string): void {
    this.#workers.delete(id);
  }

  /** `total`: since its start. Whether a speed changed. */
  told(id: string, total: FetchedKv): boolean {
    const known = this.#workers.get(id);
    if (known === undefined) return false;
    const tokens = total.tokens - known.counted.tokens;
    const ms = (total.seconds - known.counted.seconds) * 1000;
    if (tokens < 0 || ms < 0) known.counted = total;
    const sample = tokens / ms;
    if (tokens < SAMPLE_TOKENS_MIN || ms <= 0 || !Number.isFinite(sample)) return false;
    const before = known.tokensPerMs;
    known.tokensPerMs = before > 0 ? before + (sample - before) * NEWEST : sample;
    known.counted = total;
    return true;
  }

  /** Tokens a ms of each worker by id; 0: nothing was measured of any. */
  *all(): Iterable<readonly [string, number]> {
    const usual = this.#mean();
    for (const [id, { tokensPerMs }] of this.#workers) {
      yield [id, tokensPerMs > 0 ? tokensPerMs : usual];
    }
  }

  #mean(): number {
    let sum = 0;
    let count = 0;
    for (const { tokensPerMs } of this.#workers.values()) {
      if (tokensPerMs <= 0) continue;
      sum += tokensPerMs;
      count++;
    }
    return count === 0 ? 0 : sum / count;
  }
}
