/**
 * node bench/perplexity.mjs [--only kv] [--out FILE]
 *
 * What fewer bits cost the bundled model: perplexity on its held-out text with weights in float32,
 * bfloat16 and int8, beside Hugging Face's in fp32; and with keys and values in int8 and fp8 beside
 * bfloat16 ones. Also how many more tokens a pool of the same bytes has room for then. Prints JSON
 * and writes it; exits with 1 where bfloat16 is more than 0.2 % worse than float32, int8 weights
 * more than 1 %, or 8-bit keys and values more than 0.5 % worse than bfloat16 ones. With --only kv
 * weights of other precisions are left out.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { openDevice } from "../dist/devices/index.js";
import { LLM } from "../dist/index.js";
import { readFlags } from "../tools/flags.mjs";
import { describeMachine } from "./machine.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const { values: flags } = readFlags({
  options: {
    only: { type: "string", default: "all" },
    out: { type: "string", published: `${root}bench/results/perplexity.json` },
  },
});

const withKv = (dtype) => ({ dtype: "bfloat16", kvCache: { dtype } });
/** Precisions of weights and KV, and how much worse than another one each may be. */
const PRECISIONS = [
  { name: "float32", options: { dtype: "float32" }, than: "float32", worseMax: 0 },
  { name: "bfloat16", options: { dtype: "bfloat16" }, than: "float32", worseMax: 0.002 },
  {
    name: "int8",
    options: { dtype: "bfloat16", quantization: "int8" },
    than: "float32",
    worseMax: 0.01,
  },
  { name: "int8 KV", options: withKv("int8"), than: "bfloat16", worseMax: 0.005 },
  { name: "fp8 KV", options: withKv("fp8"), than: "bfloat16", worseMax: 0.005 },
];
/** Blocks of the bundled model, and of a model of 8 G parameters as Llama 3 has them. */
const BLOCK_SHAPES = [
  { name: "models/pocket", layers: 12, kvHeads: 2, headDim: 64, blockTokens: 16 },
  { name: "headDim 128", layers: 32, kvHeads: 8, headDim: 128, blockTokens: 16 },
];

const fixtures = `${root}test/fixtures/pocket/`;
const recorded = JSON.parse(readFileSync(`${fixtures}heldout.json`, "utf8"));
const documents = readFileSync(`${fixtures}heldout.txt`, "utf8")
  .split(/^=====8<===== .*\n/gm)
  .slice(1)
  .map((text) => text.replace(/\n$/, ""));

/** Scores every document in one window, the first token left out, as the recording did. */
async function measure({ name, options, than, worseMax }) {
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
    than,
    worseMax,
    weights: weightFormat,
    keysAndValues: kvFormat,
    scoredTokens: scores.length,
    perplexity: Math.exp(nll / scores.length),
    tokensPerSecond: Math.round(scores.length / seconds),
  };
}

/** Tokens per GiB of pool by format, scales included. */
async function capacities() {
  const device = await openDevice({ kind: "cpu", warn: () => {} });
  const rows = BLOCK_SHAPES.map(({ name, ...shape }) => {
    const bytes = (format) => device.kvBytesPerBlock({ ...shape, format });
    const formats = ["f32", "bf16", "i8", "fp8"].map((format) => ({
      format,
      bytesPerToken: bytes(format) / shape.blockTokens,
      blocksOverBfloat16: Number((bytes("bf16") / bytes(format)).toFixed(3)),
    }));
    return { name, ...shape, formats };
  });
  device.dispose();
  return rows;
}

const isKv = ({ name, than }) => than === "bfloat16" || name === "bfloat16";
const measured = [];
for (const precision of PRECISIONS) {
  if (flags.only === "all" || isKv(precision)) measured.push(await measure(precision));
}
const rows = measured.map(({ worseMax, than, ...row }) => {
  const other = measured.find(({ name }) => name === than);
  if (other === undefined) return row;
  const worse = row.perplexity / other.perplexity - 1;
  return { ...row, than, worse, worseMax, passed: worse <= worseMax };
});
const result = {
  benchmark: "perplexity",
  command: `node bench/perplexity.mjs${flags.only === "all" ? "" : ` --only ${flags.only}`}`,
  model: "models/pocket",
  text: "test/fixtures/pocket/heldout.txt",
  machine: describeMachine(),
  huggingFace: { perplexity: recorded.perplexity, scoredTokens: recorded.scored_tokens },
  rows,
  capacities: await capacities(),
};
const text = `${JSON.stringify(result, null, 2)}\n`;
mkdirSync(dirname(flags.out), { recursive: true });
writeFileSync(flags.out, text);
process.stdout.write(text);
process.exitCode = rows.every(({ passed }) => passed !== false) ? 0 : 1;
