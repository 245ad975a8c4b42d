import { expect, test } from "vitest";
import type { DeviceTensor, KvFormat, WeightFormat } from "#devices";
import { eachNth, sized } from "../../support/full.ts";
import { expectSameBits } from "../../support/same-bits.ts";
import { AttentionSetting, type AttentionShape, layer, type Span } from "./attention-batch.ts";
import { attentionRounding } from "./attention-rounding.ts";
import { type Both, type DevicePair, formatTolerance } from "./pair.ts";
import { RandomNumbers } from "./random.ts";

const grouped = { heads: 6, kvHeads: 2, headDim: 64, blockTokens: 16, format: "f32" } as const;

/** Head sizes, block sizes, GQA ratios and KV formats that models and users have. */
const attentionShapes: readonly AttentionShape[] = [
  grouped,
  { heads: 4, kvHeads: 4, headDim: 16, blockTokens: 1, format: "f32" },
  { heads: 4, kvHeads: 2, headDim: 32, blockTokens: 2, format: "bf16" },
  { heads: 7, kvHeads: 1, headDim: 80, blockTokens: 4, format: "f16" },
  { heads: 8, kvHeads: 1, headDim: 96, blockTokens: 8, format: "f32" },
  { heads: 14, kvHeads: 2, headDim: 64, blockTokens: 16, format: "bf16" },
  { heads: 3, kvHeads: 1, headDim: 128, blockTokens: 32, format: "f16" },
  { heads: 2, kvHeads: 1, headDim: 256, blockTokens: 64, format: "f32" },
  { heads: 2, kvHeads: 2, headDim: 20, blockTokens: 16, format: "f32" },
  { heads: 6, kvHeads: 2, headDim: 64, blockTokens: 16, format: "i8" },
  { heads: 6, kvHeads: 2, headDim: 64, blockTokens: 16, format: "fp8" },
  { heads: 4, kvHeads: 4, headDim: 16, blockTokens: 1, format: "i8" },
  { heads: 4, kvHeads: 4, headDim: 21, blockTokens: 1, format: "fp8" },
  { heads: 7, kvHeads: 1, headDim: 80, blockTokens: 4, format: "i8" },
  { heads: 8, kvHeads: 1, headDim: 96, blockTokens: 8, format: "fp8" },
  { heads: 3, kvHeads: 1, headDim: 128, blockTokens: 32, format: "fp8" },
  { heads: 2, kvHeads: 1, headDim: 256, blockTokens: 64, format: "i8" },
  { heads: 2, kvHeads: 1, headDim: 21, blockTokens: 16, format: "i8" },
];

/** Prefill of several chunks, decodes and a lone first token, mixed. */
const mixedSpans: readonly Span[] = [
  { context: 37, rows: 37 },
  { context: 300, rows: 1 },
  { context: 1, rows: 1 },
  { context: 290, rows: sized(18, 40) },
  { context: 17, rows: 3 },
];

interface AttentionCase {
  readonly shape: AttentionShape;
  readonly spans: readonly Span[];
  readonly out?: WeightFormat;
  readonly window?: number;
  readonly softcap?: number;
  /** Whether rows are those of trees; "apart": each of them is a sequence of its own. */
  readonly tree?: boolean | "apart";
}

/** Every row of some spans as a span, and the span that it is of. */
function rowsApart(spans: readonly Span[]): readonly (Span & { readonly of: number })[] {
  return spans.flatMap(({ context, rows }, of) =>
    Array.from({ length: rows }, (_, row) => ({ context: context - rows + row + 1, rows: 1, of })),
  );
}

/**
 * Masks of trees with random parents, of the first rows of each span: 32 for each word. Every third
 * span stays causal.
 */
