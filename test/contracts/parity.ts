/** Every device computes what Hugging Face's transformers computed, for every recorded family. */
import { describe, expect, test } from "vitest";
import type { Device } from "#devices";
import { Encoder, loadEncoderWeights } from "#models";
import { full, sized } from "../support/full.ts";
import { DecoderDriver, type Feeding, generateGreedily } from "./decoder-driver.ts";
import {
  decoderFixtures,
  openRecordedModel,
  type RecordedModel,
  worstDifference,
} from "./recorded-model.ts";

export interface ParityTolerances {
  /** Largest absolute differences in fp32. */
  readonly logits: number;
  readonly hidden: number;
}

/** Recorded after each prompt. */
const GREEDY_TOKENS = 24;
const SLOW_TOKENS = sized(8, GREEDY_TOKENS);

/** All prompts in one batch, some still in their prompts: the one that meets most at once. */
const MIXED: Feeding = { chunkTokens: 16, stagger: 1 };

const feedings: Readonly<Record<string, Feeding>> = {
  "each prompt in one step": { chunkTokens: 128, stagger: null },
  "prompts in chunks of 5": { chunkTokens: 5, stagger: null },
  "all prompts in one mixed batch, some still in their prompts": MIXED,
};

/** Makes a device that its user disposes of. */
type CreateDevice = () => Device | Promise<Device>;

/**
 * `createDevice` makes a fresh device for each fixture, which is disposed of afterwards. A device
 * that is `slow` computes greedy tokens in mixed batches alone, and fewer, except under
 * `npm run test:full`.
 */
export function parityContract(
  name: string,
  createDevice: CreateDevice,
  tolerances: ParityTolerances,
  { slow = false } = {},
): void {
  const fed = Object.entries(feedings).filter(([, feeding]) => full || !slow || feeding === MIXED);
  const newTokens = slow ? SLOW_TOKENS : GREEDY_TOKENS;
  for (const fixture of decoderFixtures) {
    describe(`${name} and ${fixture}`, () => {
      const recorded = openRecordedModel(fixture);

      test("logits and last hidden states equal the recorded ones", async () => {
        await withDriver(createDevice, recorded, async (driver) => {
          for (const [sequence, { prompt, tensor }] of recorded.cases.entries()) {
            driver.step([{ sequence, tokens: prompt }]);
            const rows = prompt.map((_, row) => row);
            const hidden = worstDifference(await driver.hidden(rows), tensor("last_hidden"));
            expect(hidden).toBeLessThanOrEqual(tolerances.hidden);
            const logits = worstDifference(await driver.logits(rows), tensor("logits"));
            expect(logits).toBeLessThanOrEqual(tolerances.logits);
          }
        });
      });

      test("rows that alone are wanted are those of a whole step", async () => {
        await withDriver(createDevice, recorded, async (driver) => {
          const { hidden, logits } = await readWanted(driver, recorded);
          expect(hidden).toBeLessThanOrEqual(tolerances.hidden);
          expect(logits).toBeLessThanOrEqual(tolerances.logits);
        });
      });

      test.for(fed)("greedy tokens are the recorded ones: %s", async ([, feeding]) => {
        await withDriver(createDevice, recorded, async (driver) => {
          const prompts = recorded.cases.map(({ prompt }) => prompt);
          const banned = driver.decoder.spec.eosTokenIds;
          const made = await generateGreedily(driver, prompts, { ...feeding, newTokens, banned });
          expect(made).toEqual(recorded.cases.map(({ greedy }) => greedy.slice(0, newTokens)));
        });
      });
    });
  }

  describe(`${name} and bert-encoder`, () => {
    test("last hidden states and pooled means equal the recorded ones, in one batch", async () => {
      await expectEncoderParity(createDevice, tolerances.hidden);
    });
  });
}

/**
 * Two prompts, the first half of each in a step that nothing is wanted of, then their ends in one
 * that is asked for the last row of each, backwards, and for the second prompt's last but one. How
 * far what comes is from what was recorded.
 */
