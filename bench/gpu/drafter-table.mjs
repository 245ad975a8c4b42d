// node bench/gpu/drafter-table.mjs --model FOLDER --prompts FILE [--kinds redrafter,medusa]
//     [--batches 1,2,4,8,16,32,64] [--widths 1,2,4,8,16] [--length 4] [--max-tokens 128]
//     [--rounds 3] [--requests 6] [--device cuda] [--json FILE]
//
// Tokens a second of one request, by how many run at once and by the width of the drafts, as Table
// 3 of arXiv 2403.09919 has them, and beside them the speed-up over the same engine without drafts.
// The model and its drafters (MODEL/drafters/KIND) must be trained: what is accepted is what is
// measured. Prompts are rows of `perigee generate --input` with token ids
// (training.drafters.prompts writes them), greedy; those whose outputs repeat themselves, or end
// soon, are left out, since any drafter continues the ones and the others are mostly prompt.
//
// `--requests` times the batch many requests run in a round, of which so many at once as the batch
// says; all but the first round find their prompts in the prefix cache, so what is timed is
// decoding. Medians over rounds. `auto`: the widest shape with measured times deciding how much is
// drafted (`speculative.adaptive`), every other column verifies all that is drafted.
import { readFileSync } from "node:fs";
import { cudaFromEnvironment } from "../../dist/cli/cuda-environment.js";
import { LLM } from "../../dist/index.js";
import { readFlags } from "../../tools/flags.mjs";
import { describeMachine, median } from "../machine.mjs";
import { giveUp, openOrGiveUp, requireBuild, warn, writeJson } from "./gpu-bench.mjs";
import { textTable } from "./text-table.mjs";

await requireBuild();
const { values: flags } = readFlags({
  options: {
    model: { type: "string" },
    prompts: { type: "string" },
    kinds: { type: "string", default: "redrafter,medusa" },
    batches: { type: "numbers", default: [1, 2, 4, 8, 16, 32, 64], min: 1 },
    widths: { type: "numbers", default: [1, 2, 4, 8, 16], min: 1 },
    length: { type: "number", default: 4, min: 1 },
    "max-tokens": { type: "number", default: 128, min: 2 },
    rounds: { type: "number", default: 3, min: 1 },
    requests: { type: "number", default: 6, min: 1 },
    device: { type: "string", default: "cuda" },
    json: { type: "string" },
  },
});
if (flags.model === undefined || flags.prompts === undefined) {
  giveUp("Cannot measure without a trained model: use --model FOLDER --prompts FILE");
}
/** As training.drafters.acceptance: an output with fewer distinct 4-grams repeats itself. */
const DISTINCT_MIN = 0.6;
const OUTPUT_TOKENS_MIN = 32;
/** Most and fewest requests of a round. */
const REQUESTS = { min: 24, max: 512 };

const load = (speculative) =>
  openOrGiveUp(() =>
    LLM.load(flags.model, {
      ...{ device: flags.device, dtype: "bfloat16", speculative, onWarning: warn },
      ...(flags.device === "cuda" && { cuda: cudaFromEnvironment() }),
    }),
  );

async function generate(llm, prompt, speculative) {
  const options = { temperature: 0, maxTokens: flags["max-tokens"], speculative };
  const [{ completions }] = await llm.generate([prompt], options);
  return completions[0].tokenIds;
}

/** Runs all prompts in order, `batch` at once; their outputs' ids. */
async function runAll(llm, prompts, batch, speculative) {
  const outputs = [];
  let next = 0;
  const worker = async () => {
    while (next < prompts.length) {
      const at = next++;
      outputs[at] = await generate(llm, prompts[at], speculative);
    }
  };
  await Promise.all(Array.from({ length: batch }, worker));
  return outputs;
}

function repeatsItself(ids) {
  const grams = new Set(ids.slice(3).map((_, at) => ids.slice(at, at + 4).join()));
  return grams.size < DISTINCT_MIN * (ids.length - 3);
}