function randomTrees(pair: DevicePair, spans: readonly Span[], words: number): Both<DeviceTensor> {
  const rows = spans.reduce((sum, span) => sum + span.rows, 0);
  const random = new RandomNumbers(rows);
  const bits = new Uint32Array(rows * words);
  let first = 0;
  for (const [at, span] of spans.entries()) {
    const nodes = at % 3 === 2 ? 0 : Math.min(span.rows, 32 * words);
    const seen: ReadonlySet<number>[] = [];
    for (let row = 0; row < nodes; row++) {
      const parent = row === 0 ? new Set<number>() : seen[random.below(row)];
      seen.push(new Set([...(parent ?? []), row]));
      for (let other = 0; other < row; other++) {
        if (seen[row]?.has(other)) continue;
        const word = (first + row) * words + Math.floor(other / 32);
        bits[word] = (bits[word] ?? 0) | (1 << (other % 32));
      }
    }
    first += span.rows;
  }
  return pair.u32([...bits], [rows, words]);
}

async function checkAttention(pair: DevicePair, given: AttentionCase): Promise<void> {
  const { shape, spans } = given;
  const contexts = spans.map(({ context }) => context);
  const setting = new AttentionSetting(pair, shape, contexts, shape.headDim);
  const rows = spans.reduce((sum, span) => sum + span.rows, 0);
  const columns = shape.heads * shape.headDim;
  const query = pair.f32([rows, columns], setting.queries(rows));
  const format = given.out ?? "f32";
  const out = pair.activation(format, rows, columns);
  const batch = batchOf(pair, setting, given);
  pair.run((device, pick) => {
    device.pagedAttention({
      count: rows,
      out: pick(out),
      query: pick(query),
      heads: shape.heads,
      cache: pick(setting.cache),
      layer,
      batch: pick(batch),
      scale: 1 / Math.sqrt(shape.headDim),
      ...(given.window === undefined ? {} : { window: given.window }),
      ...(given.softcap === undefined ? {} : { softcap: given.softcap }),
    });
  });
  await pair.expectClose(out, formatTolerance(format, attentionRounding[shape.format], 4));
}

function batchOf(pair: DevicePair, setting: AttentionSetting, { spans, tree }: AttentionCase) {
  const all = [...spans.keys()];
  if (tree === undefined || tree === false) return setting.batch(spans, all);
  const treeMask = randomTrees(pair, spans, 2);
  if (tree !== "apart") return setting.batch(spans, all, { treeMask });
  const apart = rowsApart(spans);
  const starts = apart.map(({ of }) => (spans[of]?.context ?? 0) - (spans[of]?.rows ?? 0));
  return setting.batch(
    apart,
    apart.map(({ of }) => of),
    { treeMask, treeStarts: pair.i32(starts) },
  );
}

