/** Attention of many query rows on the emulated GPU, beside its definition. */
import { expect, test } from "vitest";
import type { PagedAttentionInput } from "#devices";
import {
  AttentionSetting,
  type AttentionShape,
  layer,
  type Span,
} from "../../contracts/device-ops/attention-batch.ts";
import type { Pick } from "../../contracts/device-ops/pair.ts";
import { RandomNumbers } from "../../contracts/device-ops/random.ts";
import { eachNth } from "../../support/full.ts";
import { describeEmulated, openPair } from "./describe-emulated.ts";

/**
 * Queries, weights and the output are rounded to 16 bits, 2^-9 of each; values are of variance 1,
 * and a row that sees one position alone is as large as its value.
 */
const rounding = { absolute: 2 ** -6, relative: 2 ** -7 };

interface Case {
  readonly name: string;
  readonly shape: AttentionShape;
  /** [context, rows]. */
  readonly spans: readonly (readonly [number, number])[];
  readonly window?: number;
  readonly softcap?: number;
  readonly sinks?: number;
  readonly isTree?: true;
}

/** Blocks of 4 tokens keep the general kernel: larger ones may go to Hopper's own. */
const llama = { heads: 8, kvHeads: 2, headDim: 128, blockTokens: 4, format: "bf16" } as const;

/** A row more than a query tile, contexts that end anywhere in a KV tile, and decodes between. */
const chunks = [
  [90, 33],
  [40, 1],
  [7, 7],
  [20, 0],
  [65, 65],
] as const;

const cases: readonly Case[] = [
  { name: "chunks among decodes", shape: llama, spans: chunks },
  { name: "f16", shape: { ...llama, format: "f16" }, spans: chunks },
  { name: "i8", shape: { ...llama, format: "i8" }, spans: chunks },
  { name: "fp8", shape: { ...llama, format: "fp8" }, spans: [[70, 40]] },
  {
    name: "calibrated i8",
    shape: {
      ...llama,
      format: "i8",
      scales: { key: new Float32Array([0.02, 0.03]), value: new Float32Array([0.04, 0.05]) },
    },
    spans: [[70, 40]],
  },
  { name: "heads of 64", shape: { ...llama, headDim: 64 }, spans: chunks },
  { name: "heads of 40", shape: { ...llama, headDim: 40, format: "fp8" }, spans: [[70, 40]] },
  { name: "heads of 80", shape: { ...llama, headDim: 80, blockTokens: 16 }, spans: chunks },
  { name: "heads of 256", shape: { ...llama, headDim: 256 }, spans: [[70, 40]] },
  {
    name: "heads of 200 in i8",
    shape: { ...llama, headDim: 200, format: "i8" },
    spans: [[45, 40]],
  },
  { name: "a group of 1", shape: { ...llama, kvHeads: 8 }, spans: [[150, 130]] },
  { name: "a group of 3", shape: { ...llama, heads: 3, kvHeads: 1 }, spans: chunks },
  { name: "a window", shape: llama, spans: chunks, window: 40 },
  { name: "a window of one", shape: { ...llama, format: "i8" }, spans: chunks, window: 1 },
  { name: "sinks", shape: llama, spans: chunks, window: 40, sinks: 4 },
  { name: "many sinks", shape: llama, spans: [[190, 90]], window: 90, sinks: 70 },
  { name: "softcap", shape: llama, spans: chunks, softcap: 1.5 },
  { name: "softcap in fp8", shape: { ...llama, format: "fp8" }, spans: chunks, softcap: 1.5 },
  { name: "a tree", shape: { ...llama, blockTokens: 1 }, spans: [[90, 40]], isTree: true },
  { name: "a tree in i8", shape: { ...llama, format: "i8" }, spans: [[70, 9]], isTree: true },
];

/** Rows of a tree that no other row sees are given no key and no value. */
function isUnseen(row: number): boolean {
  return row % 5 === 3;
}

