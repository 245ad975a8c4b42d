import { expect, test } from "vitest";
import { ReferenceDevice, type WeightFormat } from "#devices";
import type { DecoderModel } from "#models";
import { DecoderDriver } from "../contracts/decoder-driver.ts";
import { openRecordedModel, worstDifference } from "../contracts/recorded-model.ts";

function openDecoder(fixture: string) {
  const { model, ...rest } = openRecordedModel(fixture);
  if (model.kind !== "decoder") throw new Error("A decoder is wanted");
  return { model, ...rest };
}

function driverOf(fixture: string, options: { format?: WeightFormat; treeTokens?: number } = {}) {
  const { model, sources } = openDecoder(fixture);
  return new DecoderDriver({ device: new ReferenceDevice(), model, sources, ...options });
}

/** Root of the mean square error of all recorded logits, relative to that of the logits. */
async function errorIn(fixture: string, format: WeightFormat): Promise<number> {
  const driver = driverOf(fixture, { format });
  const { cases } = openDecoder(fixture);
  let error = 0;
  let power = 0;
  for (const [sequence, { prompt, tensor }] of cases.entries()) {
    driver.step([{ sequence, tokens: prompt }]);
    const logits = await driver.logits(prompt.map((_, row) => row));
    for (const [i, expected] of tensor("logits").entries()) {
      error += ((logits[i] ?? 0) - expected) ** 2;
      power += expected ** 2;
    }
  }
  return Math.sqrt(error / power);
}

// Experts' errors are those of a router that, on random weights, often nearly ties.
test.for([
  ["llama", 0.01, 0.04],
  ["gemma2", 0.01, 0.04],
  ["qwen3-moe", 0.08, 0.08],
] as const)("%s stays within %f of fp32 in bf16 and %f in i8", async ([fixture, bf16, i8]) => {
  expect(await errorIn(fixture, "bf16")).toBeLessThan(bf16);
  expect(await errorIn(fixture, "i8")).toBeLessThan(i8);
});

test("branches of a token tree give the logits of each branch alone", async () => {
  const driver = driverOf("qwen2", { treeTokens: 32 });
  const context = [5, 6, 7];
  driver.step([{ sequence: 0, tokens: context }]);
  // Root 10 with children 11 and 12; 13 follows 12.
  driver.step([{ sequence: 0, tokens: [10, 11, 12, 13], positions: [3, 4, 4, 5] }], {
    treeMask: Uint32Array.of(0b0000, 0b0000, 0b0010, 0b0010),
  });
  const tree = await driver.logits([1, 3]);

  const vocabulary = driver.decoder.spec.vocabularySize;
  const plain = driverOf("qwen2");
  plain.step([
    { sequence: 0, tokens: [...context, 10, 11] },
    { sequence: 1, tokens: [...context, 10, 12, 13] },
  ]);
  const branches = await plain.logits([4, 10]);
  expect(worstDifference(tree, branches)).toBeLessThan(1e-5);
  expect(tree.length).toBe(2 * vocabulary);
});

test("a sequence can be rewound and continued otherwise", async () => {
  const driver = driverOf("llama");
  driver.step([{ sequence: 0, tokens: [1, 2, 3, 4, 5] }]);
  driver.rewind(0, 3);
  driver.step([{ sequence: 0, tokens: [9] }]);
  const continued = await driver.logits([0]);
  driver.step([{ sequence: 1, tokens: [1, 2, 3, 9] }]);
  expect(worstDifference(continued, await driver.logits([3]))).toBeLessThan(1e-5);
});

// A norm for each branch, a feed-forward that reads the attention's input, a router of its own format.
const kinds = ["llama", "gemma2", "phi-1_5", "qwen3-moe"].flatMap((fixture) =>
  (["f32", "bf16", "i8"] as const).map((format) => [fixture, format] as const),
);

test.for(kinds)("%s in %s: rows that alone are wanted have the same bits", async (kind) => {
  const [fixture, format] = kind;
  const { cases } = openDecoder(fixture);
  const driver = driverOf(fixture, { format });
  const chunks = cases.slice(0, 3).map(({ prompt }, sequence) => ({ sequence, tokens: prompt }));
  driver.step(chunks);
  const rows = [0, 5, 2];
  const all = await driver.logits(rows);
  for (const { sequence } of chunks) driver.rewind(sequence, 0);
  driver.step(chunks, { wantedRows: Int32Array.from(rows) });
  expect(await driver.logits(rows)).toEqual(all);
});

test("only rows that are wanted can be read", async () => {
  const driver = driverOf("llama");
  driver.step([{ sequence: 0, tokens: [1, 2, 3, 4, 5] }], { wantedRows: Int32Array.of(4) });
  expect(() => driver.logits([3])).toThrow("Cannot read row 3: it was not requested");
  driver.step([{ sequence: 1, tokens: [1, 2, 3] }], { wantedRows: new Int32Array(0) });
  expect(() => driver.hidden([2])).toThrow("Cannot read row 2: it was not requested");
  const beyond = { wantedRows: Int32Array.of(3) };
  expect(() => driver.step([{ sequence: 3, tokens: [1, 2, 3] }], beyond)).toThrow("request row 3");
  // As many as there are: the step is an ordinary one.
  driver.step([{ sequence: 2, tokens: [1, 2] }], { wantedRows: Int32Array.of(0, 1) });
  expect((await driver.logits([1])).length).toBe(driver.decoder.spec.vocabularySize);
});

test("rows and steps beyond the limits are our bugs, and so is a step that was not staged", () => {
  const driver = driverOf("llama");
  expect(() => driver.decoder.logits(new Int32Array(0))).toThrow("Cannot read 0 rows");
  const tokens = Array<number>(1000).fill(1);
  expect(() => driver.step([{ sequence: 0, tokens }])).toThrow("Cannot stage 1000 tokens");
  const { model, sources } = openDecoder("llama");
  const fresh = new DecoderDriver({ device: new ReferenceDevice(), model, sources });
  const cache = new ReferenceDevice().allocateKvPool(cacheOptions(model));
  expect(() => fresh.decoder.forward(cache)).toThrow("none is staged");
});

test("a context limit shortens the table of angles, and nothing else", async () => {
  const { model, sources, cases } = openDecoder("phi3");
  const device = new ReferenceDevice();
  const driver = new DecoderDriver({ device, model, sources, contextTokens: 96 });
  const [, short] = cases;
  driver.step([{ sequence: 0, tokens: short?.prompt ?? [] }]);
  const logits = await driver.logits((short?.prompt ?? []).map((_, row) => row));
  expect(worstDifference(logits, short?.tensor("logits") ?? new Float32Array())).toBeLessThan(1e-4);
});

function cacheOptions({ spec }: DecoderModel) {
  const { kvHeads, headDim, layers } = spec;
  return {
    format: "f32",
    layers: layers.length,
    blocks: 1,
    blockTokens: 4,
    kvHeads,
    headDim,
  } as const;
}
