/**
 * node bench/speculation.mjs [--rounds 7] [--dtype bfloat16] [--quantization none|int8]
 *   [--streams 1,4,16] [--tokens 200] [--model models/pocket] [--device cpu]
 *   [--kind lookup|redrafter|medusa] [--drafter FOLDER] [--width N] [--length N] [--fixed]
 *   [--isa avx512] [--threads N] [--only prose,schema] [--domains] [--earlier BYTES]
 *   [--temperature 0] [--top-p 1] [--out FILE]
 *
 * Decoding with drafts beside decoding without, in one process, alternately: tokens a second of
 * both and their ratio, medians, and tokens per step. Greedy, or sampled with another seed each
 * round; both must give the same tokens.
 * Width and length are those of the kind where they are not given. `--fixed`: all that is drafted
 * is verified; otherwise measured times decide how much.
 * Texts: prose, code and chat of the bundled model; `copy`: text whose repetition is asked for;
 * `schema`: JSON by a schema, until it is complete; `predicted`: the model's own output, given as
 * its prediction; `series`: eight requests one after the other, up to their ends, which differ in
 * a name and two numbers, others in each round (`--earlier`: bytes for earlier outputs).
 * `--only NAME,NAME`: these alone. Runs from dist; prints JSON.
 *
 * `--domains`: instead of all that, held-out prompts of five domains (speculation-prompts.json, by
 * training.drafters.domains), one after the other and up to the end of their outputs, and the
 * geometric mean of the ratios. `stepCost`: what a step takes beside one without drafts, both with
 * their share of the prompts, plain steps between drafts included. `processorRatio`: the same ratio
 * of the process's processor time, for machines that others use, too; best with `--threads 1`,
 * since more threads wait for each other in loops.
 */
import { readFileSync } from "node:fs";
import { LLM } from "../dist/index.js";
import { readFlags } from "../tools/flags.mjs";
import { commandLine, describeMachine, median, printResult } from "./machine.mjs";

