import { expect, test } from "vitest";
import type { Device, KvFormat, KvScales } from "#devices";
import { eachNth, sized } from "../../support/full.ts";
import { AttentionSetting, layer, type Span } from "./attention-batch.ts";
import type { DevicePair } from "./pair.ts";

const shape = { heads: 6, kvHeads: 2, headDim: 64, blockTokens: 16 };
const columns = shape.heads * shape.headDim;
const formats = ["i8", "fp8"] satisfies KvFormat[];

/** Normal numbers of variance 1 fill a third of the range; some of them saturate. */
const scales: Readonly<Record<(typeof formats)[number], KvScales>> = {
  i8: { key: Float32Array.of(1, 1 / 42), value: Float32Array.of(1, 1 / 50) },
  fp8: { key: Float32Array.of(1, 1 / 64), value: Float32Array.of(1, 1 / 300) },
};

const spans: readonly Span[] = [
  { context: 37, rows: 37 },
  { context: 700, rows: 1 },
  { context: 290, rows: sized(18, 40) },
];
const contexts = spans.map(({ context }) => context);
const rows = spans.reduce((sum, span) => sum + span.rows, 0);

/** Outliers, float32's largest numbers and small ones. Below 10^-28 a device may give 0 for all. */
const extremes: number[][] = [
  [1e30, 1, -1, 0],
  [3.4028234663852886e38, -3.4028234663852886e38, 1e38, 0],
  [1e-24, -1e-24, 5e-25, 0],
  [127, -127, 63.5, -0.5],
];

/** Keys and values in 8 bits: with calibrated scales, and beside f32. */
export function quantisedKv(pair: () => DevicePair): void {
  const calibrated = formats.flatMap((format) =>
    [1, 4, 16].map((blockTokens) => ({ format, blockTokens })),
  );
  test.for(eachNth(2, calibrated))(
    "T 4.3: pagedAttention with one scale per layer, $format, blocks of $blockTokens",
    async ({ format, blockTokens }) => {
      const given = { ...shape, blockTokens, format, scales: scales[format] };
      const setting = new AttentionSetting(pair(), given, contexts, 5);
      const query = pair().f32([rows, columns], setting.queries(rows));
      const out = pair().activation("f32", rows, columns);
      const batch = setting.batch(
        spans,
        spans.map((_, i) => i),
      );
      pair().run((device, pick) => {
        device.pagedAttention({
          ...{ count: rows, heads: shape.heads, layer, scale: 0.125 },
          ...{ out: pick(out), query: pick(query) },
          ...{ cache: pick(setting.cache), batch: pick(batch) },
        });
      });
      const absolute = format === "i8" ? 5e-4 : 1e-5;
      await pair().expectClose(out, { absolute, relative: 1e-4 });
    },
  );

  // The same random keys, values and queries for every format. The bounds are twice what was seen.
  const bounds = [
    { format: "i8", rms: 0.005, largest: 0.05 },
    { format: "fp8", rms: 0.02, largest: 0.2 },
  ] as const;
  test.for(bounds)("pagedAttention: $format is near f32", async ({ format, rms, largest }) => {
    const error = await errorAgainstF32(pair(), format);
    expect(error.rms).toBeLessThan(rms);
    expect(error.largest).toBeLessThan(largest);
  });

  test.for(formats)("a vector with NaN or infinity becomes NaN as a whole, %s", async (format) => {
    for (const bad of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]) {
      const seen = await valuesSeen(pair().tested, format, [1, bad, 2, 3]);
      expect(seen).toEqual([Number.NaN, Number.NaN, Number.NaN, Number.NaN]);
    }
    expect(await valuesSeen(pair().tested, format, [0, -0, 0, 0])).toEqual([0, 0, 0, 0]);
  });

  test.for(formats.flatMap((format) => extremes.map((vector) => [format, vector] as const)))(
    "a vector of extremes is kept as the definition keeps it, %s: %s",
    async ([format, vector]) => {
      const defined = await valuesSeen(pair().defined, format, vector);
      const tested = await valuesSeen(pair().tested, format, vector);
      const largest = Math.max(...vector.map(Math.abs));
      for (const [place, value] of defined.entries()) {
        expect(Number.isFinite(value)).toBe(true);
        const error = Math.abs((tested[place] ?? Number.NaN) - value);
        expect(error).toBeLessThanOrEqual(largest * 1e-6);
        // Eight bits of the largest: no more is promised, and no less.
        expect(Math.abs(value - (vector[place] ?? 0))).toBeLessThanOrEqual(largest / 16);
      }
    },
  );

  test("one block in 8 bits takes little more than half of bf16", () => {
    const blockOf = (format: KvFormat, headDim: number, given?: KvScales) => {
      const size = { layers: 2, blockTokens: 16, kvHeads: 2, headDim };
      const options = { ...size, format, ...(given === undefined ? {} : { scales: given }) };
      return pair().tested.kvBytesPerBlock(options);
    };
    if (pair().tested.kind === "reference") return; // It keeps the numbers that 8 bits stand for.
    const gained = (headDim: number) => blockOf("bf16", headDim) / blockOf("i8", headDim);
    expect([gained(64), gained(128)]).toEqual([256 / 132, 512 / 260]);
    expect(blockOf("fp8", 64)).toBe(blockOf("i8", 64));
    // Calibrated scales are not in the blocks.
    expect(blockOf("bf16", 64) / blockOf("i8", 64, scales.i8)).toBe(2);
  });
}

/** Differences of what the tested device computes in `format` and in f32; outputs are about 0.1. */
async function errorAgainstF32(
  pair: DevicePair,
  format: KvFormat,
): Promise<{ rms: number; largest: number }> {
  const compute = (kept: KvFormat) => {
    const setting = new AttentionSetting(pair, { ...shape, format: kept }, contexts, 6);
    return setting.attendTested(spans, [0, 1, 2], setting.queries(rows));
  };
  const wanted = await compute("f32");
  const actual = await compute(format);
  let squares = 0;
  let largest = 0;
  wanted.forEach((value, i) => {
    const error = Math.abs(value - (actual[i] ?? Number.NaN));
    squares += error ** 2;
    largest = Math.max(largest, error);
  });
  return { rms: Math.sqrt(squares / wanted.length), largest };
}

/** What a query sees of one token whose value is `value`. */
async function valuesSeen(device: Device, format: KvFormat, value: number[]): Promise<number[]> {
  const headDim = value.length;
  const options = { layers: 1, blocks: 1, blockTokens: 1, kvHeads: 1, headDim };
  const cache = device.allocateKvPool({ ...options, format });
  const i32 = (...numbers: number[]) => {
    const tensor = device.allocate("i32", [numbers.length]);
    device.write(tensor, Int32Array.from(numbers));
    return tensor;
  };
  const qkv = device.allocate("f32", [1, 3 * headDim]);
  device.write(qkv, Float32Array.from(value), 2 * headDim);
  const query = device.allocate("f32", [1, headDim]);
  const step = { count: 1, query, heads: 1, cache, layer: 0 };
  device.ropeKvWrite({ ...step, qkv, positions: i32(0), slots: i32(0) });
  const out = device.allocateActivation("f32", 1, headDim);
  const table = device.allocate("i32", [1, 1]);
  const batch = {
    ...{ sequences: 1, queryStarts: i32(0, 1), contextLengths: i32(1), blockTables: table },
    ...{ queryLengthMax: 1, contextLengthMax: 1 },
  };
  device.pagedAttention({ ...step, out, batch, scale: 1 });
  return Array.from(await device.readF32(out), (number) => number + 0);
}
