import type { Candidate } from "#cluster/protocol";
import { HashRing } from "./hash-ring.ts";

/**
 * A key's worker by consistent hashing with bounded loads: a worker that has more than `bound`
 * times the mean of requests is passed over, and its excess goes on along the ring.
 * Source: V. Mirrokni, M. Thorup, M. Zadimoghaddam 2018, "Consistent hashing with bounded loads".
 */
export class RingChoice {
  readonly #bound: number;
  #ring = new HashRing([]);
  #ids: readonly string[] = [];

  constructor(bound: number) {
    this.#bound = bound;
  }

  /** An index, and whether it is the first that the key prefers. */
  choose(hash: readonly [number, number], candidates: readonly Candidate[]): RingPlace {
    const ring = this.#ringOf(candidates);
    const requests = candidates.reduce((sum, { books }) => sum + books.requests, 0);
    const most = Math.ceil((this.#bound * (requests + 1)) / candidates.length);
    let preferred = true;
    let chosen = 0;
    for (const index of ring.from(hash)) {
      const booked = candidates[index]?.books.requests ?? 0;
      if (preferred) chosen = index;
      if (booked < most) return { chosen: index, preferred };
      preferred = false;
    }
    return { chosen, preferred: true };
  }

  #ringOf(candidates: readonly Candidate[]): HashRing {
    const same =
      candidates.length === this.#ids.length &&
      candidates.every(({ info }, at) => info.id === this.#ids[at]);
    if (same) return this.#ring;
    this.#ids = candidates.map(({ info }) => info.id);
    this.#ring = new HashRing(this.#ids);
    return this.#ring;
  }
}

/** Where a key went. */
export interface RingPlace {
  readonly chosen: number;
  readonly preferred: boolean;
}
