/** Attention of few query rows on the emulated GPU, beside its definition. */
import { expect, test } from "vitest";
import type { PagedAttentionInput } from "#devices";
import { canAttendDecode } from "../../../src/devices/cuda/ops/attend-decode.ts";
import {
  AttentionSetting,
  type AttentionShape,
  layer,
  type Span,
} from "../../contracts/device-ops/attention-batch.ts";
import type { Pick } from "../../contracts/device-ops/pair.ts";
import { RandomNumbers } from "../../contracts/device-ops/random.ts";
import { eachNth, sized } from "../../support/full.ts";
import { describeEmulated, openPair } from "./describe-emulated.ts";

/**
 * Queries and weights are rounded to bf16: a score is off by up to 2^-9 of its size, and so is what
 * it weighs. The output is rounded to bf16, too.
 */
const rounding = { absolute: 1.5e-2, relative: 2 ** -6 };

interface More {
  readonly window?: number;
  readonly softcap?: number;
  readonly sinks?: number;
  /** What contexts are taken for at least. */
  readonly contextMax?: number;
}

interface Case {
  readonly name: string;
  readonly shape: AttentionShape;
  /** [context, rows]. */
  readonly spans: readonly (readonly [number, number])[];
  readonly more?: More;
}

const llama = { heads: 8, kvHeads: 2, headDim: 128, blockTokens: 16, format: "bf16" } as const;

const decodes = [
  [70, 1],
  [1, 1],
  [257, 1],
  [16, 1],
  [33, 1],
] as const;

/** As many rows as four query tiles have, fewer, and single ones. */
const ends = [
  [300, 16],
  [40, 1],
  [90, 7],
  [16, 16],
  [3, 3],
] as const;

const cases: readonly Case[] = [
  { name: "decodes", shape: llama, spans: decodes },
  { name: "one short decode", shape: llama, spans: [[5, 1]] },
  { name: "one decode over many blocks", shape: llama, spans: [[sized(700, 2100), 1]] },
  {
    name: "several rows",
    shape: llama,
    spans: [
      [40, 4],
      [300, 2],
      [3, 3],
      [20, 0],
      [9, 1],
    ],
  },
  { name: "ends of prompts", shape: llama, spans: ends },
  { name: "one end of a prompt", shape: llama, spans: [[sized(300, 900), 16]] },
  { name: "ends of prompts, a window", shape: llama, spans: ends, more: { window: 50, sinks: 3 } },
  { name: "ends of prompts, heads of 64", shape: { ...llama, headDim: 64 }, spans: ends },
  {
    name: "ends of prompts, heads of 256",
    shape: { ...llama, headDim: 256 },
    spans: [
      [100, 8],
      [40, 1],
      [30, 5],
    ],
  },
  { name: "f16", shape: { ...llama, format: "f16" }, spans: decodes },
  { name: "i8", shape: { ...llama, format: "i8" }, spans: decodes },
  { name: "fp8", shape: { ...llama, format: "fp8" }, spans: decodes },
  {
    name: "calibrated fp8",
    shape: {
      ...llama,
      format: "fp8",
      scales: {
        key: new Float32Array([0.02, 0.03]),
        value: new Float32Array([0.04, 0.05]),
      },
    },
    spans: decodes,
  },
  { name: "heads of 64", shape: { ...llama, headDim: 64 }, spans: decodes },
  { name: "heads of 80", shape: { ...llama, headDim: 80, blockTokens: 32 }, spans: decodes },
  { name: "heads of 96 in i8", shape: { ...llama, headDim: 96, format: "i8" }, spans: decodes },
  { name: "heads of 24", shape: { ...llama, headDim: 24, format: "fp8" }, spans: decodes },
  { name: "heads of 256", shape: { ...llama, headDim: 256, blockTokens: 64 }, spans: decodes },
  { name: "a group of 1", shape: { ...llama, kvHeads: 8, headDim: 64 }, spans: decodes },
  { name: "a group of 16", shape: { ...llama, heads: 16, kvHeads: 1 }, spans: decodes },
  {
    name: "a group of 40",
    shape: { ...llama, heads: 40, kvHeads: 1, headDim: 64 },
    spans: decodes,
  },
  {
    name: "a group of 12 of 256",
    shape: { ...llama, heads: 12, kvHeads: 1, headDim: 256, format: "i8" },
    spans: [
      [70, 1],
      [5, 1],
    ],
  },
  { name: "a window", shape: llama, spans: [...decodes, [90, 3]], more: { window: 40 } },
  {
    name: "a window of bytes",
    shape: { ...llama, format: "i8" },
    spans: decodes,
    more: { window: 21 },
  },
  { name: "sinks", shape: llama, spans: [...decodes, [90, 3]], more: { window: 40, sinks: 4 } },
  {
    name: "many sinks",
    shape: llama,
    spans: [
      [200, 2],
      [25, 1],
    ],
    more: { window: 60, sinks: 20 },
  },
  { name: "softcap", shape: llama, spans: decodes, more: { softcap: 1.5 } },
];

/** As many sequences as give a GPU of four multiprocessors at most a block per query tile. */
const lone = cases
  .filter(({ spans }) => spans.length > 1)
  .map(({ name, shape, spans, more = {} }): Case => {
    const most = Math.max(1, Math.floor(4 / shape.kvHeads / Math.ceil(shape.heads / 16)));
    return { name: `${name}, few`, shape, spans: spans.slice(0, most), more };
  });

/** As they come, few at a time, and taken for so long that blocks work in stream-K order. */
const bothWays: readonly Case[] = [
  ...eachNth(2, [...cases, ...lone]),
  ...eachNth(4, [...cases, ...lone]).map(
    ({ name, more, ...rest }): Case => ({
      ...{ ...rest, name: `${name}, as if long` },
      more: { ...more, contextMax: 1 << 17 },
    }),
  ),
];

