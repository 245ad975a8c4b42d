import { test } from "vitest";
import type { KvFormat } from "#devices";
import { eachNth } from "../../support/full.ts";
import { expectSameBits } from "../../support/same-bits.ts";
import { AttentionSetting, type Span } from "./attention-batch.ts";
import type { DevicePair } from "./pair.ts";

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

/** Bit for bit: the same prompt in one piece, in chunks, token by token, alone or beside others. */
export function batchIndependence(pair: () => DevicePair): void {
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
