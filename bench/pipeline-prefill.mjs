// Time to the first token of one long prompt, by the number of stages that its chunks go through.
//
//   node bench/pipeline-prefill.mjs [--model DIR] [--device cpu|cuda] [--stages 1,2]
//     [--tokens 4096,65024] [--chunks 2048] [--runs 3] [--threads N] [--check 8] [--out FILE]
//   node bench/pipeline-prefill.mjs --simulate paper,h200-8b [--stages 1,2,4] [--tokens 65536]
//
// Each row is a worker of its own, with random weights for a folder that has a config.json alone,
// as bench/gpu/llama-3.1-8b. On GPUs each stage takes one of those that are visible, and shares it
// where there are too few, which shows that all is right but is no faster. Each run has a prompt
// that no earlier one begins with; the first of each length warms up and is not counted.
// Below each row of several stages is where the time of a chunk went at each: computing its layers,
// waiting with nothing to compute, and copying hidden states between GPU and host, which does not
// add to the others where it is hidden. `--check N` compares N tokens behind each prompt, and their
// log-probabilities, with those of the first row; the exit code is 1 where tokens differ.
// On a CPU `--threads` is the number of threads of each stage: with a core for each thread of all
// stages, further ones come in addition, as GPUs would.
import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { costPreset } from "../dist/engine/mock/index.js";
import { LLM } from "../dist/index.js";
import { costsOf, PAPER_COSTS, stagedPromptMs } from "../dist/simulator/index.js";

const { values } = parseArgs({
  options: {
    model: { type: "string", default: "models/pocket" },
    device: { type: "string", default: "cpu" },
    dtype: { type: "string", default: "auto" },
    stages: { type: "string", default: "1,2" },
    tokens: { type: "string", default: "1800" },
    chunks: { type: "string", default: "2048" },
    runs: { type: "string", default: "3" },
    threads: { type: "string" },
    check: { type: "string", default: "0" },
    // Where the CUDA libraries are; found by default.
    home: { type: "string" },
    // The times of a cost model in place of workers.
    simulate: { type: "string" },
    out: { type: "string" },
  },
});
const numbers = (text) => text.split(",").filter(Boolean).map(Number);
const isFolder = existsSync(values.model);
const hasWeights =
  isFolder && readdirSync(values.model).some((name) => /safetensors|gguf/.test(name));

const CHECK_SEED = 1e6;
let seed = 0;

/** Ids that no earlier prompt begins with. */
function promptOf({ info }, tokens, seed) {
  const first = Math.min(300, info.vocabularySize >> 1);
  const count = Math.min(3000, info.vocabularySize - first);
  return Array.from({ length: tokens }, (_, at) => first + ((seed * 7919 + at * 104_729) % count));
}

async function firstTokenMs(llm, tokens) {
  const prompt = { promptTokenIds: promptOf(llm, tokens, ++seed) };
  const start = performance.now();
  await llm.generate(prompt, { maxTokens: 1, temperature: 0, ignoreEos: true });
  return performance.now() - start;
}

/** Where the time of the stages went so far; the engine's counts may be 100 ms old. */
async function stageTimes(llm) {
  await sleep(300);
  return llm.stats().stages;
}

/** Of each stage, per chunk between two counts. */
function perChunk(before, after) {
  return after.map((end, stage) => {
    const start = before[stage];
    const per = (name) => {
      const steps = Math.max(1, end.steps - start.steps);
      return Number(((end[name] - start[name]) / steps).toFixed(2));
    };
    return { computeMs: per("computeMs"), waitMs: per("waitMs"), copyMs: per("copyMs") };
  });
}

/** Tokens behind a prompt of its own, which is the same in each row. */
async function answerOf(llm, tokens) {
  const options = { maxTokens: Number(values.check), temperature: 0, ignoreEos: true, logprobs: 0 };
  const prompt = { promptTokenIds: promptOf(llm, tokens, CHECK_SEED) };
  const [{ completions }] = await llm.generate(prompt, options);
  const [{ tokenIds, logprobs }] = completions;
  return { tokenIds, logprobs: logprobs.map(({ logprob }) => logprob) };
}