function pagedContract(pair: () => DevicePair): void {
  test.for(eachNth(2, attentionShapes))(
    "pagedAttention: $heads/$kvHeads heads of $headDim, blocks of $blockTokens, $format",
    (shape) => checkAttention(pair(), { shape, spans: mixedSpans }),
  );

  const windows = [1, 5, 64, 270].flatMap((window) => [
    { window, shape: grouped },
    { window, shape: { ...grouped, format: "bf16" as const } },
    { window, shape: { ...grouped, format: "bf16" as const, blockTokens: 1 } },
    { window, shape: { ...grouped, format: "i8" as const } },
    { window, shape: { ...grouped, format: "i8" as const, blockTokens: 1 } },
    { window, shape: { ...grouped, format: "fp8" as const } },
  ]);
  test.for(eachNth(5, windows))(
    "pagedAttention: a window of $window, $shape.format, blocks of $shape.blockTokens",
    ({ window, shape }) => checkAttention(pair(), { shape, spans: mixedSpans, window }),
  );

  test("pagedAttention: softcap", () =>
    checkAttention(pair(), { shape: grouped, spans: mixedSpans, softcap: 1.5 }));

  const trees = [
    { context: 40, rows: 40 },
    { context: sized(61, 261), rows: 9 },
    { context: sized(90, 300), rows: 70 },
    { context: 600, rows: sized(9, 64) },
  ];
  test.for([1, 8, 16, 64])("pagedAttention: token trees, blocks of %i", (blockTokens) =>
    checkAttention(pair(), { shape: { ...grouped, blockTokens }, spans: trees, tree: true }),
  );

  test.for([45, 290])("pagedAttention: token trees in a window of %i", (window) =>
    checkAttention(pair(), { shape: grouped, spans: trees, tree: true, window }),
  );

  test.for([undefined, 45, 290])(
    "pagedAttention: rows of trees as sequences of their own, in a window of %s",
    (window) => {
      const shape = { ...grouped, blockTokens: 16 };
      const seen = window === undefined ? {} : { window };
      return checkAttention(pair(), { shape, spans: trees, tree: "apart", ...seen });
    },
  );

  test.for(["bf16", "i8"] satisfies WeightFormat[])("pagedAttention: rows rounded to %s", (out) =>
    checkAttention(pair(), { shape: grouped, spans: mixedSpans, out }),
  );

  test("pagedAttention: one long context", () =>
    checkAttention(pair(), { shape: grouped, spans: [{ context: 2100, rows: 1 }] }));

  test("pagedAttention: sequences without rows", () =>
    checkAttention(pair(), {
      shape: grouped,
      spans: [
        { context: 20, rows: 0 },
        { context: 20, rows: 2 },
        { context: 5, rows: 0 },
      ],
    }));
}

function encoderContract(pair: () => DevicePair): void {
  const cases: readonly EncoderCase[] = [
    { heads: 4, headDim: 16, format: "f32" },
    { heads: 3, headDim: 64, format: "bf16" },
    { heads: 2, headDim: 32, format: "i8" },
    { heads: 1, headDim: 20, format: "f32" },
    { heads: 2, headDim: 64, format: "f32", reach: 1 },
    { heads: 3, headDim: 20, format: "bf16", reach: 17 },
    { heads: 2, headDim: 64, format: "f32", reach: 64 },
    { heads: 2, headDim: 16, format: "f32", reach: 272 },
    { heads: 2, headDim: 21, format: "f32" },
    { heads: 2, headDim: 32, format: "f32", reach: 40 },
    { heads: 1, headDim: 100, format: "bf16", reach: 33 },
    { heads: 2, headDim: 128, format: "f32" },
    { heads: 1, headDim: 160, format: "f32", reach: 5 },
  ];
  const name = "encoderAttention: $heads heads of $headDim to $format, reach $reach";
  test.for(cases)(name, async (given) => {
    const { heads, headDim, format, reach } = given;
    const columns = heads * headDim;
    const starts = [0, 1, 40, 40, 57, 330];
    const rows = starts.at(-1) ?? 0;
    const random = new RandomNumbers(headDim);
    const qkv = pair().f32([rows + 2, 3 * columns], random.floats((rows + 2) * 3 * columns));
    const out = pair().activation(format, rows, columns);
    const ends = pair().i32(starts);
    pair().run((device, pick) => {
      device.encoderAttention({
        count: rows,
        out: pick(out),
        qkv: pick(qkv),
        heads,
        headDim,
        starts: pick(ends),
        sequences: starts.length - 1,
        scale: 1 / Math.sqrt(headDim),
        ...(reach !== undefined && { reach }),
      });
    });
    await pair().expectClose(out, formatTolerance(format, attentionRounding.f32, 4));
  });

  test.for([{ headDim: 32 }, { headDim: 64, reach: 70 }, { headDim: 21 }, { headDim: 128 }])(
    "encoderAttention: a text of $headDim dimensions has the same bits alone, reach $reach",
    async ({ headDim, reach }) => {
      const [device, heads] = [pair().tested, 2];
      const [starts, own] = [[0, 37, 200, 310], 1];
      const columns = heads * headDim;
      const rows = starts.at(-1) ?? 0;
      const floats = new RandomNumbers(headDim).floats(rows * 3 * columns);
      const attended = async (qkv: Float32Array, ends: readonly number[]) => {
        const count = ends.at(-1) ?? 0;
        const x = device.allocate("f32", [count, 3 * columns]);
        const out = device.allocateActivation("f32", count, columns);
        const places = device.allocate("i32", [ends.length]);
        device.write(x, qkv);
        device.write(places, Int32Array.from(ends));
        const shape = { count, heads, headDim, sequences: ends.length - 1, scale: 0.2 };
        const more = reach === undefined ? {} : { reach };
        device.encoderAttention({ out, qkv: x, starts: places, ...shape, ...more });
        return await device.readF32(out);
      };
      const [start = 0, end = 0] = starts.slice(own);
      const together = await attended(floats, starts);
      const alone = await attended(floats.slice(start * 3 * columns, end * 3 * columns), [
        0,
        end - start,
      ]);
      expectSameBits(alone, together.subarray(start * columns, end * columns));
    },
  );

  test.for([0, -1, 0.5, Number.NaN])("encoderAttention: a reach of %s is a bug", (reach) => {
    const [qkv, out] = [pair().f32([1, 48]), pair().activation("f32", 1, 16)];
    const starts = pair().i32([0, 1]);
    pair().run((device, pick) => {
      const shape = { count: 1, heads: 1, headDim: 16, sequences: 1, scale: 1, reach };
      const input = { ...shape, qkv: pick(qkv), out: pick(out), starts: pick(starts) };
      expect(() => device.encoderAttention(input)).toThrow("Cannot attend with a reach");
    });
  });
}

