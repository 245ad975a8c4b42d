/** How many nodes hold the blocks that a trace asks for most. */
import type { KvChange } from "#cluster";
import type { TraceRequest } from "../trace.ts";

/** Ranks that are counted: the block that most requests have, and those further down. */
export const HOT_RANKS: readonly number[] = [1, 10, 30, 100];

/** Traces number blocks by their order, and vocabularies are smaller: above, none is counted. */
const NUMBERED_MAX = 2 ** 27;

const TWO_TO_32 = 2 ** 32;

/** Follows what nodes store and evict; bounded by the number of ranks. */
export class HotBlocks {
  /** Place in the list of ranks, by the trace's number of the block. */
  readonly #places = new Map<number, number>();
  /** The same by the name that caches give it: learnt when it is stored. */
  readonly #named = new Map<number, number>();
  readonly #replicas: number[];

  constructor(requests: readonly TraceRequest[]) {
    const ranked = mostUsed(requests, HOT_RANKS.at(-1) ?? 0);
    HOT_RANKS.forEach((rank, place) => {
      const block = ranked[rank - 1];
      if (block !== undefined) this.#places.set(block, place);
    });
    this.#replicas = HOT_RANKS.map(() => 0);
  }

  /** By rank: nodes that hold the block now. */
  get replicas(): readonly number[] {
    return [...this.#replicas];
  }

  apply(changes: readonly KvChange[]): void {
    for (const change of changes) {
      if (change.type === "stored") this.#stored(change.tokens, change.names);
      else if (change.type === "removed") this.#removed(change.names);
    }
  }

  #stored(tokens: Uint32Array, names: Uint32Array): void {
    for (let at = 0; at < tokens.length; at++) {
      const place = this.#places.get(tokens[at] ?? -1);
      if (place === undefined) continue;
      this.#named.set(nameAt(names, at), place);
      this.#count(place, 1);
    }
  }

  #removed(names: Uint32Array): void {
    for (let at = 0; 2 * at < names.length; at++) {
      const place = this.#named.get(nameAt(names, at));
      if (place !== undefined) this.#count(place, -1);
    }
  }

  #count(place: number, by: 1 | -1): void {
    this.#replicas[place] = (this.#replicas[place] ?? 0) + by;
  }
}

/** 53 bits of the name's 64: enough to tell a few from all others. */
function nameAt(names: Uint32Array, at: number): number {
  return (names[2 * at + 1] ?? 0) * TWO_TO_32 + (names[2 * at] ?? 0);
}

/** Numbers of blocks, those of most requests first; among equals the earlier one. */
function mostUsed(requests: readonly TraceRequest[], count: number): number[] {
  const uses = usesOf(requests);
  const least = Math.max(1, uses.slice().sort().at(-count) ?? 1);
  const found = new Set<number>();
  for (const { ids } of requests) for (const id of ids) if ((uses[id] ?? 0) >= least) found.add(id);
  return [...found].sort((a, b) => (uses[b] ?? 0) - (uses[a] ?? 0));
}

/** By number: requests that have the block. A table: a million requests have 25 million blocks. */
function usesOf(requests: readonly TraceRequest[]): Uint32Array {
  let most = -1;
  for (const { ids } of requests) for (const id of ids) if (id > most) most = id;
  const uses = new Uint32Array(Math.min(most + 1, NUMBERED_MAX));
  for (const { ids } of requests) for (const id of ids) uses[id] = (uses[id] ?? 0) + 1;
  return uses;
}
