import { philox } from "#base";

/** Places of one worker on the ring: with 64, shares of eight workers differ by some 10 %. */
const PLACES = 64;
const KEY = { low: 0x70657269, high: 0x72696e67 };

/**
 * Workers on a circle of 32-bit numbers; a key belongs to the first worker after it. A worker that
 * leaves gives its keys to those that follow, and no other key moves.
 */
export class HashRing {
  /** Ascending positions, and the worker's index at each. */
  readonly #positions: Float64Array;
  readonly #owners: Uint32Array;
  readonly #members: number;

  constructor(ids: readonly string[]) {
    const places = ids.flatMap((id, owner) =>
      placesOf(id).map((position) => ({ position, owner })),
    );
    places.sort((a, b) => a.position - b.position || a.owner - b.owner);
    this.#positions = Float64Array.from(places, ({ position }) => position);
    this.#owners = Uint32Array.from(places, ({ owner }) => owner);
    this.#members = ids.length;
  }

  /** Indices of the workers in the order that a key prefers them, each once. */
  *from(hash: readonly [number, number]): Generator<number> {
    const [position] = philox([hash[0] >>> 0, hash[1] >>> 0, 0, 0], KEY);
    const seen = new Set<number>();
    let at = this.#firstAtOrAfter(position);
    for (let turn = 0; turn < this.#owners.length; turn++, at++) {
      const owner = this.#owners[at % this.#owners.length] ?? 0;
      if (seen.has(owner)) continue;
      seen.add(owner);
      yield owner;
      if (seen.size === this.#members) return;
    }
  }

  #firstAtOrAfter(position: number): number {
    let low = 0;
    let high = this.#positions.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#positions[middle] ?? 0) < position) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

function placesOf(id: string): number[] {
  const [low, high] = hashText(id);
  return Array.from({ length: PLACES }, (_, place) => philox([low, high, place, 0], KEY)[0]);
}

/** A stable 64-bit hash of a text, as two 32-bit numbers. Source: FNV-1a, G. Fowler et al. 1991. */
export function hashText(text: string): [number, number] {
  let low = 0x811c9dc5;
  let high = 0x050c5d1f;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    low = Math.imul(low ^ unit, 0x01000193) >>> 0;
    high = Math.imul(high ^ (unit + at), 0x01000193) >>> 0;
  }
  return [low, high];
}
