// Time to the first token of one long prompt, by the number of stages that its chunks go through.
//
//   node bench/pipeline-prefill.mjs [--model DIR] [--device cpu|cuda] [--stages 1,2]
//     [--tokens 4096,65024] [--chunks 2048] [--runs 3] [--threads N] [--out FILE]
//   node bench/pipeline-prefill.mjs --simulate paper,h200-8b [--stages 1,2,4] [--tokens 65536]
//
// Each row is a worker of its own, with random weights for a folder that has a config.json alone,
// as bench/gpu/llama-3.1-8b. On GPUs each stage takes one of those that are visible. Each run has
// a prompt that no earlier one begins with; the first of each length warms up and is not counted.
// On a CPU `--threads` is the number of threads of each stage: with a core for each thread of all
// stages, further ones come in addition, as GPUs would.
import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
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
    // The times of a cost model in place of workers.
    simulate: { type: "string" },
    out: { type: "string" },
  },
});
const numbers = (text) => text.split(",").filter(Boolean).map(Number);
const isFolder = existsSync(values.model);
const hasWeights =
  isFolder && readdirSync(values.model).some((name) => /safetensors|gguf/.test(name));

let seed = 0;

/** Ids that no earlier prompt begins with. */
function promptOf(tokens) {
  seed++;
  return Array.from({ length: tokens }, (_, at) => 300 + ((seed * 7919 + at * 104_729) % 3000));
}

async function firstTokenMs(llm, tokens) {
  const prompt = { promptTokenIds: promptOf(tokens) };
  const start = performance.now();
  await llm.generate(prompt, { maxTokens: 1, temperature: 0, ignoreEos: true });
  return performance.now() - start;
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
      pipeline: { stages, chunkTokens, timeoutMs: 600_000 },
      scheduler: {
        ...{ runningSequencesMax: 4, stepTokensMax: chunkTokens },
        contextTokensMax: Math.max(...numbers(values.tokens)) + 16,
      },
      onWarning: () => {},
    });
    for (const tokens of numbers(values.tokens)) {
      await firstTokenMs(llm, tokens);
      const taken = [];
      for (let run = 0; run < Number(values.runs); run++)
        taken.push(await firstTokenMs(llm, tokens));
      const row = { stages, chunkTokens, tokens, firstTokenMs: Math.round(median(taken)), taken };
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
