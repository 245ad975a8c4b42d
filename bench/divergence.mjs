/**
 * node bench/divergence.mjs (--model FILE.gguf | --random q4_0,q4_k_m|all) [--formats q8,bf16]
 *     [--isa avx2] [--texts 10] [--tokens 120] [--without-peer] [--out FILE]
 *
 * What fewer bits cost a model: how far the distribution of each next token is from that of the
 * file's dequantised weights in float32, teacher-forced on the float32 model's own answers to chats
 * (or random tokens, where a model has no chat template). For each format here, and for llama.cpp
 * on the same file and positions: mean Kullback-Leibler divergence, how often the likeliest token
 * is the same, and how much the perplexity grows. `--random`: small files of these types, whose
 * weights have a standard deviation of 0.02; `all` types of blocks and mixtures. llama.cpp's API
 * takes more than a second for the logits of a position of a large vocabulary.
 */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { LLM } from "../dist/index.js";
import { readFlags } from "../tools/flags.mjs";
import { BLOCK_FILE_TYPES } from "./gguf-blocks.mjs";
import { eachLogits } from "./logits.mjs";
import { commandLine, describeMachine } from "./machine.mjs";
import { installPeer } from "./peer/install.mjs";
import { writeRandomModel } from "./random-gguf.mjs";
import { SHAPES } from "./shapes.mjs";
import { randomTokens } from "./work.mjs";

const here = fileURLToPath(new URL(".", import.meta.url));
const { values: flags } = readFlags({
  options: {
    model: { type: "string" },
    random: { type: "string" },
    formats: { type: "string", default: "q8,bf16" },
    isa: { type: "string" },
    texts: { type: "number", default: 10, min: 1 },
    tokens: { type: "number", default: 120, min: 2 },
    "without-peer": { type: "boolean", default: false },
    out: { type: "string" },
  },
});
if ((flags.model === undefined) === (flags.random === undefined)) {
  console.error("Cannot compare: either --model FILE.gguf or --random TYPES is wanted");
  process.exit(2);
}

const SUBJECTS = [
  "Tell me how a lighthouse works.",
  "Write a short poem about rain.",
  "What is the difference between TCP and UDP?",
  "Give me a recipe for pancakes.",
  "Explain recursion with an example in Python.",
  "Who was Marie Curie?",
  "List five ways to save water at home.",
  "Translate 'good morning' into French, Spanish and German.",
  "Why is the sky blue?",
  "Summarise the story of Cinderella.",
  "How do I sort a list of names in JavaScript?",
  "What should I pack for a week in the mountains?",
];

/** Token ids of whole chats: the prompt, and the float32 model's answer to it. */
async function chats(file) {
  const llm = await LLM.load(file, { device: "cpu", dtype: "float32" });
  const sampling = { temperature: 0, maxTokens: flags.tokens, ignoreEos: true };
  try {
    if (llm.info.hasChatTemplate) {
      const texts = [];
      for (let i = 0; i < flags.texts; i++) {
        const content = SUBJECTS[i % SUBJECTS.length];
        const prompt = await llm.chatPrompt([{ role: "user", content }]);
        const [{ completions }] = await llm.generate([prompt], sampling);
        texts.push({ ids: [...prompt.promptTokenIds, ...completions[0].tokenIds] });
      }
      return texts;
    }
    const size = llm.info.vocabularySize;
    return Array.from({ length: flags.texts }, (_, i) => ({
      ids: randomTokens(flags.tokens, size, i + 1),
    }));
  } finally {
    await llm[Symbol.asyncDispose]();
  }
}

function logSoftmax(logits) {
  let most = -Infinity;
  for (const value of logits) if (value > most) most = value;
  let sum = 0;
  for (const value of logits) sum += Math.exp(value - most);
  const shift = most + Math.log(sum);
  return Float64Array.from(logits, (value) => value - shift);
}

function argmax(values) {
  let best = 0;
  for (let i = 1; i < values.length; i++) if (values[i] > values[best]) best = i;
  return best;
}

