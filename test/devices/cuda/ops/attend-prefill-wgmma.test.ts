/** Prefill attention for Hopper on the emulated GPU, which reads descriptors as PTX defines them. */
import { test } from "vitest";
import type { KvFormat } from "#devices";
import { CudaDevice } from "../../../../src/devices/cuda/cuda-device.ts";
import {
  AttentionSetting,
  layer,
  type Span,
} from "../../../contracts/device-ops/attention-batch.ts";
import { DevicePair } from "../../../contracts/device-ops/pair.ts";
import { eachNth } from "../../../support/full.ts";
import { describeEmulated } from "../describe-emulated.ts";
import type { EmulatedSettings } from "../emulated-device.ts";

/** NaN in every float format: what was never written must not be seen. */
const poison = 0xff;

/**
 * Queries and weights are rounded to 16 bits, relatively by 2^-9, and so is the output: with values
 * of variance 1 a weighted mean of many is off by less than two roundings of the largest of them.
 */
const tolerance = { absolute: 2 ** -6, relative: 2 ** -7 };

interface Case {
  readonly name: string;
  readonly spans: readonly Span[];
  readonly heads?: number;
  readonly kvHeads?: number;
  readonly headDim?: number;
  readonly blockTokens?: number;
  readonly format?: KvFormat;
  readonly window?: number;
  readonly softcap?: number;
  /** Of scores, with queries that 16 bits hold: a steep softmax would not bear their rounding. */
  readonly scale?: number;
}

const cases: readonly Case[] = [
  { name: "one tile", spans: [{ context: 32, rows: 32 }] },
  { name: "a whole tile of keys", spans: [{ context: 128, rows: 128 }], kvHeads: 4 },
  { name: "a row beyond it", spans: [{ context: 129, rows: 129 }], kvHeads: 4 },
  { name: "five tiles of keys, each stage used again", spans: [{ context: 600, rows: 40 }] },
  { name: "heads of 64", spans: [{ context: 300, rows: 90 }], headDim: 64 },
  { name: "f16", spans: [{ context: 140, rows: 70 }], format: "f16" },
  { name: "f16, heads of 64", spans: [{ context: 140, rows: 70 }], format: "f16", headDim: 64 },
  { name: "blocks of 8", spans: [{ context: 150, rows: 66 }], blockTokens: 8 },
  { name: "blocks of 64", spans: [{ context: 150, rows: 66 }], blockTokens: 64 },
  { name: "blocks of 128", spans: [{ context: 150, rows: 66 }], blockTokens: 128 },
  { name: "a group of 3", spans: [{ context: 70, rows: 50 }], heads: 6 },
  {
    name: "chunks among decodes",
    spans: [
      { context: 600, rows: 1 },
      { context: 290, rows: 130 },
      { context: 20, rows: 0 },
      { context: 17, rows: 3 },
      { context: 200, rows: 200 },
    ],
  },
  {
    name: "chunks behind many decodes",
    spans: [
      { context: 40, rows: 33 },
      ...new Array(33).fill({ context: 5, rows: 1 }),
      { context: 90, rows: 70 },
      { context: 34, rows: 34 },
    ],
  },
  ...[1, 40, 130, 200].map((window) => ({
    name: `a window of ${window}`,
    spans: [
      { context: 290, rows: 130 },
      { context: 420, rows: 33 },
    ],
    window,
  })),
  // Maxima of tiles lie far apart, so that sums shrink between them.
  { name: "a steep softmax", spans: [{ context: 600, rows: 40 }], scale: 1 },
  { name: "a steep softmax, f16", spans: [{ context: 300, rows: 130 }], format: "f16", scale: 1 },
  { name: "a steep window", spans: [{ context: 420, rows: 70 }], window: 200, scale: 1 },
  { name: "softcap", spans: [{ context: 200, rows: 100 }], softcap: 1.5 },
];

/** Numbers that bf16 holds, and so does f16. */
function cut(values: Float32Array): Float32Array {
  const bits = new Uint32Array(values.buffer);
  return new Float32Array(bits.map((each) => each & 0xffff0000).buffer);
}

async function check(pair: DevicePair, given: Case): Promise<void> {
  const { heads = 4, kvHeads = 2, headDim = 128, blockTokens = 16, format = "bf16" } = given;
  const { spans, window, softcap, scale } = given;
  const shape = { heads, kvHeads, headDim, blockTokens, format };
  const contexts = spans.map(({ context }) => context);
  const setting = new AttentionSetting(pair, shape, contexts, headDim);
  const rows = spans.reduce((sum, span) => sum + span.rows, 0);
  const queries = scale === undefined ? setting.queries(rows) : cut(setting.queries(rows));
  const query = pair.f32([rows, heads * headDim], queries);
  const out = pair.activation("bf16", rows, heads * headDim);
  const batch = setting.batch(
    spans,
    spans.map((_, i) => i),
  );
  pair.run((device, pick) => {
    device.pagedAttention({
      ...{ count: rows, out: pick(out), query: pick(query), heads, cache: pick(setting.cache) },
      ...{ layer, batch: pick(batch), scale: scale ?? 1 / Math.sqrt(headDim) },
      ...(window === undefined ? {} : { window }),
      ...(softcap === undefined ? {} : { softcap }),
    });
  });
  await pair.expectClose(out, tolerance);
}

async function openPoisoned(settings: EmulatedSettings): Promise<DevicePair> {
  return new DevicePair(await CudaDevice.open({ settings, freshByte: poison }));
}

describeEmulated("prefill attention for Hopper, emulated", openPoisoned, (pair) => {
  test.for(eachNth(4, cases))("equals the definition: $name", { timeout: 120_000 }, (given) =>
    check(pair, given),
  );
});
