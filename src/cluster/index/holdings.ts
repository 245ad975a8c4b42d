/**
 * What each worker calls the blocks that it holds: its names, the node that each means, how often
 * each was announced per level, and their order by when they were announced or found last.
 */
import type { WorkerNumber } from "#cluster/protocol";
import type { HashSecret } from "./block-namer.ts";
import type { ByteBudget } from "./byte-budget.ts";
import { KeyedSlab } from "./keyed-slab.ts";
import { WORKERS_MAX } from "./member-sets.ts";

/**
 * Words of a holding: its key, the name of the node, ten bits of references per level, its
 * neighbours in the worker's order (numbers plus one), and when it was announced last. Half a line
 * of memory.
 */
const WORDS = 8;
const NODE = 2;
const REFERENCES = 4;
const BEFORE = 5;
const AFTER = 6;
const SEEN = 7;

const REFERENCE_BITS = 10;
/** Most references of a level that are counted; more are as this many. */
export const REFERENCES_MAX = (1 << REFERENCE_BITS) - 1;

/** Most names that are brought near at once. */
export const NEAR_MAX = 256;

export class Holdings {
  readonly #entries: KeyedSlab;
  /** Two words per worker that make keys of its names: equal names of two workers differ. */
  readonly #salts: Uint32Array;
  readonly #counts = new Uint32Array(WORKERS_MAX);
  /** Of each worker's order: numbers plus one; 0: it is empty. */
  readonly #oldest = new Uint32Array(WORKERS_MAX);
  readonly #newest = new Uint32Array(WORKERS_MAX);

  /** Of the names that were warmed last. */
  readonly #hashes = new Uint32Array(NEAR_MAX);

  /** `salts` are secret, two random words for each of WORKERS_MAX workers. */
  constructor(budget: ByteBudget, secret: HashSecret, salts: Uint32Array) {
    this.#entries = new KeyedSlab(WORDS, budget, secret);
    this.#salts = salts;
  }

  get count(): number {
    return this.#entries.count;
  }

  countOf(worker: WorkerNumber): number {
    return this.#counts[worker]!;
  }

  /** The worker with most holdings. */
  largest(): WorkerNumber {
    let largest = 0;
    for (let worker = 1; worker < WORKERS_MAX; worker++) {
      if (this.#counts[worker]! > this.#counts[largest]!) largest = worker;
    }
    return largest;
  }

  /** What a worker calls by this name; -1: nothing that is known. */
  find(worker: WorkerNumber, low: number, high: number): number {
    return this.#entries.find(
      (low ^ this.#salts[worker * 2]!) >>> 0,
      (high ^ this.#salts[worker * 2 + 1]!) >>> 0,
    );
  }

  /** Makes looking for a worker's names quick: at most `NEAR_MAX`, from block `from` on. */
  warm(worker: WorkerNumber, names: Uint32Array, from: number, until: number): void {
    const low = this.#salts[worker * 2]!;
    const high = this.#salts[worker * 2 + 1]!;
    for (let block = from; block < until; block++) {
      this.#hashes[block - from] = this.#entries.warm(
        (names[block * 2]! ^ low) >>> 0,
        (names[block * 2 + 1]! ^ high) >>> 0,
      );
    }
  }

  /** As `find`, of the name at a place of those that were warmed last. */
  findWarm(worker: WorkerNumber, place: number, low: number, high: number): number {
    return this.#entries.findHashed(
      this.#hashes[place]!,
      (low ^ this.#salts[worker * 2]!) >>> 0,
      (high ^ this.#salts[worker * 2 + 1]!) >>> 0,
    );
  }

  /**
   * What the first `count` names that were warmed last most likely mean, into `keys`; those of
   * which that is not quickly said are left out. How many. Of use to bring their nodes near.
   */
  guess(count: number, keys: Uint32Array): number {
    let guessed = 0;
    for (let place = 0; place < count; place++) {
      const id = this.#entries.guess(this.#hashes[place]!);
      if (id < 0) continue;
      keys[guessed * 2] = this.#word(id, NODE);
      keys[guessed * 2 + 1] = this.#word(id, NODE + 1);
      guessed++;
    }
    return guessed;
  }

  /**
   * The worker's newest, without references, under the name that was looked for last; -1: the
   * budget has no room.
   */
  insertSought(worker: WorkerNumber, low: number, high: number): number {
    const id = this.#entries.insertSought(
      (low ^ this.#salts[worker * 2]!) >>> 0,
      (high ^ this.#salts[worker * 2 + 1]!) >>> 0,
    );
    if (id < 0) return -1;
    this.#append(worker, id);
    this.#counts[worker] = this.#counts[worker]! + 1;
    return id;
  }

  remove(worker: WorkerNumber, id: number): void {
    this.#unlink(worker, id);
    this.#entries.remove(id);
    this.#counts[worker] = this.#counts[worker]! - 1;
  }

  /** The one that was announced or found longest ago; -1: the worker has none. */
  oldestOf(worker: WorkerNumber): number {
    return this.#oldest[worker]! - 1;
  }

  /** The one announced next; -1: it is the newest. */
  after(id: number): number {
    return this.#word(id, AFTER) - 1;
  }

  /** Makes it the worker's newest. */
  renew(worker: WorkerNumber, id: number, now: number): void {
    if (this.#newest[worker] !== id + 1) {
      this.#unlink(worker, id);
      this.#append(worker, id);
    }
    this.#set(id, SEEN, now);
  }

  seenAt(id: number): number {
    return this.#word(id, SEEN);
  }

  /** The halves of its node's name. */
  lowOf(id: number): number {
    return this.#word(id, NODE);
  }

  highOf(id: number): number {
    return this.#word(id, NODE + 1);
  }

  setName(id: number, low: number, high: number): void {
    this.#set(id, NODE, low);
    this.#set(id, NODE + 1, high);
  }

  references(id: number, level: number): number {
    return (this.#word(id, REFERENCES) >>> (level * REFERENCE_BITS)) & REFERENCES_MAX;
  }

  setReferences(id: number, level: number, count: number): void {
    const shift = level * REFERENCE_BITS;
    const others = this.#word(id, REFERENCES) & ~(REFERENCES_MAX << shift);
    this.#set(id, REFERENCES, others | (count << shift));
  }

  /** Whether it has references on no level. */
  isUnreferenced(id: number): boolean {
    return this.#word(id, REFERENCES) === 0;
  }

  #append(worker: WorkerNumber, id: number): void {
    const newest = this.#newest[worker]!;
    this.#set(id, BEFORE, newest);
    this.#set(id, AFTER, 0);
    if (newest === 0) this.#oldest[worker] = id + 1;
    else this.#set(newest - 1, AFTER, id + 1);
    this.#newest[worker] = id + 1;
  }

  #unlink(worker: WorkerNumber, id: number): void {
    const before = this.#word(id, BEFORE);
    const after = this.#word(id, AFTER);
    if (before === 0) this.#oldest[worker] = after;
    else this.#set(before - 1, AFTER, after);
    if (after === 0) this.#newest[worker] = before;
    else this.#set(after - 1, BEFORE, before);
  }

  #word(id: number, word: number): number {
    return this.#entries.chunkOf(id)[this.#entries.placeOf(id) + word]!;
  }

  #set(id: number, word: number, value: number): void {
    this.#entries.chunkOf(id)[this.#entries.placeOf(id) + word] = value;
  }
}
