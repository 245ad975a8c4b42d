// node bench/gpu/drafts.mjs [--model FOLDER] [--kind redrafter|eagle3] [--batches 1,8,16,32]
//     [--shapes 1x4,2x3,4x4] [--draft-vocabulary 32000] [--blocks 2] [--tokens N] [--steps 40]
//     [--rounds 3] [--adaptive] [--json FILE]
//
// What a step costs that drafts by a network and verifies what the step before drafted, beside a
// plain one of a model without drafter, at the shape of a large model (default: Llama-3.1-8B's)
// with random weights. Such a drafter is never right, so each step gives one token: its time is
// what is measured. The speed-up is computed from it and from tokens a step of drafts of five,
// which are assumptions about a trained drafter, not measurements: for a ReDrafter what the paper
// has for its widths (arXiv 2403.09919: 2.35 for one beam, 2.50 for two, 2.73 for four, 3.09 for
// more), for an EAGLE-3 3.5, or `--tokens`.
// `--adaptive`: instead, what such a drafter costs where measured times decide how much it drafts,
// which should be nothing: ms of a token over runs of ten times `--steps` tokens.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { cudaFromEnvironment } from "../../dist/cli/cuda-environment.js";
import { ModelDrafts } from "../../dist/engine/loop/model-drafts.js";
import { LLM } from "../../dist/index.js";
import { readFlags } from "../../tools/flags.mjs";
import { commandLine, describeMachine, median } from "../machine.mjs";
import { namedFlags, openOrGiveUp, requireBuild, warn, writeJson } from "./gpu-bench.mjs";
import { writeRandomDrafter } from "./random-drafter.mjs";
import { llamaFolder } from "./shape.mjs";

await requireBuild();
const { values: flags } = readFlags({
  options: {
    model: { type: "string", default: llamaFolder },
    batches: { type: "numbers", default: [1, 8, 16, 32], min: 1 },
    shapes: { type: "string", default: "1x2,1x4,2x2,2x4,4x4,8x4" },
    "draft-vocabulary": { type: "number", default: 32_000, min: 1 },
    kind: { type: "string", default: "redrafter" },
    blocks: { type: "number", default: 2, min: 1 },
    tokens: { type: "number", min: 1 },
    steps: { type: "number", default: 40, min: 4 },
    rounds: { type: "number", default: 3, min: 1 },
    device: { type: "string", default: "cuda" },
    adaptive: { type: "boolean" },
    json: { type: "string" },
  },
});
const shapes = flags.shapes.split(",").map((text) => {
  const [width, length] = text.split("x").map(Number);
  return { width, length };
});
/** Tokens a step of drafts of five, by width. */
function assumed(width) {
  if (flags.tokens !== undefined) return flags.tokens;
  if (flags.kind === "eagle3") return 3.5;
  return width === 1 ? 2.35 : width === 2 ? 2.5 : width <= 4 ? 2.73 : 3.09;
}

/**
 * Tokens a step of shorter drafts, if each drafted token is right as often as the one before:
 * 1 + a + a² + … up to the length, where five of them give the assumed number.
 */
function scripted({ width, length }) {
  const sumOf = (rate, count) => {
    let sum = 1;
    for (let depth = 1; depth <= count; depth++) sum += rate ** depth;
    return sum;
  };
  let [low, high] = [0, 1];
  for (let round = 0; round < 40; round++) {
    const middle = (low + high) / 2;
    if (sumOf(middle, 5) < assumed(width)) low = middle;
    else high = middle;
  }
  return sumOf(low, length);
}

const widthMax = Math.max(...shapes.map(({ width }) => width));
const lengthMax = Math.max(...shapes.map(({ length }) => length));
const nodesMax = Math.max(...shapes.map(({ width, length }) => width * length));
const rowsMax = Math.max(...flags.batches) * (flags.adaptive === true ? 1 : 1 + nodesMax);

// A drafter that is never right would rest after a few drafts.
if (flags.adaptive !== true) ModelDrafts.prototype.verified = () => {};

const load = (speculative) =>
  openOrGiveUp(() =>
    LLM.load(flags.model, {
      ...{ device: flags.device, dtype: "bfloat16", randomWeights: true, engineThread: false },
      ...(flags.device === "cuda" && { cuda: cudaFromEnvironment() }),
      // So many rows can be sampled, too.
      scheduler: { runningSequencesMax: rowsMax, stepTokensMax: Math.max(2048, rowsMax) },
      ...{ speculative, onWarning: warn },
    }),
  );

