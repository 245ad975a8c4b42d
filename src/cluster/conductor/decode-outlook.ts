/**
 * How many requests will decode at a time to come. Source: R. Qin et al. 2024, "Mooncake", section
 * 7.4 (prediction at system level): each decoding is taken to last a uniform time; requests whose
 * prompts will be computed by then are added, those whose time will be over are removed. The paper
 * does not publish that time: ours is measured.
 */

const BUCKET_MS = 100;

/** Requests and their tokens of context. */
export interface DecodingAt {
  readonly requests: number;
  readonly tokens: number;
}

/** A time to come. */
export interface OutlookTime {
  readonly atMs: number;
  readonly nowMs: number;
  /** How long a request decodes. */
  readonly decodeMs: number;
}

/** Counts of requests by the time at which they begin to decode. */
export class DecodeOutlook {
  /** Of requests that decode, by when they began. */
  readonly #began = new TimeBuckets();
  /** Of requests whose prompts are computed, by when these are predicted to end. */
  readonly #coming = new TimeBuckets();

  /** A prompt will be computed at a time. */
  expect(joinMs: number, tokens: number): void {
    this.#coming.add(joinMs, tokens, 1);
  }

  /** It will not: it is, or its request ended. */
  unexpect(joinMs: number, tokens: number): void {
    this.#coming.add(joinMs, tokens, -1);
  }

  began(atMs: number, tokens: number): void {
    this.#began.add(atMs, tokens, 1);
  }

  ended(beganMs: number, tokens: number): void {
    this.#began.add(beganMs, tokens, -1);
  }

  /** What decodes at `atMs`, seen from `nowMs`, where each request decodes for `decodeMs`. */
  at({ atMs, nowMs, decodeMs }: OutlookTime): DecodingAt {
    const from = atMs - decodeMs;
    const began = this.#began.sum(from, atMs);
    // A prompt that should be computed by now, and is not, will be soon: it counts as joining now.
    // One that joins so early that its time is over by then counts no more than one that decodes.
    const since = nowMs > from ? Number.NEGATIVE_INFINITY : from;
    const coming = this.#coming.sum(since, atMs);
    return {
      requests: began.requests + coming.requests,
      tokens: began.tokens + coming.tokens,
    };
  }
}

class TimeBuckets {
  readonly #requests = new Map<number, number>();
  readonly #tokens = new Map<number, number>();

  add(ms: number, tokens: number, sign: 1 | -1): void {
    const bucket = Math.floor(ms / BUCKET_MS);
    const requests = (this.#requests.get(bucket) ?? 0) + sign;
    if (requests === 0) {
      this.#requests.delete(bucket);
      this.#tokens.delete(bucket);
      return;
    }
    this.#requests.set(bucket, requests);
    this.#tokens.set(bucket, (this.#tokens.get(bucket) ?? 0) + sign * tokens);
  }

  /** Of buckets that begin behind `fromMs` and not behind `untilMs`: few, or all are looked at. */
  sum(fromMs: number, untilMs: number): DecodingAt {
    const first = Math.floor(fromMs / BUCKET_MS) + 1;
    const last = Math.floor(untilMs / BUCKET_MS);
    let requests = 0;
    let tokens = 0;
    if (last - first < this.#requests.size) {
      for (let bucket = first; bucket <= last; bucket++) {
        requests += this.#requests.get(bucket) ?? 0;
        tokens += this.#tokens.get(bucket) ?? 0;
      }
      return { requests, tokens };
    }
    for (const [bucket, count] of this.#requests) {
      if (bucket < first || bucket > last) continue;
      requests += count;
      tokens += this.#tokens.get(bucket) ?? 0;
    }
    return { requests, tokens };
  }
}
