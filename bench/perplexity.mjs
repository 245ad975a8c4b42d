/**
 * node bench/perplexity.mjs [--out FILE]
 *
 * What weights of fewer bits cost the bundled model: perplexity on its held-out text in float32,
 * bfloat16 and int8, beside Hugging Face's in fp32. Prints JSON and writes it; exits with 1 where
 * bfloat16 is more than 0.2 % worse than float32, or int8 more than 1 %.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { LLM } from "../dist/index.js";
import { describeMachine } from "./machine.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const { values: flags } = parseArgs({
  options: { out: { type: "string", default: `${root}bench/results/perplexity.json` } },
});

/** Precisions of weights and KV, and how much worse than float32 each may be. */
const PRECISIONS = [
  { name: "float32", options: { dtype: "float32" }, worseMax: 0 },
  { name: "bfloat16", options: { dtype: "bfloat16" }, worseMax: 0.002 },
  {
    name: "int8",
    options: { dtype: "bfloat16", quantization: "int8" },
    worseMax: 0.01,
  },
];

const fixtures = `${root}test/fixtures/pocket/`;
const recorded = JSON.parse(readFileSync(`${fixtures}heldout.json`, "utf8"));
const documents = readFileSync(`${fixtures}heldout.txt`, "utf8")
  .split(/^=====8<===== .*\n/gm)
  .slice(1)
  .map((text) => text.replace(/\n$/, ""));

/** Scores every document in one window, the first token left out, as the recording did. */
async function measure({ name, options, worseMax }) {
  const llm = await LLM.load(`${root}models/pocket`, options);
  const started = performance.now();
  const results = await llm.generate(documents, { promptLogprobs: 0, maxTokens: 1 });
  const seconds = (performance.now() - started) / 1000;
  const scores = results.flatMap(({ promptLogprobs }) => promptLogprobs.slice(1));
  const { weightFormat, kvFormat } = llm.info;
  await llm[Symbol.asyncDispose]();
  const nll = scores.reduce((sum, { logprob }) => sum - logprob, 0);
  return {
    name,
    worseMax,
    weights: weightFormat,
    keysAndValues: kvFormat,
    scoredTokens: scores.length,
    perplexity: Math.exp(nll / scores.length),
    tokensPerSecond: Math.round(scores.length / seconds),
  };
}

const measured = [];
for (const precision of PRECISIONS) measured.push(await measure(precision));
const [exact] = measured;
const rows = measured.map(({ worseMax, ...row }) => {
  const worse = row.perplexity / exact.perplexity - 1;
  return { ...row, worseThanFloat32: worse, worseMax, passed: worse <= worseMax };
});
const result = {
  benchmark: "perplexity",
  command: "node bench/perplexity.mjs",
  model: "models/pocket",
  text: "test/fixtures/pocket/heldout.txt",
  machine: describeMachine(),
  huggingFace: { perplexity: recorded.perplexity, scoredTokens: recorded.scored_tokens },
  rows,
};
const text = `${JSON.stringify(result, null, 2)}\n`;
mkdirSync(dirname(flags.out), { recursive: true });
writeFileSync(flags.out, text);
process.stdout.write(text);
process.exitCode = rows.every(({ passed }) => passed) ? 0 : 1;