/** Different prompts of 128 tokens. */
function promptsOf(batch) {
  return Array.from({ length: batch }, (_, at) => ({
    promptTokenIds: Array.from(
      { length: 128 },
      (_, place) => 1000 + ((7919 * at + 31 * place) % 9000),
    ),
  }));
}

/** ms of a decoding step of so many sequences. */
async function stepMs(llm, batch, speculative) {
  const prompts = promptsOf(batch);
  const options = { temperature: 0, ignoreEos: true, speculative };
  const secondsOf = async (maxTokens) => {
    const before = llm.stats().steps;
    const started = performance.now();
    await llm.generate(prompts, { ...options, maxTokens });
    return { ms: performance.now() - started, steps: llm.stats().steps - before };
  };
  // The first run captures graphs; of two lengths, the difference is decoding alone.
  await secondsOf(8);
  const before = llm.stats();
  const times = [];
  for (let round = 0; round < flags.rounds; round++) {
    const short = await secondsOf(4);
    const long = await secondsOf(4 + flags.steps);
    times.push((long.ms - short.ms) / (long.steps - short.steps));
  }
  const { draftedTokens, steps } = llm.stats();
  const nodes = (draftedTokens - before.draftedTokens) / (steps - before.steps);
  return { ms: median(times), nodes };
}

/** ms for each token of a sequence, as the engine chooses what it drafts. */
async function tokenMs(llm, batch) {
  const tokens = 10 * flags.steps;
  const times = [];
  for (let round = 0; round <= flags.rounds; round++) {
    const started = performance.now();
    await llm.generate(promptsOf(batch), { temperature: 0, ignoreEos: true, maxTokens: tokens });
    // The first run captures graphs.
    if (round > 0) times.push((performance.now() - started) / tokens);
  }
  return median(times);
}

const round = (value) => Math.round(value * 1000) / 1000;
const plain = await load({ kind: "off" });
const plainOf = new Map();
const plainMsOf = async (batch) =>
  flags.adaptive === true ? await tokenMs(plain, batch) : (await stepMs(plain, batch, false)).ms;
for (const batch of flags.batches) plainOf.set(batch, await plainMsOf(batch));
await plain.close();

const folder = mkdtempSync(join(tmpdir(), "perigee-drafter-"));
writeRandomDrafter(folder, { ...flags, draftVocabulary: flags["draft-vocabulary"] });
const llm = await load({
  ...{ kind: flags.kind, model: folder, adaptive: flags.adaptive === true },
  ...{ width: widthMax, lengthMax },
});
rmSync(folder, { recursive: true });

const rows = [];
for (const batch of flags.adaptive === true ? flags.batches : []) {
  const plainMs = plainOf.get(batch);
  const before = llm.stats();
  const ms = await tokenMs(llm, batch);
  const { draftedTokens, steps } = llm.stats();
  const nodes = (draftedTokens - before.draftedTokens) / (steps - before.steps);
  rows.push({
    ...{ kind: flags.kind, batch, width: widthMax, length: lengthMax, adaptive: true },
    ...{ nodes: round(nodes), plainMs: round(plainMs), ms: round(ms) },
    speedUp: round(plainMs / ms),
  });
  console.log(JSON.stringify(rows.at(-1)));
}
for (const batch of flags.adaptive === true ? [] : flags.batches) {
  const plainMs = plainOf.get(batch);
  // What an EAGLE-3 writes of each token is written in these steps, too.
  const { ms: undraftedMs } = await stepMs(llm, batch, false);
  for (const { width, length } of shapes) {
    const { ms, nodes } = await stepMs(llm, batch, { kind: flags.kind, width, length });
    const tokens = scripted({ width, length });
    const speedUp = (tokens * plainMs) / ms;
    rows.push({
      ...{ kind: flags.kind, batch, width, length, nodes: round(nodes) },
      ...{ plainMs: round(plainMs), undraftedMs: round(undraftedMs), ms: round(ms) },
      ...{ tokens: round(tokens), speedUp: round(speedUp) },
    });
    console.log(JSON.stringify(rows.at(-1)));
  }
}
const { drafter } = llm.info.speculative;
await llm.close();
writeJson(flags.json, {
  command: commandLine(),
  ...{ machine: describeMachine(), flags: namedFlags(flags), drafter, rows },
});
