/**
 * node bench/rag/cache.mjs [--questions 200] [--documents 50] [--chunks 8] [--seed 1]
 *     [--pool-tokens 16384] [--output-tokens 8] [--json FILE]
 *
 * What the order of passages and retention save of prompts, on the bundled model: questions by
 * Zipf's law (exponent 1) over documents, each with 5 passages of 256 tokens and a preamble of 200.
 * A document is a point in space and its chunks are near it; a question is near one chunk, and gets
 * the 5 chunks nearest to it in the whole corpus, best first. Questions come one after another.
 *
 * Counts depend on the seed alone; times are of this machine. With a pool of `--pool-tokens` blocks
 * are evicted; the other pool holds all that is computed.
 */
import { writeFileSync } from "node:fs";
import { LLM } from "../../dist/index.js";
import { Answerer, parseAskSettings } from "../../dist/rag/answering/index.js";
import { readFlags } from "../../tools/flags.mjs";
import { describeMachine, median } from "../machine.mjs";

const PASSAGES = 5;
const PASSAGE_TOKENS = 256;
const PREAMBLE_TOKENS = 200;
const DIMENSIONS = 32;
/** How far chunks are from their document, and questions from their chunk, per dimension. */
const CHUNK_SPREAD = 0.6;
const QUESTION_SPREAD = 0.5;

const { values: flags } = readFlags({
  options: {
    questions: { type: "number", default: 200, min: 1 },
    documents: { type: "number", default: 50, min: 1 },
    chunks: { type: "number", default: 8, min: 1 },
    seed: { type: "number", default: 1 },
    "pool-tokens": { type: "number", default: 16_384, min: 2048 },
    "output-tokens": { type: "number", default: 8, min: 1 },
    json: { type: "string", default: "" },
  },
});

/** @type {readonly (readonly [string, object, boolean])[]} name, settings, prefix cache */
const MODES = [
  ["no prefix cache, by similarity", { order: "similarity", retention: false }, false],
  ["by similarity", { order: "similarity", retention: false }, true],
  ["by document", { order: "document", retention: false }, true],
  ["our order", { order: "cache", retention: false }, true],
  ["our order, retention", { order: "cache", retention: true }, true],
];

