/**
 * An index of the nearest vectors: usearch's graph (Malkov, Yashunin, 2018) in half precision. It
 * proposes rows; their scores are computed from the vectors themselves.
 *
 * Rows are added and never removed: one that was deleted is passed over, and its number is not used
 * again until the graph is built anew.
 */
import { closeSync, fsyncSync, openSync } from "node:fs";
import type { Index, MetricKind, ScalarKind } from "usearch";
import type { Row } from "./vector-file.ts";

/** The library, where this platform has it. */
export type Usearch = typeof import("usearch");

/** Recall of the first ten results of a search for 64: bench/results/rag-stores.json. */
const CONNECTIVITY = 16;
const EXPANSION_ADD = 128;
const EXPANSION_SEARCH = 64;

export class VectorIndex {
  readonly #index: Index;
  /** Whether rows can be added. */
  readonly isWritable: boolean;

  private constructor(index: Index, isWritable: boolean) {
    this.#index = index;
    this.isWritable = isWritable;
  }

  static create(usearch: Usearch, dimensions: number): VectorIndex {
    return new VectorIndex(emptyIndex(usearch, dimensions), true);
  }

  /** A saved index: mapped into memory, to be read alone; or copied there, to be extended. */
  static open(
    usearch: Usearch,
    path: string,
    { dimensions, writable }: { readonly dimensions: number; readonly writable: boolean },
  ): VectorIndex {
    const index = emptyIndex(usearch, dimensions);
    if (writable) index.load(path);
    else index.view(path);
    return new VectorIndex(index, writable);
  }

  /** Rows that it has, deleted ones as well. */
  get size(): number {
    return this.#index.size();
  }

  /** `vectors` [rows, dimensions]. */
  add(rows: readonly Row[], vectors: Float32Array): void {
    this.#index.add(BigUint64Array.from(rows, BigInt), vectors, 1);
  }

  /** Rows near a vector, at most `most`: near ones may be missing, deleted ones among them. */
  near(vector: Float32Array, most: number): Row[] {
    if (this.size === 0) return [];
    const { keys } = this.#index.search(vector, Math.min(most, this.size), 1);
    return Array.from(keys, Number);
  }

  /** Writes it to a new file, durably. */
  save(path: string): void {
    this.#index.save(path);
    const file = openSync(path, "r+");
    fsyncSync(file);
    closeSync(file);
  }
}

function emptyIndex(usearch: Usearch, dimensions: number): Index {
  return new usearch.Index({
    dimensions,
    // Names of the library's enumerations, whose values they are.
    metric: "ip" as MetricKind,
    quantization: "f16" as ScalarKind,
    connectivity: CONNECTIVITY,
    expansion_add: EXPANSION_ADD,
    expansion_search: EXPANSION_SEARCH,
    multi: false,
  });
}
