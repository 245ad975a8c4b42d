/**
 * A device whose slots hold, instead of keys and values, a digest of the history they belong to. A
 * position read with another history's digest would be a wrong token on a real one.
 */
import type { BlockMove, CacheWindow, DiskJob } from "#kvcache";
import type { Sequence } from "#scheduler";

export interface DeviceItem {
  /** Block ids of the sequence when its step began. */
  readonly table: readonly number[];
  readonly digests: readonly number[];
  readonly start: number;
  readonly count: number;
}

/** digests[i]: a number for scope and tokens 0 up to and including i; 52 bits. */
export function digestsOf(sequence: Sequence): number[] {
  let digest = sequence.blockTable.scope.length + 1;
  return Array.from(sequence.tokens.view(), (token) => {
    digest = (digest * 1_000_003 + token * 7919 + 1) % 4_503_599_627_370_449;
    return digest;
  });
}

/** Blocks of device and host memory, and files. */
export class PretendDevice {
  readonly #blockTokens: number;
  readonly #window: CacheWindow | null;
  readonly #slots: Float64Array;
  readonly #files = new Map<string, Float64Array>();

  constructor(shape: { blocks: number; blockTokens: number; window: CacheWindow | null }) {
    this.#blockTokens = shape.blockTokens;
    this.#window = shape.window;
    this.#slots = new Float64Array(shape.blocks * shape.blockTokens).fill(Number.NaN);
  }

  /** Copies, in order. */
  move(moves: readonly BlockMove[]): void {
    for (const { from, to } of moves) this.#block(to).set(this.#block(from));
  }

  /** A job between host memory and a file; false: the file is not there. */
  doJob(job: DiskJob): boolean {
    const { key } = job.file;
    if (job.kind === "delete") return this.#files.delete(key);
    if (job.kind === "write") {
      this.#files.set(key, this.#block(job.host).slice());
      return true;
    }
    const file = this.#files.get(key);
    if (file !== undefined) this.#block(job.host).set(file);
    return file !== undefined;
  }

  /** Slots are written by all items of a step before any of them reads. */
  run(items: readonly DeviceItem[]): void {
    for (const item of items) this.#write(item);
    for (const item of items) this.#checkPast(item);
  }

  #write({ table, digests, start, count }: DeviceItem): void {
    for (let position = start; position < start + count; position++) {
      this.#slots[this.#slot(table, position)] = digests[position] ?? Number.NaN;
    }
  }

  #checkPast({ table, digests, start, count }: DeviceItem): void {
    // A step planned ahead may compute positions behind its sequence's end, for nobody.
    const end = Math.min(start + count, digests.length);
    for (let position = 0; position < end; position++) {
      if (!this.#isSeen(position, start)) continue;
      const stored = this.#slots[this.#slot(table, position)];
      if (stored !== digests[position]) {
        throw new Error(`Position ${position} holds another history's keys and values`);
      }
    }
  }

  /** Whether queries from `first` on see a position. */
  #isSeen(position: number, first: number): boolean {
    if (this.#window === null || position < this.#window.sinkTokens) return true;
    return position > first - (this.#window.tokens - this.#window.sinkTokens);
  }

  #block(block: number): Float64Array {
    return this.#slots.subarray(block * this.#blockTokens, (block + 1) * this.#blockTokens);
  }

  #slot(table: readonly number[], position: number): number {
    const block = table[Math.floor(position / this.#blockTokens)];
    if (block === undefined) throw new Error(`Position ${position} has no block`);
    return block * this.#blockTokens + (position % this.#blockTokens);
  }
}
