/**
 * node bench/speculation.mjs [--rounds 7] [--dtype bfloat16] [--quantization none|int8]
 *   [--streams 1,4,16] [--tokens 200] [--model models/pocket] [--device cpu]
 *   [--kind lookup|redrafter] [--drafter FOLDER] [--width N] [--length N] [--fixed]
 *   [--temperature 0] [--top-p 1]
 *
 * Decoding with drafts beside decoding without, in one process, alternately: tokens a second of
 * both and their ratio, medians, and tokens per step. Greedy, or sampled with another seed each
 * round; both must give the same tokens.
 * Width and length are those of the kind where they are not given. `--fixed`: all that is drafted
 * is verified; otherwise measured times decide how much.
 * Texts: prose, code and chat of the bundled model; `copy`: text whose repetition is asked for;
 * `predicted`: the model's own output, given as its prediction. Runs from dist; prints JSON.
 */
import { LLM } from "../dist/index.js";
import { readFlags } from "../tools/flags.mjs";
import { describeMachine, median } from "./machine.mjs";

const { values: flags } = readFlags({
  options: {
    model: { type: "string", default: "models/pocket" },
    device: { type: "string", default: "cpu" },
    kind: { type: "string", default: "lookup" },
    drafter: { type: "string" },
    width: { type: "number", min: 1 },
    length: { type: "number", min: 1 },
    fixed: { type: "boolean" },
    rounds: { type: "number", default: 7, min: 1 },
    dtype: { type: "string", default: "bfloat16" },
    quantization: { type: "string", default: "none" },
    streams: { type: "numbers", default: [1], min: 1 },
    tokens: { type: "number", default: 200, min: 2 },
    temperature: { type: "number", default: 0, min: 0 },
    "top-p": { type: "number", default: 1 },
  },
});

const chat = (text) => `<|im_start|>user\n${text}<|im_end|>\n<|im_start|>assistant\n`;
const rows = Array.from({ length: 12 }, (_, at) => `{"name": "item ${at}", "price": ${at * 7}}`);

/** By name: a text that the model continues. */
const TEXTS = {
  prose: "A hash table stores pairs of keys and values. To find a value,",
  code: 'def read_lines(path):\n    """Return the lines of a file."""\n',
  chat: chat("What is a KV cache?"),
  json: chat("Extract the following fields as JSON: name, year.\nThe Orlen bridge is of 1931."),
  copy: `${rows.join("\n")}\n\nThe same again:\n${rows.slice(0, 2).join("\n")}\n`,
};

async function load(speculative) {
  const { model, device, dtype, quantization } = flags;
  return await LLM.load(model, { device, dtype, quantization, speculative });
}

/** Seconds and tokens of some equal requests at once. */
async function run(llm, { text, streams, prediction, seed = 1 }) {
  const prompts = Array.from({ length: streams }, () => text);
  const before = llm.stats();
  const started = performance.now();
  const results = await llm.generate(prompts, {
    ...{ temperature: flags.temperature, topP: flags["top-p"], seed: 1000 * seed },
    ...{ maxTokens: flags.tokens, ignoreEos: true },
    ...(prediction !== undefined && { prediction }),
  });
  const seconds = (performance.now() - started) / 1000;
  const steps = llm.stats().steps - before.steps;
  return { seconds, steps, outputs: results.map(({ completions }) => completions[0]) };
}

async function compare(llms, task) {
  const seconds = { off: [], on: [] };
  let [steps, tokens] = [0, 0];
  for (let round = 0; round <= flags.rounds; round++) {
    const off = await run(llms.off, { ...task, seed: round });
    const on = await run(llms.on, { ...task, seed: round });
    const ids = ({ outputs }) => JSON.stringify(outputs.map(({ tokenIds }) => tokenIds));
    if (flags.dtype === "float32" && ids(off) !== ids(on)) throw new Error("Other tokens");
    tokens = on.outputs.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0);
    // The first round warms up.
    if (round === 0) continue;
    steps += on.steps;
    seconds.off.push(off.seconds);
    seconds.on.push(on.seconds);
  }
  const ratios = seconds.off.map((value, round) => value / seconds.on[round]);
  const rounded = (value) => Math.round(value * 100) / 100;
  return {
    streams: task.streams,
    offTokensPerSecond: Math.round(tokens / median(seconds.off)),
    onTokensPerSecond: Math.round(tokens / median(seconds.on)),
    ratio: rounded(median(ratios)),
    ratios: [Math.min(...ratios), Math.max(...ratios)].map(rounded),
    tokensPerStep: rounded((flags.rounds * tokens) / task.streams / steps),
  };
}

const llms = {
  off: await load({ kind: "off" }),
  on: await load({
    kind: flags.kind,
    model: flags.drafter ?? null,
    width: flags.width ?? null,
    lengthMax: flags.length ?? null,
    adaptive: flags.fixed !== true,
  }),
};
const results = {};
for (const streams of flags.streams) {
  for (const [name, text] of Object.entries(TEXTS)) {
    results[`${name} ${streams}`] = await compare(llms, { text, streams });
  }
  const text = TEXTS.prose;
  const { outputs } = await run(llms.off, { text, streams: 1 });
  const prediction = outputs[0].text;
  results[`predicted ${streams}`] = await compare(llms, { text, streams, prediction });
}
await llms.off.close();
await llms.on.close();
console.log(JSON.stringify({ machine: describeMachine(), flags, results }, null, 2));