interface EncoderCase {
  readonly heads: number;
  readonly headDim: number;
  readonly format: WeightFormat;
  readonly reach?: number;
}

function rotateContract(pair: () => DevicePair): void {
  const cases = [
    { heads: 6, of: 9, headDim: 64, rotary: 64 },
    { heads: 2, of: 3, headDim: 20, rotary: 12 },
    { heads: 1, of: 1, headDim: 8, rotary: 2 },
  ];
  const name = "rotateHeads: $heads of $of heads, $rotary of $headDim turn";
  test.for(cases)(name, async ({ heads, of, headDim, rotary }) => {
    const rows = 37;
    const random = new RandomNumbers(rotary);
    const columns = of * headDim;
    const x = pair().f32([rows + 1, columns], random.floats((rows + 1) * columns));
    const rope = pair().f32([50, rotary], random.floats(50 * rotary));
    const positions = pair().i32(Array.from({ length: rows }, () => random.below(50)));
    pair().run((device, pick) => {
      const shape = { count: rows, heads, headDim };
      const angles = { rope: pick(rope), positions: pick(positions) };
      device.rotateHeads({ ...shape, ...angles, x: pick(x) });
    });
    await pair().expectClose(x, { absolute: 2e-6, relative: 2e-6 });
  });

  test.for([
    { heads: 0, headDim: 8, rotary: 8 },
    { heads: 3, headDim: 8, rotary: 8 },
    { heads: 1, headDim: 8, rotary: 10 },
    { heads: 1, headDim: 8, rotary: 3 },
  ])("rotateHeads: $heads heads of $headDim by $rotary is a bug", ({ rotary, ...shape }) => {
    const [x, rope] = [pair().f32([1, 16]), pair().f32([2, rotary])];
    const positions = pair().i32([0]);
    pair().run((device, pick) => {
      const angles = { rope: pick(rope), positions: pick(positions) };
      const input = { count: 1, ...shape, ...angles, x: pick(x) };
      expect(() => device.rotateHeads(input)).toThrow("Cannot rotate");
    });
  });
}

interface RopeCase {
  readonly headDim: number;
  readonly rotary: number;
  readonly norm: boolean;
  readonly format: KvFormat;
  readonly blockTokens: number;
}

