// node bench/gpu/contracts.mjs --build               (where TypeScript is)
// node bench/gpu/engine.mjs [--only REGEX] [--verbose] [--device cpu] [--fault-requests N]
//                                                    (where the GPU is)
//
// Models through the whole engine (LLM.load) on the cuda device, in fp32 beside what Hugging Face
// computed: tokens alone, in batches, in chunks and by preemption, logits, beams; samples, forks,
// swaps, all levels of the cache, windows, 8-bit keys and drafts beside the engine's own plain run.
// Then weights in fewer bits, an encoder, constrained output, and the bundled model if it is there;
// and many requests beside planted failures: of the device, of grammars, of begin and commit.
// Prints failures, a line per suite, and exits 1 if anything failed.
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { cudaFromEnvironment } from "../../dist/cli/cuda-environment.js";
import { openDevice } from "../../dist/devices/index.js";
import { LLM } from "../../dist/index.js";
import { readFlags, refuse } from "../../tools/flags.mjs";
import { openBuilt } from "./contracts/open-built.mjs";
import { describe, expect, runSuites, test } from "./contracts/stand-in.mjs";
import { openOrGiveUp } from "./gpu-bench.mjs";

const contracts = openBuilt();
const { engineParityContract } = await import(new URL("engine-parity.js", contracts));
const { engineFaultsContract } = await import(new URL("engine-faults.js", contracts));
const { cacheModesContract } = await import(new URL("engine-parity/cache-modes.js", contracts));
const { speculationContract } = await import(new URL("speculation.js", contracts));
const { decoderFixtures, fixturePath, openRecordedModel, worstDifference } = await import(
  new URL("recorded-model.js", contracts)
);

const { values: flags } = readFlags({
  options: {
    only: { type: "string" },
    verbose: { type: "boolean" },
    device: { type: "string", default: "cuda" },
    "fault-requests": { type: "number", min: 1, default: 10_000 },
  },
});
const { device } = flags;
if (!["cpu", "cuda", "reference"].includes(device)) refuse(`Cannot open ${device}: no such device`);
const cuda = cudaFromEnvironment();
const largestDifference = 1e-3;

/** Loads, uses and frees a model. */
async function withModel(path, options, use) {
  const llm = await LLM.load(path, {
    ...{ device, cuda, dtype: "float32", engineThread: false, speculative: { kind: "off" } },
    ...options,
    scheduler: { runningSequencesMax: 8, stepTokensMax: 256 },
  });
  try {
    return await use(llm);
  } finally {
    await llm[Symbol.asyncDispose]();
  }
}

const greedy = { temperature: 0, maxTokens: 24, minTokens: 24 };
const tokensOf = (results) =>
  results.map(({ completions }) => completions.map(({ tokenIds }) => [...tokenIds]));

/** Logits and beams, which the shared contracts leave to the decoder's own. */
function recordedTests(fixture) {
  const { cases } = openRecordedModel(fixture);
  test("logits of prompts", () =>
    withModel(fixturePath(fixture), {}, async (llm) => {
      for (const { prompt, tensor } of cases) {
        const { logits } = await llm.promptLogits({ promptTokenIds: prompt });
        expect(worstDifference(logits, tensor("logits"))).toBeLessThanOrEqual(largestDifference);
      }
    }));
  test("beams", () =>
    withModel(fixturePath(fixture), {}, async (llm) => {
      const beams = { beamWidth: 4, n: 4, maxTokens: 12, minTokens: 12 };
      for (const { prompt, beams: wanted } of cases) {
        const [found] = tokensOf(await llm.generate({ promptTokenIds: prompt }, beams));
        expect(found).toEqual(wanted.map(({ tokens }) => tokens));
      }
    }));
}

