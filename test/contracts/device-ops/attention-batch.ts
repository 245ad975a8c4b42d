import type { AttentionBatch, DeviceTensor, KvCache, KvFormat } from "#devices";
import type { Both, DevicePair } from "./pair.ts";
import { RandomNumbers } from "./random.ts";

export interface AttentionShape {
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly blockTokens: number;
  readonly format: KvFormat;
}

/** A sequence of `context` tokens whose last `rows` are this step's. */
export interface Span {
  readonly context: number;
  readonly rows: number;
}

const layers = 2;
/** The layer that tests use. */
export const layer = 1;

/** Sequences with keys and values in shuffled blocks of both devices. */
export class AttentionSetting {
  readonly pair: DevicePair;
  readonly shape: AttentionShape;
  readonly cache: Both<KvCache>;
  /** Block ids of each sequence, in position order. */
  readonly tables: readonly (readonly number[])[];
  readonly #random: RandomNumbers;

  /** `contexts`: tokens of each sequence. Slots that no token uses hold NaN. */
  constructor(pair: DevicePair, shape: AttentionShape, contexts: readonly number[], seed: number) {
    this.pair = pair;
    this.shape = shape;
    this.#random = new RandomNumbers(seed);
    const counts = contexts.map((context) => Math.ceil(context / shape.blockTokens));
    const blocks = counts.reduce((sum, count) => sum + count, 1);
    const ids = this.#random.order(blocks);
    this.tables = counts.map((count) => ids.splice(0, count));
    const { blockTokens, kvHeads, headDim, format } = shape;
    const options = { format, layers, blocks, blockTokens, kvHeads, headDim };
    this.cache = pair.make((device) => device.allocateKvCache(options));

    const slots = Array.from({ length: blocks * blockTokens }, (_, slot) => slot);
    this.#write(slots, new Float32Array(slots.length * this.#columns).fill(Number.NaN));
    contexts.forEach((context, sequence) => {
      const used = Array.from({ length: context }, (_, place) => this.slotOf(sequence, place));
      this.#write(used, this.#random.floats(context * this.#columns));
    });
  }

  get #columns(): number {
    return (this.shape.heads + 2 * this.shape.kvHeads) * this.shape.headDim;
  }

  slotOf(sequence: number, place: number): number {
    const { blockTokens } = this.shape;
    const block = this.tables[sequence]?.[Math.floor(place / blockTokens)] ?? 0;
    return block * blockTokens + (place % blockTokens);
  }

  /** Query rows [rows, H * D]. */
  queries(rows: number): Float32Array {
    return this.#random.floats(rows * this.shape.heads * this.shape.headDim);
  }

  /** `rows` [slots, (H + 2K) * D]. */
  #write(slots: readonly number[], rows: Float32Array): void {
    const { pair, shape } = this;
    const qkv = pair.f32([slots.length, this.#columns], rows);
    const query = pair.f32([slots.length, shape.heads * shape.headDim]);
    const places = pair.i32(slots);
    pair.run((device, pick) => {
      device.ropeKvWrite({
        count: slots.length,
        qkv: pick(qkv),
        query: pick(query),
        heads: shape.heads,
        cache: pick(this.cache),
        layer,
        positions: pick(places),
        slots: pick(places),
      });
    });
  }

  /** The step's batch: `spans[i]` belongs to sequence `sequences[i]`. */
  batch(spans: readonly Span[], sequences: readonly number[], treeMask?: Both<DeviceTensor>) {
    const width = Math.max(...this.tables.map((table) => table.length)) + 1;
    const tables = sequences.flatMap((sequence) => {
      const table = this.tables[sequence] ?? [];
      return Array.from({ length: width }, (_, i) => table[i] ?? -1);
    });
    const starts = [0];
    for (const { rows } of spans) starts.push((starts.at(-1) ?? 0) + rows);
    const queryStarts = this.pair.i32(starts);
    const contextLengths = this.pair.i32(spans.map(({ context }) => context));
    const blockTables = this.pair.i32(tables, [spans.length, width]);
    const sizes = {
      sequences: spans.length,
      queryLengthMax: Math.max(...spans.map(({ rows }) => rows)),
      contextLengthMax: Math.max(...spans.map(({ context }) => context)),
    };
    const side = (which: "defined" | "tested"): AttentionBatch => ({
      ...sizes,
      queryStarts: queryStarts[which],
      contextLengths: contextLengths[which],
      blockTables: blockTables[which],
      ...(treeMask === undefined ? {} : { treeMask: treeMask[which] }),
    });
    return { defined: side("defined"), tested: side("tested") };
  }

  /** What the tested device computes for `queries` [rows, H * D] of some spans. */
  async attendTested(
    spans: readonly Span[],
    sequences: readonly number[],
    queries: Float32Array,
  ): Promise<Float32Array> {
    const { heads, headDim } = this.shape;
    const { tested } = this.pair;
    const rows = queries.length / (heads * headDim);
    const query = tested.allocate("f32", [rows, heads * headDim]);
    const out = tested.allocateActivation("f32", rows, heads * headDim);
    tested.write(query, queries);
    tested.pagedAttention({
      count: rows,
      out,
      query,
      heads,
      cache: this.cache.tested,
      layer,
      batch: this.batch(spans, sequences).tested,
      scale: 1 / Math.sqrt(headDim),
    });
    return tested.readF32(out);
  }
}
