/**
 * Changes as 32-bit words in shared memory, which all shards read. A scope is a number: what it
 * means is sent beside the words, once.
 *
 *   stored   1 worker level scope hasParent low high names tokens, then the names and the tokens
 *   removed  2 worker level+1 names, then the names; level+1 is 0 for all levels
 *   moved    3 worker from to names, then the names
 *   cleared  4 worker level+1
 *   joined   5 worker;  left  6 worker;  reset  7 worker
 */
import type { KvChange, KvLevel, KvScope, WorkerNumber } from "#cluster/protocol";
import type { KvIndex } from "./kv-index.ts";

const STORED = 1;
const REMOVED = 2;
const MOVED = 3;
const CLEARED = 4;
/** Words that say what becomes of a worker as a whole. */
export const JOINED = 5;
export const LEFT = 6;
export const RESET = 7;

const HEAD_WORDS_MAX = 9;

/** Words that a change takes at most. */
export function wordsOf(change: KvChange): number {
  const names = change.type === "cleared" ? 0 : change.names.length;
  return HEAD_WORDS_MAX + names + (change.type === "stored" ? change.tokens.length : 0);
}

/** Writes a change at `at`; the place behind it. */
export function writeChange(
  words: Uint32Array,
  at: number,
  worker: WorkerNumber,
  { change, scope }: { readonly change: KvChange; readonly scope: number },
): number {
  switch (change.type) {
    case "stored": {
      const { level, parent, names, tokens } = change;
      const [low = 0, high = 0] = parent ?? [];
      const isRoot = parent === null ? 0 : 1;
      const head = [STORED, worker, level, scope, isRoot, low, high, names.length, tokens.length];
      return append(words, append(words, append(words, at, head), names), tokens);
    }
    case "removed": {
      const head = [REMOVED, worker, levelWord(change.level), change.names.length];
      return append(words, append(words, at, head), change.names);
    }
    case "moved": {
      const head = [MOVED, worker, change.from, change.to, change.names.length];
      return append(words, append(words, at, head), change.names);
    }
    case "cleared":
      return append(words, at, [CLEARED, worker, levelWord(change.level)]);
  }
}

/** Lets an index take over the words up to `end`. */
export function applyWords(
  index: KvIndex,
  words: Uint32Array,
  scopes: ReadonlyMap<number, KvScope>,
): void {
  const reader = new WordReader(words);
  while (!reader.isAtEnd) {
    const type = reader.next();
    const worker = reader.next();
    if (type === JOINED) index.join();
    else if (type === LEFT) index.leave(worker);
    else if (type === RESET) index.reset(worker);
    else index.apply(worker, [readChange(type, reader, scopes)]);
  }
}

function readChange(
  type: number,
  reader: WordReader,
  scopes: ReadonlyMap<number, KvScope>,
): KvChange {
  if (type === STORED) {
    const level = reader.next() as KvLevel;
    const scope = scopes.get(reader.next());
    if (scope === undefined) throw new Error("A scope was not sent");
    const hasParent = reader.next() === 1;
    const parent = reader.take(2);
    const names = reader.next();
    const tokens = reader.next();
    return {
      ...{ type: "stored", scope, level, parent: hasParent ? parent : null },
      ...{ names: reader.take(names), tokens: reader.take(tokens) },
    };
  }
  if (type === REMOVED) {
    const level = levelOf(reader.next());
    return { type: "removed", level, names: reader.take(reader.next()) };
  }
  if (type === MOVED) {
    const from = reader.next() as KvLevel;
    const to = reader.next() as KvLevel;
    return { type: "moved", from, to, names: reader.take(reader.next()) };
  }
  return { type: "cleared", level: levelOf(reader.next()) };
}

class WordReader {
  readonly #words: Uint32Array;
  #at = 0;

  constructor(words: Uint32Array) {
    this.#words = words;
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#words.length;
  }

  next(): number {
    return this.#words[this.#at++]!;
  }

  /** A view of the next words. */
  take(count: number): Uint32Array {
    this.#at += count;
    return this.#words.subarray(this.#at - count, this.#at);
  }
}

function append(words: Uint32Array, at: number, values: ArrayLike<number>): number {
  words.set(values, at);
  return at + values.length;
}

function levelWord(level: KvLevel | null): number {
  return level === null ? 0 : level + 1;
}

function levelOf(word: number): KvLevel | null {
  return word === 0 ? null : ((word - 1) as KvLevel);
}
