import { expect, test } from "vitest";
import { AttentionSetting, type Span } from "./attention-batch.ts";
import type { DevicePair } from "./pair.ts";

const shape = { heads: 6, kvHeads: 2, headDim: 64, blockTokens: 16, format: "f32" } as const;

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
  const columns = shape.heads * shape.headDim;

  test.for([
    [70, 1],
    [70, 5],
    [700, 33],
    [700, 256],
  ] as const)("pagedAttention: a prompt of %i in chunks of %i has the same bits", async (given) => {
    const [rows, size] = given;
    const setting = new AttentionSetting(pair(), shape, [rows], rows);
    const queries = setting.queries(rows);
    const whole = await setting.attendTested([{ context: rows, rows }], [0], queries);
    for (const { start, end } of chunks(rows, size)) {
      const part = queries.subarray(start * columns, end * columns);
      const alone = await setting.attendTested([{ context: end, rows: end - start }], [0], part);
      expect(alone).toEqual(whole.subarray(start * columns, end * columns));
    }
  });

  test("pagedAttention: a sequence has the same bits alone and in a batch", async () => {
    const spans: readonly Span[] = [
      { context: 1500, rows: 1 },
      { context: 90, rows: 90 },
      { context: 513, rows: 2 },
      { context: 8, rows: 1 },
    ];
    const contexts = spans.map(({ context }) => context);
    const setting = new AttentionSetting(pair(), shape, contexts, 4);
    const rows = spans.reduce((sum, span) => sum + span.rows, 0);
    const queries = setting.queries(rows);
    const together = await setting.attendTested(spans, [0, 1, 2, 3], queries);
    let start = 0;
    for (const [sequence, span] of spans.entries()) {
      const end = start + span.rows;
      const part = queries.subarray(start * columns, end * columns);
      const alone = await setting.attendTested([span], [sequence], part);
      expect(alone).toEqual(together.subarray(start * columns, end * columns));
      start = end;
    }
  });
}
