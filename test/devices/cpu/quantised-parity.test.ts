/** Whole models with keys and values in 8 bits: near Hugging Face's logits in fp32, all families. */
import { describe, expect, test } from "vitest";
import type { KvFormat } from "#devices";
import { at } from "#tensor";
import { CpuDevice } from "../../../src/devices/cpu/cpu-device.ts";
import { availableIsas } from "../../../src/devices/cpu/isa.ts";
import { isBuilt } from "../../../src/devices/cpu/library.ts";
import { DecoderDriver } from "../../contracts/decoder-driver.ts";
import {
  decoderFixtures,
  openRecordedModel,
  type RecordedModel,
} from "../../contracts/recorded-model.ts";

/**
 * Error of the logits over their size, both as root mean square. Seen: 0.007 and 0.035 in the
 * median; 0.044 and 0.15 where a token goes to another expert.
 */
const bounds = { i8: 0.06, fp8: 0.2 } satisfies Partial<Record<KvFormat, number>>;
const formats = ["i8", "fp8"] as const;

const [best] = availableIsas().filter(isBuilt);

describe.skipIf(best === undefined).for(formats)("keys and values in %s", (kvFormat) => {
  test.for(decoderFixtures)("%s: logits near the recorded ones, in chunks too", async (fixture) => {
    const recorded = openRecordedModel(fixture);
    const whole = await logitsOf(recorded, kvFormat, 128);
    for (const [index, { tensor }] of recorded.cases.entries()) {
      const logits = whole[index] ?? new Float32Array(0);
      const wanted = tensor("logits");
      const error = rootMeanSquare(logits.map((logit, i) => logit - at(wanted, i)));
      expect(error / rootMeanSquare(wanted)).toBeLessThan(bounds[kvFormat]);
    }
    expect(await logitsOf(recorded, kvFormat, 5)).toEqual(whole);
  });
});

function rootMeanSquare(values: Float32Array): number {
  const squares = values.reduce((sum, value) => sum + value * value, 0);
  return Math.sqrt(squares / values.length);
}

/** Logits of every position of each recorded prompt, computed `chunkTokens` at a time. */
async function logitsOf(recorded: RecordedModel, kvFormat: KvFormat, chunkTokens: number) {
  const { model, sources, cases } = recorded;
  if (model.kind !== "decoder") throw new Error("A recorded decoder is wanted");
  const device = CpuDevice.open({ threads: 2 });
  try {
    const sequences = cases.length;
    const driver = new DecoderDriver({ device, model, sources, sequences, kvFormat });
    const all: Float32Array[] = [];
    for (const [sequence, { prompt }] of cases.entries()) {
      const rows: number[] = [];
      for (let start = 0; start < prompt.length; start += chunkTokens) {
        const tokens = prompt.slice(start, start + chunkTokens);
        driver.step([{ sequence, tokens }]);
        rows.push(...(await driver.logits(tokens.map((_, row) => row))));
      }
      all.push(Float32Array.from(rows));
    }
    return all;
  } finally {
    device.dispose();
  }
}