/** The prompts that a batch is measured with: the same for every column. */
function promptsOf(prompts, batch) {
  const wanted = Math.min(REQUESTS.max, Math.max(REQUESTS.min, flags.requests * batch));
  return Array.from({ length: wanted }, (_, at) => prompts[at % prompts.length]);
}

/** Tokens a second of one of `batch` requests, and tokens of a step that drafts. */
async function measure(llm, prompts, batch, speculative) {
  const chosen = promptsOf(prompts, batch);
  await runAll(llm, chosen, batch, speculative);
  const [rates, before] = [[], llm.stats().acceptedTokens];
  let tokens = 0;
  for (let round = 0; round < flags.rounds; round++) {
    const started = performance.now();
    const outputs = await runAll(llm, chosen, batch, speculative);
    const seconds = (performance.now() - started) / 1000;
    const made = outputs.reduce((sum, ids) => sum + ids.length, 0);
    rates.push(made / seconds / batch);
    tokens += made;
  }
  const accepted = llm.stats().acceptedTokens - before;
  return { tokensPerSecond: median(rates), tokensPerStep: tokens / (tokens - accepted) };
}

const rounded = (value) => Math.round(value * 100) / 100;
const rows = [];
function keep(row) {
  rows.push(row);
  console.log(JSON.stringify(row));
}

const plain = await load({ kind: "off" });
const everything = readFileSync(flags.prompts, "utf8").trim().split("\n");
const all = everything.map((line) => ({ promptTokenIds: JSON.parse(line).prompt_token_ids }));
const outputs = await runAll(plain, all, 64, false);
const prompts = all.filter(
  (_, at) => outputs[at].length >= OUTPUT_TOKENS_MIN && !repeatsItself(outputs[at]),
);
console.log(`${prompts.length} of ${all.length} prompts`);
const plainOf = new Map();
for (const batch of flags.batches) {
  const { tokensPerSecond } = await measure(plain, prompts, batch, false);
  plainOf.set(batch, tokensPerSecond);
  keep({ kind: "off", batch, width: 0, tokensPerSecond: Math.round(tokensPerSecond) });
}
const { parameters } = plain.info;
await plain.close();

const drafters = {};
for (const kind of flags.kinds.split(",")) {
  const width = Math.max(...flags.widths);
  for (const adaptive of [false, true]) {
    const llm = await load({ kind, width, lengthMax: flags.length, adaptive });
    drafters[kind] = llm.info.speculative.drafter;
    for (const batch of flags.batches) {
      for (const width of adaptive ? ["auto"] : flags.widths) {
        const shape = adaptive ? {} : { width };
        const speculative = { kind, length: flags.length, ...shape };
        const found = await measure(llm, prompts, batch, speculative);
        keep({
          ...{ kind, batch, width, tokensPerSecond: Math.round(found.tokensPerSecond) },
          tokensPerStep: rounded(found.tokensPerStep),
          speedUp: rounded(found.tokensPerSecond / plainOf.get(batch)),
        });
      }
    }
    await llm.close();
  }
  const columns = [...flags.widths, "auto"];
  const found = (batch, width) =>
    rows.find((row) => row.kind === kind && row.batch === batch && row.width === width);
  const textOf = ({ tokensPerSecond, speedUp }) => `${tokensPerSecond} ${speedUp.toFixed(2)}×`;
  console.log(`${kind}: tokens a second of one request, and the speed-up over no drafts`);
  const table = [
    { title: "batch", of: (batch) => batch },
    { title: "off", of: (batch) => Math.round(plainOf.get(batch)) },
    ...columns.map((width) => ({
      title: width === "auto" ? "auto" : `width ${width}`,
      of: (batch) => textOf(found(batch, width)),
    })),
  ];
  console.log(textTable(table, flags.batches));
}
const machine = describeMachine();
writeJson(flags.json, { machine, flags, model: { parameters }, drafters, rows });
