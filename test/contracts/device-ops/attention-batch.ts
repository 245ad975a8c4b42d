import type { AttentionBatch, DeviceTensor, KvFormat, KvPool, KvScales } from "#devices";
import type { Both, DevicePair } from "./pair.ts";
import { RandomNumbers } from "./random.ts";

export interface AttentionShape {
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly blockTokens: number;
  readonly format: KvFormat;
  /** Calibrated, for both layers. */
  readonly scales?: KvScales;
}

/** A sequence of `context` tokens whose last `rows` are this step's. */
/** Masks of token trees, as in `AttentionBatch`. */
export interface Trees {
  readonly treeMask?: Both<DeviceTensor>;
  readonly treeStarts?: Both<DeviceTensor>;
}

export interface Span {
  readonly context: number;
  readonly rows: number;
}

/** Sinks, and the rows [rows, H * D] that score them. */
export interface SinkQueries {
  readonly tokens: number;
  readonly queries: Float32Array;
}

/** Whether a place of a sequence is hidden from every row: what lies there may belong to any sequence. */
export type Hidden = (sequence: number, place: number) => boolean;

interface Rows {
  readonly qkv: Both<DeviceTensor>;
  readonly query: Both<DeviceTensor>;
}

const layers = 2;
/** No pool has this block: reading it fails loudly. */
const nobodysBlock = 2 ** 26;
/** The layer that tests use. */
export const layer = 1;

/** Sequences with keys and values in shuffled blocks of both devices. */
export class AttentionSetting {
  readonly pair: DevicePair;
  readonly shape: AttentionShape;
  readonly cache: Both<KvPool>;
  /** Block ids of each sequence, in position order. */
  readonly tables: readonly (readonly number[])[];
  readonly #random: RandomNumbers;

  /**
   * `contexts`: tokens of each sequence. Slots that no token uses hold NaN, and so do those of
   * hidden places; tables name for blocks of hidden places alone one full of NaN, or none at all.
   */
  constructor(
    pair: DevicePair,
    shape: AttentionShape,
    contexts: readonly number[],
    seed: number,
    hidden: Hidden = () => false,
  ) {
    this.pair = pair;
    this.shape = shape;
    this.#random = new RandomNumbers(seed);
    const counts = contexts.map((context) => Math.ceil(context / shape.blockTokens));
    const blocks = counts.reduce((sum, count) => sum + count, 1);
    const ids = this.#random.order(blocks);
    const tables = counts.map((count) => ids.splice(0, count));
    const [spare = 0] = ids;
    const { heads: _heads, ...kept } = shape;
    const { blockTokens } = shape;
    const options = { ...kept, layers, blocks };
    this.cache = pair.make((device) => device.allocateKvPool(options));

    const slots = Array.from({ length: blocks * blockTokens }, (_, slot) => slot);
    this.#fillWithNaN(slots);
    this.tables = tables;
    contexts.forEach((context, sequence) => {
      const places = Array.from({ length: context }, (_, place) => place);
      const used = places.filter((place) => !hidden(sequence, place));
      const slots = used.map((place) => this.slotOf(sequence, place));
      this.#write(slots, this.#rows(this.#random.floats(used.length * this.#columns)));
    });
    this.tables = tables.map((table, sequence) =>
      table.map((block, i) => {
        const places = Array.from({ length: blockTokens }, (_, at) => i * blockTokens + at);
        const seen = places.some((place) => !hidden(sequence, place));
        return seen ? block : i % 2 === 0 ? spare : nobodysBlock;
      }),
    );
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

  /** Some slots at a time, from the same rows. */
  #fillWithNaN(slots: readonly number[]): void {
    const count = Math.min(slots.length, 64);
    const rows = this.#rows(new Float32Array(count * this.#columns).fill(Number.NaN));
    for (let start = 0; start < slots.length; start += count) {
      this.#write(slots.slice(start, start + count), rows);
    }
  }

  /** Rows [T, (H + 2K) * D] that can be written, with room for their queries. */
  #rows(data: Float32Array): Rows {
    const { heads, headDim } = this.shape;
    const count = data.length / this.#columns;
    const qkv = this.pair.f32([count, this.#columns], data);
    return { qkv, query: this.pair.f32([count, heads * headDim]) };
  }

  /** The first of the rows go to `slots`. */
  #write(slots: readonly number[], { qkv, query }: Rows): void {
    const { pair, shape } = this;
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
  batch(spans: readonly Span[], sequences: readonly number[], trees: Trees = {}) {
    const { treeMask, treeStarts } = trees;
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
      ...(treeStarts === undefined ? {} : { treeStarts: treeStarts[which] }),
    });
    return { defined: side("defined"), tested: side("tested") };
  }

  /** What the tested device computes for `queries` [rows, H * D] of some spans. */
  async attendTested(
    spans: readonly Span[],
    sequences: readonly number[],
    queries: Float32Array,
    seen: { readonly window?: number; readonly sinks?: SinkQueries } = {},
  ): Promise<Float32Array> {
    const { heads, headDim } = this.shape;
    const { tested } = this.pair;
    const rows = queries.length / (heads * headDim);
    const tensorOf = (values: Float32Array): DeviceTensor => {
      const tensor = tested.allocate("f32", [rows, heads * headDim]);
      tested.write(tensor, values);
      return tensor;
    };
    const { window, sinks } = seen;
    const out = tested.allocateActivation("f32", rows, heads * headDim);
    tested.pagedAttention({
      count: rows,
      out,
      query: tensorOf(queries),
      heads,
      cache: this.cache.tested,
      layer,
      batch: this.batch(spans, sequences).tested,
      scale: 1 / Math.sqrt(headDim),
      ...(window === undefined ? {} : { window }),
      ...(sinks && { sinks: { tokens: sinks.tokens, query: tensorOf(sinks.queries) } }),
    });
    return tested.readF32(out);
  }
}