/** Weights in fewer bits: other tokens, and the same ones whenever the batch is the same. */
function formatTests(fixture) {
  const prompts = openRecordedModel(fixture).cases.map(({ prompt }) => ({
    promptTokenIds: prompt,
  }));
  const formats = [
    { name: "auto", options: { dtype: "auto" }, weights: "bf16" },
    { name: "int8", options: { dtype: "auto", quantization: "int8" }, weights: "i8" },
  ];
  test.for(formats.map(({ name, ...rest }) => [name, rest]))("weights %s", ([, format]) =>
    withModel(fixturePath(fixture), format.options, async (llm) => {
      if (device === "cuda") expect(llm.info.weightFormat).toBe(format.weights);
      const first = [];
      for (const prompt of prompts) first.push(tokensOf(await llm.generate(prompt, greedy))[0]);
      const again = [];
      for (const prompt of prompts) again.push(tokensOf(await llm.generate(prompt, greedy))[0]);
      expect(first.every(([tokens]) => tokens.length === greedy.maxTokens)).toBe(true);
      // A prefix from the cache is computed in another batch, where bf16 may round otherwise.
      if (flags.verbose) console.log(`${fixture}: ${same(first, again)} of ${first.length} again`);
    }),
  );
}

const same = (some, others) =>
  some.filter((tokens, i) => JSON.stringify(tokens) === JSON.stringify(others[i])).length;

function encoderTests() {
  test("an encoder's vectors are the recorded means, of length 1", () =>
    withModel(fixturePath("bert-encoder"), {}, async (llm) => {
      const { cases } = openRecordedModel("bert-encoder");
      const inputs = cases.map(({ prompt }) => ({ promptTokenIds: prompt }));
      const found = await llm.embed(inputs);
      for (const [i, { embedding }] of found.entries()) {
        const wanted = cases[i].tensor("mean_pooled_normalised");
        expect(worstDifference(embedding, wanted)).toBeLessThanOrEqual(largestDifference);
      }
    }));
}

/** Text, where a tokenizer is: constrained, and in the engine's own thread. */
function textTests(path, dtype) {
  test("constrained output", () =>
    withModel(path, { dtype }, async (llm) => {
      const options = { temperature: 1, seed: 5, n: 3, maxTokens: 40 };
      const regex = "[a-c]{3}-\\d{2}";
      const prompt = { promptTokenIds: [1, 5, 9] };
      const asked = { ...options, structuredOutput: { regex } };
      const [result] = await llm.generate(prompt, asked);
      for (const { text } of result.completions)
        expect(new RegExp(`^${regex}$`).test(text)).toBe(true);
    }));
  test("the engine's own thread gives the same tokens", async () => {
    const prompt = { promptTokenIds: [1, 5, 9, 20, 31] };
    const run = async (llm) => tokensOf(await llm.generate(prompt, greedy));
    const here = await withModel(path, { dtype }, run);
    expect(await withModel(path, { dtype, engineThread: true }, run)).toEqual(here);
  });
}

// Holding a device keeps its context alive between tests.
const held = await openOrGiveUp(() => openDevice({ kind: device, cuda, warn: console.warn }));
console.log(held.description);
describe("tokens", () => engineParityContract(device, cuda));
describe("recorded", () => {
  describe.for(decoderFixtures)("%s", recordedTests);
  describe("bert-encoder", encoderTests);
});
describe("cache", () =>
  cacheModesContract({
    ...{ device, cuda, together: decoderFixtures, varied: ["llama"] },
    apart: ["llama", "gemma2", "mistral-sliding-window"],
  }));
describe("drafts", () =>
  speculationContract({ device, cuda, fixtures: decoderFixtures, varied: "llama" }));
describe("faults", () => engineFaultsContract({ device, cuda, requests: flags["fault-requests"] }));
describe("formats", () =>
  describe.for(["llama", "gemma2", "qwen3-moe", "gpt2"])("%s", formatTests));
describe("text", () => {
  const gguf = fileURLToPath(new URL("../fixtures/gguf/tiny-llama.gguf", contracts));
  describe("tiny-llama.gguf", () => textTests(gguf, "float32"));
  const pocket = fileURLToPath(new URL("../../models/pocket/", import.meta.url));
  if (existsSync(`${pocket}model.safetensors`)) describe("pocket", () => textTests(pocket, "auto"));
  else console.log("models/pocket has no weights here: left out");
});
const only = flags.only === undefined ? null : new RegExp(flags.only);
const failed = await runSuites({ only, verbose: flags.verbose === true });
held.dispose();
process.exit(failed === 0 ? 0 : 1);