const { values: flags } = readFlags({
  options: {
    model: { type: "string", default: "models/pocket" },
    device: { type: "string", default: "cpu" },
    kind: { type: "string", default: "lookup" },
    drafter: { type: "string" },
    isa: { type: "string" },
    threads: { type: "number", min: 1 },
    width: { type: "number", min: 1 },
    length: { type: "number", min: 1 },
    fixed: { type: "boolean" },
    only: { type: "string" },
    domains: { type: "boolean" },
    earlier: { type: "number", default: 0, min: 0 },
    rounds: { type: "number", default: 7, min: 1 },
    dtype: { type: "string", default: "bfloat16" },
    quantization: { type: "string", default: "none" },
    streams: { type: "numbers", default: [1], min: 1 },
    tokens: { type: "number", default: 200, min: 2 },
    temperature: { type: "number", default: 0, min: 0 },
    "top-p": { type: "number", default: 1 },
    out: { type: "string" },
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

const bridge = {
  type: "object",
  properties: {
    bridge_name: { type: "string", maxLength: 24 },
    year_completed: { type: "integer", minimum: 1000, maximum: 2100 },
    construction_material: { enum: ["steel", "stone", "concrete", "timber"] },
    crosses_river: { type: "boolean" },
  },
  required: ["bridge_name", "year_completed", "construction_material", "crosses_river"],
};
const SCHEMA = { type: "array", items: bridge, minItems: 4, maxItems: 4 };

/** By name: what constrains the output of a text. */
const STRUCTURED = { schema: { json: SCHEMA } };
TEXTS.schema = chat("List four bridges over the Orlen as JSON, with name, year and material.");

async function load(speculative) {
  const { model, device, dtype, quantization, isa = null, threads = null } = flags;
  return await LLM.load(model, { device, dtype, quantization, isa, threads, speculative });
}

const NAMES = ["Orlen", "Tarn", "Velde", "Isk", "Marrow", "Quill", "Sable", "Dorn"];

/** Prompts of one round of `series`. */
function seriesOf(round) {
  return NAMES.map((name, at) =>
    chat(
      "Extract the following fields as JSON: name, year, material, length.\n" +
        `The ${name} bridge of ${1800 + 13 * round + at} is made of steel and ${90 + at} m long.`,
    ),
  );
}

/** The same for requests one after the other. */
async function runSeries(llm, { round, texts = seriesOf(round) }) {
  const runs = [];
  for (const text of texts) {
    runs.push(await run(llm, { text, streams: 1, ignoreEos: false }));
  }
  return {
    seconds: runs.reduce((sum, { seconds }) => sum + seconds, 0),
    processorSeconds: runs.reduce((sum, { processorSeconds }) => sum + processorSeconds, 0),
    steps: runs.reduce((sum, { steps }) => sum + steps, 0),
    outputs: runs.flatMap(({ outputs }) => outputs),
  };
}

/** Seconds and tokens of some equal requests at once. */
async function run(llm, task) {
  const { text, streams, prediction, structuredOutput, ignoreEos = true, round = 1 } = task;
  const prompts = Array.from({ length: streams }, () => text);
  const before = llm.stats();
  const usage = process.cpuUsage();
  const started = performance.now();
  const results = await llm.generate(prompts, {
    ...{ temperature: flags.temperature, topP: flags["top-p"], seed: 1000 * round },
    ...{ maxTokens: flags.tokens, ignoreEos },
    ...(prediction !== undefined && { prediction }),
    ...(structuredOutput !== undefined && { structuredOutput }),
  });
  const seconds = (performance.now() - started) / 1000;
  const { user, system } = process.cpuUsage(usage);
  const processorSeconds = (user + system) / 1e6;
  const steps = llm.stats().steps - before.steps;
  return {
    seconds,
    processorSeconds,
    steps,
    outputs: results.map(({ completions }) => completions[0]),
  };
}

async function compare(llms, task) {
  const seconds = { off: [], on: [] };
  const processorRatios = [];
  let [steps, plainSteps, tokens] = [0, 0, 0];
  for (let round = 0; round <= flags.rounds; round++) {
    const off = await (task.run ?? run)(llms.off, { ...task, round });
    const on = await (task.run ?? run)(llms.on, { ...task, round });
    const ids = ({ outputs }) => JSON.stringify(outputs.map(({ tokenIds }) => tokenIds));
    if (flags.dtype === "float32" && ids(off) !== ids(on)) throw new Error("Other tokens");
    tokens = on.outputs.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0);
    // The first round warms up.
    if (round === 0) continue;
    steps += on.steps;
    plainSteps += off.steps;
    seconds.off.push(off.seconds);
    seconds.on.push(on.seconds);
    processorRatios.push(off.processorSeconds / on.processorSeconds);
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
    ...(task.texts !== undefined && {
      stepCost: rounded(plainSteps / steps / median(ratios)),
      processorRatio: rounded(median(processorRatios)),
    }),
  };
}

function isWanted(name) {
  return flags.only === undefined || flags.only.split(",").includes(name);
}

const llms = {
  off: await load({ kind: "off" }),
  on: await load({
    kind: flags.kind,
    model: flags.drafter ?? null,
    width: flags.width ?? null,
    lengthMax: flags.length ?? null,
    adaptive: flags.fixed !== true,
    ...(flags.earlier > 0 && { earlierBytes: flags.earlier }),
  }),
};
const results = {};

/** Compares domain by domain; the geometric mean of their ratios goes last. */
async function compareDomains() {
  const file = new URL("speculation-prompts.json", import.meta.url);
  const domains = Object.entries(JSON.parse(readFileSync(file, "utf8")));
  const wanted = domains.filter(([name]) => isWanted(name));
  for (const [name, texts] of wanted) {
    results[name] = await compare(llms, { streams: 1, run: runSeries, texts });
  }
  const meanOf = (field) => {
    const logs = wanted.map(([name]) => Math.log(results[name][field]));
    const mean = Math.exp(logs.reduce((sum, log) => sum + log, 0) / logs.length);
    return Math.round(mean * 100) / 100;
  };
  results.geometricMean = meanOf("ratio");
  results.geometricMeanOfProcessorRatios = meanOf("processorRatio");
}

if (flags.domains) await compareDomains();
for (const streams of flags.domains ? [] : flags.streams) {
  for (const [name, text] of Object.entries(TEXTS)) {
    if (!isWanted(name)) continue;
    const structuredOutput = STRUCTURED[name];
    results[`${name} ${streams}`] = await compare(llms, { text, streams, structuredOutput });
  }
  if (isWanted("series") && streams === 1) {
    results.series = await compare(llms, { streams: 1, run: runSeries });
  }
  if (!isWanted("predicted")) continue;
  const text = TEXTS.prose;
  const { outputs } = await run(llms.off, { text, streams: 1 });
  const prediction = outputs[0].text;
  results[`predicted ${streams}`] = await compare(llms, { text, streams, prediction });
}
await llms.off.close();
await llms.on.close();
printResult({ command: commandLine(), machine: describeMachine(), flags, results }, flags.out);