/** Writes a step's keys and values; what was written is read back by attending to it. */
async function checkRopeKvWrite(pair: DevicePair, given: RopeCase): Promise<void> {
  const { headDim, rotary, norm, format, blockTokens } = given;
  const [heads, kvHeads, rows] = [4, 2, 21];
  const random = new RandomNumbers(headDim + rotary);
  const setting = new AttentionSetting(
    pair,
    { heads, kvHeads, headDim, blockTokens, format },
    [rows],
    3,
  );
  const width = (heads + 2 * kvHeads) * headDim;
  const qkv = pair.f32([rows, width], random.floats(rows * width));
  const query = pair.f32([rows, heads * headDim]);
  const positions = pair.i32(Array.from({ length: rows }, () => random.below(50)));
  // Some tokens are written nowhere: the cache keeps what it had.
  const places = Array.from({ length: rows }, (_, t) => (t % 5 === 3 ? -1 : setting.slotOf(0, t)));
  const slots = pair.i32(places);
  const rope = rotary === 0 ? null : pair.f32([50, rotary], random.floats(50 * rotary, 0.5));
  const queryNorm = norm ? pair.f32([headDim], random.floats(headDim)) : null;
  const keyNorm = norm ? pair.f32([headDim], random.floats(headDim)) : null;
  const out = pair.activation("f32", rows, heads * headDim);
  const batch = setting.batch([{ context: rows, rows }], [0]);
  pair.run((device, pick) => {
    const step = { count: rows, query: pick(query), heads, cache: pick(setting.cache), layer };
    device.ropeKvWrite({
      ...step,
      qkv: pick(qkv),
      positions: pick(positions),
      slots: pick(slots),
      ...(rope === null ? {} : { rope: pick(rope) }),
      ...(queryNorm === null ? {} : { queryNorm: pick(queryNorm) }),
      ...(keyNorm === null ? {} : { keyNorm: pick(keyNorm) }),
      normEpsilon: 1e-6,
    });
    device.pagedAttention({ ...step, out: pick(out), batch: pick(batch), scale: 0.3 });
  });
  await pair.expectClose(query, { absolute: 2e-6, relative: 2e-6 });
  // A key next to a rounding boundary of its format may fall to the other side.
  const step = { f32: 0, f16: 2 ** -10, bf16: 2 ** -6, i8: 2 ** -5, fp8: 2 ** -2 }[format];
  await pair.expectClose(out, { absolute: 1e-5 + step, relative: 1e-5 });
}

function ropeContract(pair: () => DevicePair): void {
  const cases: readonly RopeCase[] = [
    { headDim: 64, rotary: 64, norm: false, format: "f32", blockTokens: 16 },
    { headDim: 80, rotary: 32, norm: false, format: "f32", blockTokens: 4 },
    { headDim: 128, rotary: 128, norm: true, format: "bf16", blockTokens: 16 },
    { headDim: 16, rotary: 6, norm: true, format: "f16", blockTokens: 1 },
    { headDim: 20, rotary: 0, norm: false, format: "f32", blockTokens: 64 },
    { headDim: 64, rotary: 64, norm: false, format: "i8", blockTokens: 16 },
    { headDim: 80, rotary: 32, norm: true, format: "i8", blockTokens: 1 },
    { headDim: 64, rotary: 64, norm: true, format: "fp8", blockTokens: 16 },
    { headDim: 20, rotary: 0, norm: false, format: "fp8", blockTokens: 4 },
  ];
  test.for(cases)(
    "ropeKvWrite: $rotary of $headDim turn, head norm: $norm, blocks of $blockTokens, $format",
    (given) => checkRopeKvWrite(pair(), given),
  );
}

/** ropeKvWrite, rotateHeads, pagedAttention, encoderAttention. */
export function attentionOps(pair: () => DevicePair): void {
  pagedContract(pair);
  encoderContract(pair);
  ropeContract(pair);
  rotateContract(pair);
}
