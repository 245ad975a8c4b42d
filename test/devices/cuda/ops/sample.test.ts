/** Draws and log-probabilities on the emulated GPU, few rows at a time: several blocks share a row. */
import { expect, test } from "vitest";
import { SamplingParams, SequenceSampling } from "#sampling";
import { CudaDevice } from "../../../../src/devices/cuda/cuda-device.ts";
import { nearTieContract } from "../../../contracts/device-ops/near-ties.ts";
import { RandomNumbers } from "../../../contracts/device-ops/random.ts";
import { RowSampler } from "../../../support/row-sampler.ts";
import { describeEmulated, openPair } from "../describe-emulated.ts";
import { emulatedSettings } from "../emulated-device.ts";

/** [temperature, top k, top p, min p]. */
const draws = [
  [0, 0, 1, 0],
  [1, 0, 1, 0],
  [0.7, 50, 1, 0],
  [1.3, 0, 0.9, 0],
  [1, 40, 0.95, 0.05],
  [2, 0, 1, 0.1],
  [1, 0, 1e-6, 0],
  [0.9, 3000, 0.99, 0],
] as const;

interface Case {
  readonly name: string;
  readonly tokens: number;
  readonly logitAt: (random: RandomNumbers, token: number) => number;
}

const low = Number.NEGATIVE_INFINITY;

const cases: readonly Case[] = [
  { name: "5 tokens", tokens: 5, logitAt: (random) => 3 * random.uniform() },
  { name: "all different", tokens: 4099, logitAt: (random) => 12 * random.uniform() },
  { name: "many alike", tokens: 4099, logitAt: (random) => random.below(6) },
  { name: "all alike, more than are looked at", tokens: 5000, logitAt: () => 1 },
  { name: "nearly alike", tokens: 5000, logitAt: (random) => 1e-3 * random.uniform() },
  {
    name: "most forbidden",
    tokens: 4099,
    logitAt: (_, token) => (token % 999 === 7 ? token / 999 : low),
  },
  { name: "far apart", tokens: 700, logitAt: (random) => 1000 * random.uniform() },
  { name: "one that is certain", tokens: 700, logitAt: (_, token) => (token === 650 ? 90 : 0) },
];

describeEmulated("logits that blocks share, emulated", openPair, (pair) => {
  function logitsOf({ tokens, logitAt }: Case, rows: number) {
    const random = new RandomNumbers(tokens);
    const values = Array.from({ length: rows * tokens }, (_, i) => logitAt(random, i % tokens));
    return pair.f32([rows, tokens], values);
  }

  test.for(cases)("sample: samples the definition's tokens, $name", async (each) => {
    const random = new RandomNumbers(1);
    for (const rows of [1, 2]) {
      const logits = logitsOf(each, rows);
      for (let first = 0; first < draws.length; first += rows) {
        const column = (index: 0 | 1 | 2 | 3) =>
          draws.slice(first, first + rows).map((draw) => draw[index]);
        const out = pair.i32(new Int32Array(rows));
        const temperature = pair.f32([rows], column(0));
        const topK = pair.i32(column(1));
        const [topP, minP] = [pair.f32([rows], column(2)), pair.f32([rows], column(3))];
        const words = Array.from({ length: 2 * rows }, () => random.below(2 ** 32));
        const seeds = pair.u32(words, [rows, 2]);
        const positions = pair.i32(Array.from({ length: rows }, (_, r) => r));
        pair.run((device, pick) => {
          device.sample({
            ...{ count: rows, logits: pick(logits), out: pick(out) },
            ...{ temperature: pick(temperature), topK: pick(topK), topP: pick(topP) },
            ...{ minP: pick(minP), seeds: pick(seeds), positions: pick(positions) },
          });
        });
        await pair.expectEqual(out);
      }
    }
  });

  nearTieContract(() => pair);

  test.for(cases)("logprobs: equal the definition's, $name", async (each) => {
    const top = Math.min(each.tokens, 20);
    for (const rows of [1, 2]) {
      const logits = logitsOf(each, rows);
      const tokens = pair.i32(Array.from({ length: rows }, (_, r) => (r * 3) % each.tokens));
      const [chosen, topLogprobs] = [pair.f32([rows]), pair.f32([rows, top])];
      const ranks = pair.i32(new Int32Array(rows));
      const topTokens = pair.i32(new Int32Array(rows * top), [rows, top]);
      pair.run((device, pick) => {
        device.logprobs({
          ...{ count: rows, logits: pick(logits), tokens: pick(tokens), chosen: pick(chosen) },
          ...{ ranks: pick(ranks), topCount: top, topTokens: pick(topTokens) },
          topLogprobs: pick(topLogprobs),
        });
      });
      await pair.expectClose(chosen, { absolute: 2e-6, relative: 1e-6 });
      await pair.expectClose(topLogprobs, { absolute: 2e-6, relative: 1e-6 });
      await pair.expectEqual(ranks);
      await pair.expectEqual(topTokens);
    }
  });

  test("the largest batch makes room for all smaller ones", async () => {
    const warnings: string[] = [];
    const warn = (message: string) => warnings.push(message);
    const device = await CudaDevice.open({ settings: emulatedSettings() ?? {}, warn });
    const sampler = new RowSampler({ device, rowsMax: 5, vocabularySize: 700 });
    const logits = device.allocate("f32", [5, 700]);
    const params = SamplingParams.parse({ temperature: 1, topK: 9 });
    const draw = async (rows: number) => {
      const sampling = new SequenceSampling({
        ...{ params, seed: 1, promptTokens: [0], vocabularySize: 700, endTokenIds: [] },
      });
      await sampler.sample(logits, new Array(rows).fill({ sampling, position: 1 }));
    };
    await draw(5);
    device.seal();
    // The GPU has 4 multiprocessors: several blocks share a row.
    for (const rows of [1, 2, 3, 4]) await draw(rows);
    expect(warnings).toEqual([]);
    device.dispose();
  });
});