/** Sums over positions, beside those of the float32 model, which are in files. */
class Divergence {
  #kl = 0;
  #same = 0;
  #count = 0;
  #loss = 0;
  #lossThere = 0;
  #predicted = 0;

  add(there, here, next) {
    let kl = 0;
    for (let i = 0; i < there.length; i++) {
      const p = Math.exp(there[i]);
      if (p > 0) kl += p * (there[i] - here[i]);
    }
    this.#kl += kl;
    this.#same += argmax(there) === argmax(here) ? 1 : 0;
    this.#count++;
    if (next === undefined) return;
    this.#loss -= here[next];
    this.#lossThere -= there[next];
    this.#predicted++;
  }

  summary() {
    return {
      positions: this.#count,
      meanKl: Number((this.#kl / this.#count).toExponential(3)),
      sameFirst: Number((this.#same / this.#count).toFixed(4)),
      perplexityGrowth: Number(
        (Math.exp((this.#loss - this.#lossThere) / this.#predicted) - 1).toFixed(5),
      ),
    };
  }
}

const folder = mkdtempSync(join(tmpdir(), "perigee-divergence-"));
const place = (index, row) => join(folder, `${index}-${row}`);

function logProbabilities(path) {
  const bytes = readFileSync(path);
  return logSoftmax(new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4));
}

/** What each format, and llama.cpp, lose of `file`. */
async function divergences(file) {
  const texts = (await chats(file)).map(({ ids }) => ids);
  const common = { file, isa: flags.isa ?? null, texts };
  await eachLogits({ ...common, format: "f32" }, (logits, row, index) => {
    writeFileSync(place(index, row), Buffer.from(logits.slice().buffer));
  });
  const there = (row, index) => logProbabilities(place(index, row));
  const results = {};
  for (const format of flags.formats.split(",")) {
    const divergence = new Divergence();
    await eachLogits({ ...common, format }, (logits, row, index) => {
      divergence.add(there(row, index), logSoftmax(logits), texts[index][row + 1]);
    });
    results[format] = divergence.summary();
  }
  if (flags["without-peer"]) return results;
  const asked = join(folder, "texts.json");
  writeFileSync(asked, JSON.stringify(texts));
  execFileSync(process.execPath, [`${here}peer/logits.mjs`, file, asked, join(folder, "peer-")], {
    stdio: ["ignore", "ignore", "inherit"],
  });
  const divergence = new Divergence();
  for (const [index, text] of texts.entries()) {
    for (let row = 0; row < text.length; row++) {
      const other = logProbabilities(join(folder, `peer-${index}-${row}`));
      divergence.add(there(row, index), other, text[row + 1]);
    }
  }
  results["llama.cpp"] = divergence.summary();
  for (const format of flags.formats.split(",")) {
    const ratio = results[format].meanKl / results["llama.cpp"].meanKl;
    results[format].klOverPeer = Number(ratio.toFixed(3));
  }
  return results;
}

/** Small random files of the types asked for, one after another. */
function* randomFiles() {
  for (const type of flags.random === "all" ? BLOCK_FILE_TYPES : flags.random.split(",")) {
    const path = join(folder, `random-${type}.gguf`);
    writeRandomModel(SHAPES.blocks, `random ${type}`, { [type]: path }, { deviation: 0.02 });
    yield path;
    rmSync(path);
  }
}

try {
  if (!flags["without-peer"]) installPeer();
  const models = {};
  for (const file of flags.model === undefined ? randomFiles() : [flags.model]) {
    const results = await divergences(file);
    const name = file.split("/").at(-1);
    models[name] = results;
    console.log(name);
    console.table(results);
  }
  if (flags.out !== undefined) {
    mkdirSync(dirname(flags.out), { recursive: true });
    const report = { command: commandLine(), machine: describeMachine(), models };
    writeFileSync(flags.out, `${JSON.stringify(report, null, 2)}\n`);
  }
} finally {
  rmSync(folder, { recursive: true });
}
