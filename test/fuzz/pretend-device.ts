/**
 * A device whose slots hold, instead of keys and values, a digest of the history they belong to. A
 * position read with another history's digest would be a wrong token on a real one.
 */
import type { BlockMove, CacheWindow, DiskJob, KvCacheShape } from "#kvcache";
import type { Sequence } from "#scheduler";
import { digestIn } from "./pretend-sequence.ts";

type Windows = Pick<KvCacheShape, "windows">;

export interface DeviceItem {
  /** By group of layers: block ids of the sequence when its step began. */
  readonly tables: readonly (readonly number[])[];
  readonly digests: readonly number[];
  readonly start: number;
  readonly count: number;
}

/** digests[i]: a number for scope and tokens 0 up to and including i; 52 bits. */
export function digestsOf(sequence: Sequence, further: readonly number[] = []): number[] {
  let digest = sequence.blockTable.scope.length + 1;
  return Array.from([...sequence.tokens.view(), ...further], (token) => {
    digest = (digest * 1_000_003 + token * 7919 + 1) % 4_503_599_627_370_449;
    return digest;
  });
}

/** Blocks of device and host memory, and files. */
export class PretendDevice {
  readonly #blockTokens: number;
  readonly #windows: readonly (CacheWindow | null)[];
  readonly #slots: Float64Array;
  readonly #files = new Map<string, Float64Array>();

  /** `windows`: by group of layers. */
  constructor(shape: Pick<KvCacheShape, "blocks" | "blockTokens"> & Required<Windows>) {
    this.#blockTokens = shape.blockTokens;
    this.#windows = shape.windows;
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

  #write({ tables, digests, start, count }: DeviceItem): void {
    for (const [group, table] of tables.entries()) {
      for (let position = start; position < start + count; position++) {
        const digest = digestIn(digests[position] ?? Number.NaN, group);
        this.#slots[this.#slot(table, position)] = digest;
      }
    }
  }

  #checkPast({ tables, digests, start, count }: DeviceItem): void {
    // A step planned ahead may compute positions behind its sequence's end, which nothing reads.
    const end = Math.min(start + count, digests.length);
    for (const [group, table] of tables.entries()) {
      for (let position = 0; position < end; position++) {
        if (!this.#isSeen(position, { first: start, group })) continue;
        const stored = this.#slots[this.#slot(table, position)];
        if (stored !== digestIn(digests[position] ?? Number.NaN, group)) {
          throw new Error(`Position ${position} holds another history's keys and values`);
        }
      }
    }
  }

  /** Whether queries of a group from `first` on see a position. */
  #isSeen(position: number, { first, group }: { first: number; group: number }): boolean {
    const window = this.#windows[group] ?? null;
    if (window === null || position < window.sinkTokens) return true;
    return position > first - (window.tokens - window.sinkTokens);
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