/** Says how an answer compares with the first row's. */
function compare(row, first) {
  if (row.answer === undefined || row === first || first?.answer === undefined) return;
  const [own, other] = [row.answer, first.answer];
  const same = own.tokenIds.every((id, place) => id === other.tokenIds[place]);
  const apart = own.logprobs.map((value, place) => Math.abs(value - other.logprobs[place]));
  const what = same ? "equal" : "DIFFERENT";
  if (!same) process.exitCode = 1;
  console.log(
    `  ${own.tokenIds.length} tokens beside ${first.stages} stages: ${what}, log-probabilities ` +
      `at most ${Math.max(...apart)} apart`,
  );
}

const median = (list) => list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)];

const rows = [];
for (const name of values.simulate?.split(",") ?? []) {
  const costs = name === "paper" ? PAPER_COSTS : costsOf(costPreset(name), 1);
  for (const tokens of numbers(values.tokens)) {
    for (const chunkTokens of numbers(values.chunks)) {
      const msOf = (stages) => stagedPromptMs(costs, tokens, { stages, chunkTokens });
      const times = numbers(values.stages).map((stages) => [stages, Math.round(msOf(stages))]);
      rows.push({ simulated: name, tokens, chunkTokens, firstTokenMs: Object.fromEntries(times) });
      const all = times.map(([stages, ms]) => `${stages} stages ${ms} ms`).join(", ");
      console.log(`${name}, simulated: ${tokens} tokens in chunks of ${chunkTokens}: ${all}`);
    }
  }
}
const workers = values.simulate === undefined ? numbers(values.chunks) : [];
for (const chunkTokens of workers) {
  for (const stages of numbers(values.stages)) {
    const llm = await LLM.load(values.model, {
      ...{ device: values.device, dtype: values.dtype, randomWeights: !hasWeights },
      ...(values.threads !== undefined && { threads: Number(values.threads) }),
      ...(values.home !== undefined && { cuda: { home: values.home } }),
      pipeline: { stages, chunkTokens, timeoutMs: 600_000, shareGpus: true },
      scheduler: {
        ...{ runningSequencesMax: 4, stepTokensMax: chunkTokens },
        contextTokensMax: Math.max(...numbers(values.tokens)) + 16 + Number(values.check),
      },
      onWarning: () => {},
    });
    for (const tokens of numbers(values.tokens)) {
      await firstTokenMs(llm, tokens);
      const taken = [];
      const before = await stageTimes(llm);
      for (let run = 0; run < Number(values.runs); run++)
        taken.push(await firstTokenMs(llm, tokens));
      const chunks = perChunk(before, await stageTimes(llm));
      const row = { stages, chunkTokens, tokens, firstTokenMs: Math.round(median(taken)), taken };
      if (chunks.length > 0) row.perChunk = chunks;
      if (Number(values.check) > 0) row.answer = await answerOf(llm, tokens);
      rows.push(row);
      const one = rows.find(
        (of) => of.stages === 1 && of.tokens === tokens && of.chunkTokens === chunkTokens,
      );
      const times =
        one === undefined ? "" : `, ${(one.firstTokenMs / row.firstTokenMs).toFixed(2)} times`;
      console.log(
        `${stages} stages, ${tokens} tokens in chunks of ${chunkTokens}: ` +
          `${row.firstTokenMs} ms${times} (${llm.info.device})`,
      );
      for (const [stage, { computeMs, waitMs, copyMs }] of chunks.entries()) {
        console.log(
          `  stage ${stage + 1}, per chunk: ${computeMs} ms computing, ${waitMs} waiting, ` +
            `${copyMs} copying`,
        );
      }
      compare(
        row,
        rows.find((of) => of.tokens === tokens && of.chunkTokens === chunkTokens),
      );
    }
    await llm.close();
  }
}
if (values.out !== undefined) {
  const machine = { cpu: cpus()[0]?.model, cores: cpus().length, node: process.version };
  const command = ["node", "bench/pipeline-prefill.mjs", ...process.argv.slice(2)].join(" ");
  const date = new Date().toISOString().slice(0, 10);
  writeFileSync(values.out, `${JSON.stringify({ command, date, machine, rows }, null, 2)}\n`);
}