/** Numbers from 0 to 1, by mulberry32. */
function random(seed) {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const draw = random(flags.seed);
const normal = () => Math.sqrt(-2 * Math.log(draw() + 1e-12)) * Math.cos(2 * Math.PI * draw());
const near = (point, spread) => point.map((value) => value + spread * normal());
const WORDS =
  "block cache table prompt engine token layer memory queue worker router event page store file " +
  "request answer stream model weight kernel batch step plan draft beam host disk device";

/** A text of exactly so many tokens, or one fewer where no word fits. */
async function textOf(codec, tokens) {
  const words = WORDS.split(" ");
  let text = "";
  for (let count = 0; count < tokens; ) {
    const word = words[Math.floor(draw() * words.length)];
    const next = `${text}${text === "" ? "The" : ""} ${word}${draw() < 0.1 ? "." : ""}`;
    count = (await codec.encode(next)).length;
    if (count <= tokens) text = next;
  }
  return text.trim();
}

async function makeCorpus(codec) {
  const chunks = [];
  for (let document = 0; document < flags.documents; document++) {
    const centre = near(Array(DIMENSIONS).fill(0), 1);
    for (let index = 0; index < flags.chunks; index++) {
      const documentId = `document-${String(document).padStart(4, "0")}.md`;
      const place = { lines: null, page: null, headings: [] };
      const text = await textOf(codec, PASSAGE_TOKENS);
      const id = `${documentId} ${index}`;
      const chunk = { id, documentId, documentHash: "", index, text, place, attributes: {} };
      chunks.push({ chunk, point: near(centre, CHUNK_SPREAD) });
    }
  }
  return chunks;
}

/** A question near a chunk of a document drawn by Zipf's law, with the chunks nearest to it. */
function makeQuestion(chunks, number) {
  const weights = Array.from({ length: flags.documents }, (_, rank) => 1 / (rank + 1));
  let left = draw() * weights.reduce((sum, weight) => sum + weight, 0);
  let document = 0;
  while (document < weights.length - 1 && left > weights[document]) left -= weights[document++];
  const target = chunks[document * flags.chunks + Math.floor(draw() * flags.chunks)];
  const point = near(target.point, QUESTION_SPREAD);
  const hits = chunks
    .map(({ chunk, point: own }) => {
      const dot = own.reduce((sum, value, place) => sum + value * point[place], 0);
      return { chunk, score: dot / Math.hypot(...own) / Math.hypot(...point) };
    })
    .sort((a, b) => b.score - a.score)
    .slice(0, PASSAGES);
  return { question: `What does the text say in place ${number} of the list?`, hits };
}

async function measure(name, settings, { workload, preamble, engine }) {
  const llm = await LLM.load(undefined, { ...engine, onWarning: () => {} });
  const answerer = new Answerer(llm);
  const asked = parseAskSettings({
    ...{ ...settings, preamble, titles: false },
    maxTokens: flags["output-tokens"],
  });
  const times = [];
  let [prompt, cached] = [0, 0];
  for (const { question, hits } of workload) {
    const request = { corpus: "bench", question, hits, settings: asked };
    for await (const event of answerer.answer(request)) {
      if (event.type !== "answer") continue;
      const { promptTokens, cachedTokens, firstTokenMs } = event.answer.usage;
      prompt += promptTokens;
      cached += cachedTokens;
      times.push(firstTokenMs);
    }
  }
  answerer[Symbol.dispose]();
  await llm.close();
  const sorted = [...times].sort((a, b) => a - b);
  return {
    ...{ name, promptTokens: prompt, computedTokens: prompt - cached },
    hitRate: Number((cached / prompt).toFixed(4)),
    firstTokenMs: {
      mean: Math.round(times.reduce((sum, ms) => sum + ms, 0) / times.length),
      p50: Math.round(median(times)),
      p90: Math.round(sorted[Math.floor(sorted.length * 0.9)]),
    },
  };
}

const maker = await LLM.load(undefined, { onWarning: () => {} });
const { codec, info } = maker;
const preamble = await textOf(codec, PREAMBLE_TOKENS);
const chunks = await makeCorpus(codec);
const workload = Array.from({ length: flags.questions }, (_, i) => makeQuestion(chunks, i));
await maker.close();
const bytesPerToken = info.bytesPerBlock / info.blockTokens;
const whole = flags.questions * (PASSAGES * PASSAGE_TOKENS + PREAMBLE_TOKENS + 64);

const pools = [];
for (const [pool, tokens] of [
  ["holds all", whole],
  ["evicts", flags["pool-tokens"]],
]) {
  const rows = [];
  for (const [name, settings, prefixCaching] of MODES) {
    const kvCache = { poolBytes: tokens * bytesPerToken, prefixCaching };
    const row = await measure(name, settings, { workload, preamble, engine: { kvCache } });
    rows.push(row);
    console.log(pool, JSON.stringify(row));
  }
  const computed = Object.fromEntries(rows.map((row) => [row.name, row.computedTokens]));
  const ours = computed["our order, retention"];
  const fewer = (than) => Number((1 - ours / computed[than]).toFixed(3));
  const saved = {
    fewerThanWithoutCache: fewer("no prefix cache, by similarity"),
    fewerThanBySimilarity: fewer("by similarity"),
    fewerThanByDocument: fewer("by document"),
  };
  console.log(pool, JSON.stringify(saved));
  pools.push({ pool, poolTokens: tokens, ...saved, rows });
}

if (flags.json !== "") {
  const { json, ...workloadFlags } = flags;
  const spread = { chunks: CHUNK_SPREAD, questions: QUESTION_SPREAD, dimensions: DIMENSIONS };
  const result = { machine: describeMachine(), workload: { ...workloadFlags, spread }, pools };
  writeFileSync(json, `${JSON.stringify(result, null, 2)}\n`);
}
