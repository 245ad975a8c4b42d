/**
 * Loads mutated checkpoints, one after another, as its parent (checkpoints.mjs) says on its
 * command line: root of the build, instruction set (none: the best), folder of seeds, scratch
 * folder, seed, first mutant, count.
 *
 * The number of the mutant at work stands in `scratch/at`: after a crash the parent knows it. What
 * a mutant did that it must not stands on standard output, a JSON object a line.
 */
import { mkdirSync, openSync, readdirSync, writeFileSync, writeSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { Dice } from "./dice.mjs";
import { mutateBytes, mutateJson } from "./mutations.mjs";
import { DRAFTED, DRAFTERS, readSeed } from "./seeds.mjs";

const [root, isa, seedFolder, scratch, seedText, firstText, countText] = process.argv.slice(2);
const [seed, first, count] = [seedText, firstText, countText].map(Number);
const load = (name) => import(pathToFileURL(resolve(root, "dist", name)));
const { LLM } = await load("index.js");
const { EngineError } = await load("base/index.js");
const { openCheckpoint } = await load("checkpoint/index.js");
const { ChatTemplate, Tokenizer } = await load("tokenizer/index.js");
const { describeDraftModel, describeEagle3, describeMedusa, describeModel, describeReDrafter } =
  await load("models/index.js");
/** The seed that drafts are for, as far as EAGLE-3 reads it. */
const DRAFTED_BASE = { hiddenSize: 32, layers: [{}, {}] };
const DESCRIBED = {
  ...{ redrafter: describeReDrafter, medusa: describeMedusa },
  eagle3: (config) => describeEagle3(config, DRAFTED_BASE),
  "draft-model": (config) => describeDraftModel(config, CONTEXT_TOKENS),
};

/** What a broken checkpoint may be answered with. */
const ANSWERS = new Set([
  ...["CHECKPOINT_INVALID", "UNSUPPORTED_MODEL", "TOKENIZER_INVALID", "TOKENIZER_MISSING"],
  ...["MODEL_NOT_FOUND", "INVALID_ARGUMENT", "PROMPT_TOO_LONG", "OUT_OF_MEMORY"],
]);
/** No mutant has a file of more than 2 MB, nor needs more than some times as much. */
const GROWTH_BYTES_MAX = 128 * 2 ** 20;
const MESSAGE_LENGTH_MAX = 2000;
const SLOW_MS = 20_000;
const HEAD_BYTES = 4096;
/** Positions of the seeds. */
const CONTEXT_TOKENS = 128;
const RUN_EVERY = 3;

/** Each has a folder of its own, in which one file at a time is a mutant. */
const seeds = readdirSync(seedFolder).map((name) => {
  const from = join(seedFolder, name);
  const names = readdirSync(from).sort();
  const files = readSeed(from, names);
  const directory = join(scratch, "mutants", name);
  mkdirSync(directory, { recursive: true });
  for (const [file, bytes] of files) writeFileSync(join(directory, file), bytes);
  return { name, directory, names, files };
});
const tally = { accepted: 0, ran: 0, refused: {} };

function say(message) {
  writeSync(1, `${JSON.stringify(message)}\n`);
}

/** Writes mutant `index` in the place of a seed's file. */
function writeMutant(index) {
  const dice = new Dice(seed, index);
  const from = dice.pick(seeds);
  const file = dice.pick(from.names);
  const source = from.files.get(file);
  const bytes = file.endsWith(".json")
    ? mutateJson(source.toString(), dice)
    : mutateBytes(source, Math.min(source.length, HEAD_BYTES), dice);
  const path = join(from.directory, file);
  writeFileSync(path, bytes);
  const restore = () => writeFileSync(path, source);
  return { ...from, what: `${from.name}/${file}`, restore };
}

/** Everything that opening promises: each weight's bytes, the model's shape, the tokenizer. */
function readAll({ directory, name }) {
  const checkpoint = openCheckpoint(directory);
  try {
    for (const weight of checkpoint.tensors.values()) weight.bytes();
    for (const table of checkpoint.integers.values()) table.values();
    if (name in DRAFTERS) {
      DESCRIBED[name](checkpoint.config);
      return;
    }
    describeModel(checkpoint.config);
    const files = checkpoint.tokenizer;
    if (files === null) return;
    const tokenizer = new Tokenizer(files);
    tokenizer.decode(tokenizer.encodeNow("Hello, wörld! 12 ab"));
    tokenizer.decode([0, 1, 2, 3, 511, 2 ** 31 - 1]);
    if (files.chatTemplate !== null) new ChatTemplate(files.chatTemplate, {});
  } finally {
    checkpoint.close();
  }
}

/** Loads it as a user does, and runs a prompt and a token. */
async function run({ directory, name }) {
  const model = name in DRAFTERS ? join(scratch, "mutants", DRAFTED) : directory;
  const llm = await LLM.load(model, {
    ...{ device: "cpu", threads: 1, engineThread: false, onWarning() {} },
    ...(isa === "" ? {} : { isa }),
    ...(name in DRAFTERS && { speculative: { kind: name, model: directory, adaptive: false } }),
    kvCache: { poolBytes: 2 ** 20 },
    scheduler: { stepTokensMax: 64, runningSequencesMax: 4 },
  });
  const prompt = { promptTokenIds: [3, 4, 5] };
  const options = {
    maxTokens: name in DRAFTERS ? 6 : 2,
    temperature: 0,
    ignoreEos: true,
    detokenize: llm.codec !== null,
  };
  try {
    await (llm.info.kind === "encoder" ? llm.embed([prompt]) : llm.generate(prompt, options));
  } finally {
    await llm[Symbol.asyncDispose]();
  }
}

function problemOf(error) {
  if (!(error instanceof EngineError)) return `throws ${error?.stack ?? error}`;
  if (!ANSWERS.has(error.code)) return `throws ${error.code}: ${error.stack}`;
  const { length } = error.message;
  return length > MESSAGE_LENGTH_MAX ? `has a message of ${length} characters` : null;
}

async function tryMutant(index) {
  writeSync(at, String(index).padEnd(12), 0);
  const mutant = writeMutant(index);
  const { what, restore } = mutant;
  const before = process.resourceUsage().maxRSS * 1024;
  const started = performance.now();
  let problem = null;
  try {
    readAll(mutant);
    tally.accepted += 1;
    // Running takes ten times as long as reading.
    if (index % RUN_EVERY === 0) {
      await run(mutant);
      tally.ran += 1;
    }
  } catch (error) {
    problem = problemOf(error);
    const code = error?.code ?? "?";
    tally.refused[code] = (tally.refused[code] ?? 0) + 1;
  }
  const grown = process.resourceUsage().maxRSS * 1024 - before;
  const ms = performance.now() - started;
  if (problem === null && ms > SLOW_MS) problem = `took ${Math.round(ms)} ms`;
  if (index > first && grown > GROWTH_BYTES_MAX) problem ??= `took ${grown} bytes of memory`;
  if (problem !== null) say({ mutant: index, what, problem: problem.slice(0, 1500) });
  restore();
}

const at = openSync(join(scratch, "at"), "w");
for (let index = first; index < first + count; index++) await tryMutant(index);
if (Reflect.get({}, "polluted") !== undefined)
  say({ mutant: -1, problem: "a prototype was changed" });
say({ done: true, ...tally, peakBytes: process.resourceUsage().maxRSS * 1024 });
process.exit(0);