/** [rows, words]: a row sees about half of the rows before it, and itself; set bits hide a row. */
function treeBits(rows: number): Uint32Array {
  const random = new RandomNumbers(5);
  const words = Math.ceil(rows / 32);
  const bits = new Uint32Array(rows * words);
  for (let row = 0; row < rows; row++) {
    for (let other = 0; other <= row; other++) {
      if (!isUnseen(other) && (other === row || random.uniform() < 0.5)) continue;
      const at = row * words + Math.floor(other / 32);
      bits[at] = (bits[at] ?? 0) | (1 << (other % 32));
    }
  }
  return bits;
}

describeEmulated("prefill attention, emulated", openPair, (pair) => {
  test.for(eachNth(4, cases))("equals the definition: $name", async (given) => {
    const { shape, window, softcap, sinks = 0 } = given;
    const spans: Span[] = given.spans.map(([context, rows]) => ({ context, rows }));
    const hidden = (sequence: number, place: number) => {
      const { context = 0, rows = 0 } = spans[sequence] ?? {};
      if (given.isTree) return place >= context - rows && isUnseen(place - context + rows);
      if (window === undefined || rows === 0) return rows === 0;
      return place >= sinks && place <= context - rows - (window - sinks);
    };
    const contexts = spans.map(({ context }) => context);
    const setting = new AttentionSetting(pair, shape, contexts, spans.length, hidden);
    const count = spans.reduce((sum, { rows }) => sum + rows, 0);
    const treeMask = given.isTree
      ? pair.u32(treeBits(count), [count, Math.ceil(count / 32)])
      : undefined;
    const batch = setting.batch(spans, [...spans.keys()], treeMask && { treeMask });
    const columns = shape.heads * shape.headDim;
    const query = pair.f32([count, columns], setting.queries(count));
    const sinkQuery = pair.f32([count, columns], new RandomNumbers(3).floats(count * columns));
    const out = pair.activation("bf16", count, columns);
    const inputOf = (pick: Pick): PagedAttentionInput => ({
      count,
      out: pick(out),
      query: pick(query),
      heads: shape.heads,
      cache: pick(setting.cache),
      layer,
      batch: pick(batch),
      scale: 1 / Math.sqrt(shape.headDim),
      ...(window === undefined ? {} : { window }),
      ...(softcap === undefined ? {} : { softcap }),
      ...(sinks === 0 ? {} : { sinks: { tokens: sinks, query: pick(sinkQuery) } }),
    });
    pair.run((device, pick) => device.pagedAttention(inputOf(pick)));
    await pair.expectClose(out, rounding);
  });

  test("every row is written by one of the kernels, whatever the others of its batch", async () => {
    const spans = [1, 40, 1, 5, 33].map((rows) => ({ context: 60, rows }));
    const contexts = spans.map(({ context }) => context);
    const setting = new AttentionSetting(pair, llama, contexts, 9);
    const count = spans.reduce((sum, { rows }) => sum + rows, 0);
    const queries = setting.queries(count);
    const together = await attendTested(setting, spans, [0, 1, 2, 3, 4], queries);
    const columns = llama.heads * llama.headDim;
    expect(together.length).toBe(count * columns);
    expect(together.every((value) => Number.isFinite(value) && value !== 0)).toBe(true);
  });

  /** Rows of the tested device alone. */
  async function attendTested(
    setting: AttentionSetting,
    spans: readonly Span[],
    sequences: readonly number[],
    queries: Float32Array,
  ): Promise<Float32Array> {
    const device = pair.tested;
    const columns = llama.heads * llama.headDim;
    const count = queries.length / columns;
    const query = device.allocate("f32", [count, columns]);
    device.write(query, queries);
    const out = device.allocateActivation("bf16", count, columns);
    const batch = setting.batch(spans, sequences).tested;
    const cache = setting.cache.tested;
    device.pagedAttention({
      ...{ count, out, query, heads: llama.heads, cache, layer, scale: 0.1, batch },
    });
    return await device.readF32(out);
  }
});
