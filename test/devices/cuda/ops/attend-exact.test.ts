/** Exact attention of long contexts, which blocks share, on the emulated GPU. */
import { expect, test } from "vitest";
import { CudaDevice } from "../../../../src/devices/cuda/cuda-device.ts";
import {
  AttentionSetting,
  layer,
  type Span,
} from "../../../contracts/device-ops/attention-batch.ts";
import { DevicePair } from "../../../contracts/device-ops/pair.ts";
import { describeEmulated } from "../describe-emulated.ts";
import type { EmulatedSettings } from "../emulated-device.ts";

const shape = { heads: 4, kvHeads: 2, headDim: 16, blockTokens: 16, format: "f32" } as const;
const context = 600;

const batches: readonly (readonly Span[])[] = [
  [{ context, rows: 1 }],
  [{ context, rows: 5 }],
  [
    { context, rows: 1 },
    { context: 300, rows: 3 },
    { context: 0, rows: 1 },
  ],
];

const warnings: string[] = [];

async function openTold(settings: EmulatedSettings): Promise<DevicePair> {
  const warn = (message: string) => warnings.push(message);
  return new DevicePair(await CudaDevice.open({ settings, warn }));
}

describeEmulated("exact attention of long contexts, emulated", openTold, (pair) => {
  async function check(spans: readonly Span[], format: "f32" | "i8"): Promise<void> {
    const contexts = spans.map((span) => span.context);
    const setting = new AttentionSetting(pair, shape, contexts, spans.length);
    const { heads, headDim } = shape;
    const rows = spans.reduce((sum, span) => sum + span.rows, 0);
    const query = pair.f32([rows, heads * headDim], setting.queries(rows));
    const out = pair.activation(format, rows, heads * headDim);
    const batch = setting.batch(spans, [...spans.keys()]);
    pair.run((on, pick) => {
      on.pagedAttention({
        ...{ count: rows, out: pick(out), query: pick(query), heads, cache: pick(setting.cache) },
        ...{ layer, batch: pick(batch), scale: 1 / Math.sqrt(headDim) },
      });
    });
    await pair.expectClose(
      out,
      format === "i8" ? { absolute: 2e-2, relative: 0 } : { absolute: 1e-5, relative: 0 },
    );
  }

  test("the first batch that is cut makes room for all others", { timeout: 120_000 }, async () => {
    const [first = [], ...others] = batches;
    for (const format of ["f32", "i8"] as const) await check(first, format);
    pair.tested.seal();
    for (const spans of others) {
      for (const format of ["f32", "i8"] as const) await check(spans, format);
    }
    expect(warnings.filter((text) => text.includes("scratch memory of ops"))).toEqual([]);
  });
});
