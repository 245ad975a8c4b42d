import { test } from "vitest";
import type { KvFormat } from "#devices";
import { eachNth } from "../../support/full.ts";
import { expectSameBits } from "../../support/same-bits.ts";
import { AttentionSetting, type Span } from "./attention-batch.ts";
import { packFloats } from "./pack-floats.ts";
import type { DevicePair } from "./pair.ts";
import { RandomNumbers } from "./random.ts";

const heads = { heads: 6, kvHeads: 2, headDim: 64, blockTokens: 16 };
const columns = heads.heads * heads.headDim;
const formats: readonly KvFormat[] = ["f32", "bf16", "i8", "fp8"];

/** Cuts [0, rows) into chunks of `size`. */
function chunks(rows: number, size: number): { start: number; end: number }[] {
  const count = Math.ceil(rows / size);
  return Array.from({ length: count }, (_, i) => ({
    start: i * size,
    end: Math.min(rows, (i + 1) * size),
  }));
}

/** Rows of a product one by one, in chunks, and all at once. */
function linearIndependence(pair: () => DevicePair): void {
  const cases = (["f32", "i8"] as const).flatMap((format) => [
    { format, rows: 150, outputs: 70, inputs: 384 },
    { format, rows: 65, outputs: 130, inputs: 132 },
    { format, rows: 40, outputs: 3, inputs: 100 },
    { format, rows: 33, outputs: 64, inputs: 16 },
    { format, rows: 20, outputs: 17, inputs: 31 },
    { format, rows: 70, outputs: 66, inputs: 1100 },
  ]);
  test.for(cases)(
    "linear: $rows rows of $inputs by $outputs outputs, $format",
    async ({ format, rows, outputs, inputs }) => {
      const device = pair().tested;
      const random = new RandomNumbers(inputs);
      const matrix = random.floats(outputs * inputs);
      const weight = packFloats(device, matrix, [outputs, inputs], format);
      const bias = device.allocate("f32", [outputs]);
      device.write(bias, random.floats(outputs));
      const floats = device.allocate("f32", [rows, inputs]);
      device.write(floats, random.floats(rows * inputs));
      const x = device.allocateActivation(format, rows, inputs);
      device.convert({ count: rows, out: x, x: floats });
      const multiplied = async (start: number, end: number) => {
        const count = end - start;
        const out = device.allocate("f32", [count, outputs]);
        device.write(out, new Float32Array(count * outputs).fill(0.5));
        const part = device.activationRows(x, start, end);
        device.linear({ count, out, x: part, weight, bias, accumulate: true });
        return await device.readF32(out);
      };
      const whole = await multiplied(0, rows);
      for (const size of [1, 5, 17, 64]) {
        for (const { start, end } of chunks(rows, size).slice(-3)) {
          const part = await multiplied(start, end);
          expectSameBits(part, whole.subarray(start * outputs, end * outputs));
        }
      }
    },
  );
}

/** Bit for bit: the same prompt in one piece, in chunks, token by token, alone or beside others. */
export function batchIndependence(pair: () => DevicePair): void {
  linearIndependence(pair);
  const chunked = formats.flatMap((format) => [
    { format, rows: 71, size: 1 },
    { format, rows: 70, size: 5 },
    { format, rows: 700, size: 33 },
    { format, rows: 700, size: 256 },
  ]);
  test.for(eachNth(3, chunked))(
    "pagedAttention: $rows rows, $size at a time, $format",
    async (given) => {
      const { format, rows, size } = given;
      const setting = new AttentionSetting(pair(), { ...heads, format }, [rows], rows);
      const queries = setting.queries(rows);
      const whole = await setting.attendTested([{ context: rows, rows }], [0], queries);
      for (const { start, end } of chunks(rows, size)) {
        const part = queries.subarray(start * columns, end * columns);
        const alone = await setting.attendTested([{ context: end, rows: end - start }], [0], part);
        expectSameBits(alone, whole.subarray(start * columns, end * columns));
      }
    },
  );

  test.for(formats)("pagedAttention: a sequence alone and in a batch, %s", async (format) => {
    const spans: readonly Span[] = [
      { context: 1500, rows: 1 },
      { context: 90, rows: 90 },
      { context: 513, rows: 2 },
      { context: 8, rows: 1 },
    ];
    const contexts = spans.map(({ context }) => context);
    const setting = new AttentionSetting(pair(), { ...heads, format }, contexts, 4);
    const rows = spans.reduce((sum, span) => sum + span.rows, 0);
    const queries = setting.queries(rows);
    const together = await setting.attendTested(spans, [0, 1, 2, 3], queries);
    let start = 0;
    for (const [sequence, span] of spans.entries()) {
      const end = start + span.rows;
      const part = queries.subarray(start * columns, end * columns);
      const alone = await setting.attendTested([span], [sequence], part);
      expectSameBits(alone, together.subarray(start * columns, end * columns));
      start = end;
    }
  });
}