async function readWanted(
  driver: DecoderDriver,
  { cases }: RecordedModel,
): Promise<{ readonly hidden: number; readonly logits: number }> {
  // The first one has a single token.
  const pair = cases.slice(1, 3).map(({ prompt, tensor }, sequence) => {
    const half = prompt.length >> 1;
    const [first, rest] = [prompt.slice(0, half), prompt.slice(half)];
    return { sequence, prompt, tensor, first, rest };
  });
  const [one, other] = pair;
  if (one === undefined || other === undefined) throw new Error("Two prompts are wanted");
  const firsts = pair.map(({ sequence, first }) => ({ sequence, tokens: first }));
  driver.step(firsts, { wantedRows: new Int32Array(0) });
  const last = one.rest.length + other.rest.length - 1;
  const wantedRows = Int32Array.of(last, one.rest.length - 1, last - 1);
  driver.step(
    pair.map(({ sequence, rest }) => ({ sequence, tokens: rest })),
    { wantedRows },
  );
  const recordedRow = (name: string, { prompt, tensor }: typeof one, fromEnd: number) => {
    const values = tensor(name);
    const width = values.length / prompt.length;
    const row = prompt.length - fromEnd;
    return values.subarray(row * width, (row + 1) * width);
  };
  const recordedRows = (name: string) => [
    recordedRow(name, other, 1),
    recordedRow(name, one, 1),
    recordedRow(name, other, 2),
  ];
  const worst = (actual: Float32Array, rows: readonly Float32Array[]) =>
    worstDifference(actual, Float32Array.from(rows.flatMap((row) => [...row])));
  const hidden = await driver.hidden([...wantedRows]);
  const logits = await driver.logits([...wantedRows].slice(1));
  return {
    hidden: worst(hidden, recordedRows("last_hidden")),
    logits: worst(logits, recordedRows("logits").slice(1)),
  };
}

async function withDriver(
  createDevice: CreateDevice,
  { model, sources, cases }: RecordedModel,
  run: (driver: DecoderDriver) => Promise<void>,
): Promise<void> {
  if (model.kind !== "decoder") throw new Error("A recorded decoder is wanted");
  const device = await createDevice();
  try {
    const sequences = cases.length;
    await run(new DecoderDriver({ device, model, sources, sequences, grouped: true }));
  } finally {
    device.dispose();
  }
}

async function expectEncoderParity(createDevice: CreateDevice, tolerance: number): Promise<void> {
  const { model, sources, cases } = openRecordedModel("bert-encoder");
  if (model.kind !== "encoder") throw new Error("A recorded encoder is wanted");
  const device = await createDevice();
  try {
    const { spec } = model;
    const weights = loadEncoderWeights(device, model, { sources, format: "f32" });
    const limits = { stepTokensMax: 128, sequencesMax: 4 };
    const encoder = new Encoder({ device, spec, weights, limits });
    const prompts = cases.map(({ prompt }) => prompt);
    const starts = [0];
    for (const prompt of prompts) starts.push((starts.at(-1) ?? 0) + prompt.length);
    encoder.stage({
      tokens: starts.at(-1) ?? 0,
      sequences: prompts.length,
      tokenIds: Int32Array.from(prompts.flat()),
      starts: Int32Array.from(starts),
    });
    encoder.forward();
    const hidden = await device.readF32(encoder.lastHidden());
    const pooled = await device.readF32(encoder.meanPooled(true));
    for (const [i, { tensor }] of cases.entries()) {
      const { hiddenSize } = spec;
      const rows = hidden.subarray(
        (starts[i] ?? 0) * hiddenSize,
        (starts[i + 1] ?? 0) * hiddenSize,
      );
      expect(worstDifference(rows, tensor("last_hidden"))).toBeLessThanOrEqual(tolerance);
      const mean = pooled.subarray(i * hiddenSize, (i + 1) * hiddenSize);
      const expected = tensor("mean_pooled_normalised");
      expect(worstDifference(mean, expected)).toBeLessThanOrEqual(tolerance);
    }
  } finally {
    device.dispose();
  }
}