/** Whether a place of a tree has no row, and none sees it: it may hold anything. */
function isNobodys(node: number): boolean {
  return node > 0 && node % 5 === 3;
}

/** Bits of the nodes that a node does not see, in two words: a third of those before it. */
function hiddenFrom(node: number): readonly [number, number] {
  const bits: [number, number] = [0, 0];
  for (let other = 1; other < node; other++) {
    if (!isNobodys(other) && (other * 7 + node) % 3 > 0) continue;
    bits[other < 32 ? 0 : 1] |= 1 << (other % 32);
  }
  return bits;
}

describeEmulated("decode attention, emulated", openPair, (pair) => {
  test.for(bothWays)("equals the definition: $name", async ({ shape, spans, more = {} }) => {
    const { window, sinks = 0, contextMax = 0 } = more;
    const all: Span[] = spans.map(([context, rows]) => ({ context, rows }));
    const hidden = (sequence: number, place: number) => {
      const { context = 0, rows = 0 } = all[sequence] ?? {};
      if (window === undefined || rows === 0) return rows === 0;
      return place >= sinks && place <= context - rows - (window - sinks);
    };
    const contexts = all.map(({ context }) => context);
    const setting = new AttentionSetting(pair, shape, contexts, spans.length, hidden);
    const batch = setting.batch(all, [...spans.keys()]);
    const contextLengthMax = Math.max(contextMax, ...contexts);
    const count = all.reduce((sum, { rows }) => sum + rows, 0);
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
      batch: { ...pick(batch), contextLengthMax },
      scale: 1 / Math.sqrt(shape.headDim),
      ...(window === undefined ? {} : { window }),
      ...(more.softcap === undefined ? {} : { softcap: more.softcap }),
      ...(sinks === 0 ? {} : { sinks: { tokens: sinks, query: pick(sinkQuery) } }),
    });
    expect(canAttendDecode(inputOf((both) => both.tested))).toBe(true);
    pair.run((device, pick) => device.pagedAttention(inputOf(pick)));
    await pair.expectClose(out, rounding);
  });

  const treeCases = (["bf16", "i8", "fp8"] as const).flatMap((format) =>
    [undefined, 30].flatMap((window) =>
      [0, 1 << 17].map((contextMax) => ({ format, window, contextMax })),
    ),
  );

  // Positions that no row sees hold NaN: they may hold anything.
  test.for(eachNth(3, treeCases))(
    "rows of trees: $format, a window of $window, contexts taken for $contextMax",
    async ({ format, window, contextMax }) => {
      const shape = { ...llama, format };
      const trees = [
        { context: 45, rows: 41 },
        { context: sized(90, 300), rows: 5 },
        { context: 17, rows: 17 },
      ];
      const setting = new AttentionSetting(
        ...([pair, shape, trees.map(({ context }) => context), 3] as const),
        (sequence, place) => {
          const { context = 0, rows = 0 } = trees[sequence] ?? {};
          return isNobodys(place - context + rows);
        },
      );
      const rows = trees.flatMap(({ context, rows: nodes }, tree) =>
        Array.from({ length: nodes }, (_, node) => ({
          ...{ tree, node, context: context - nodes + node + 1, start: context - nodes },
        })).filter(({ node }) => !isNobodys(node)),
      );
      const treeMask = pair.u32(
        rows.flatMap(({ node }) => hiddenFrom(node)),
        [rows.length, 2],
      );
      const treeStarts = pair.i32(rows.map(({ start }) => start));
      const spans = rows.map(({ context }) => ({ context, rows: 1 }));
      const sequences = rows.map(({ tree }) => tree);
      const batch = setting.batch(spans, sequences, { treeMask, treeStarts });
      const columns = shape.heads * shape.headDim;
      const query = pair.f32([rows.length, columns], setting.queries(rows.length));
      const out = pair.activation("bf16", rows.length, columns);
      const inputOf = (pick: Pick): PagedAttentionInput => ({
        ...{ count: rows.length, out: pick(out), query: pick(query), heads: shape.heads },
        ...{ cache: pick(setting.cache), layer, scale: 1 / Math.sqrt(shape.headDim) },
        ...(window === undefined ? {} : { window }),
        batch: {
          ...pick(batch),
          contextLengthMax: Math.max(contextMax, pick(batch).contextLengthMax),
        },
      });
      expect(canAttendDecode(inputOf((both) => both.tested))).toBe(true);
      pair.run((device, pick) => device.pagedAttention(inputOf(pick)));
      await pair.expectClose(out, rounding);
    },
  );

  test("rows of a padded batch, without any context, become zeros", async () => {
    const setting = new AttentionSetting(pair, llama, [20, 0, 0], 5);
    const spans = [20, 0, 0].map((context) => ({ context, rows: 1 }));
    const columns = llama.heads * llama.headDim;
    const device = pair.tested;
    const query = device.allocate("f32", [3, columns]);
    device.write(query, setting.queries(3));
    const out = device.allocateActivation("bf16", 3, columns);
    const batch = setting.batch(spans, [0, 1, 2]).tested;
    const cache = setting.cache.tested;
    device.pagedAttention({
      ...{ count: 3, out, query, heads: llama.heads, cache, layer, scale: 0.1, batch },
    });
    const values = await device.readF32(out);
    expect(values.subarray(0, columns).every((value) => Number.isFinite(value))).toBe(true);
    expect(values.subarray(columns).every((value) => value === 0)).toBe(true);
  });
});
