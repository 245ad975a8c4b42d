/**
 * node bench/rag/retrieval.mjs [--embedder models/embedder] [--teacher DIR] [--reranker DIR]
 *     [--chunk-tokens 128,256,512] [--manual-bytes 500000] [--threads 2] [--show 0] [--out FILE]
 *
 * How well answers are found: questions of FAQs in Debian packages (perl-doc, python3.11-doc,
 * debian-faq and others, see packages.mjs), each to be found among the answers to all of them and
 * the packages' manuals. Headings are left out of all texts, as a FAQ's heading is the question.
 * None of these texts was in the training of the embedder or the reranker.
 *
 * Ranks chunks by BM25 (stemmed, bm25.mjs), by the embedder's cosine on Perigee's own engine, and
 * by both (hybrid: the sum of 1 / (60 + rank) over the first 100 of each), and the same with the
 * embedder's teacher where `--teacher` names its folder. With `--reranker`, the folder of a
 * cross-encoder, also puts hybrid's first 30 chunks (as many as `Rag` has read by default) in the
 * order of their scores with the question (reranked). A question counts as found at k when a
 * chunk of its answer is among the first k. Recall at 1, 5 and 10 and the mean reciprocal rank,
 * over all questions and over those that share at most one content word with their whole answer.
 * Prints JSON and writes it. `--show` prints so many questions that the embedder does not find.
 *
 * Vectors and scores are kept in bench/.cache by model and texts. The processor time of reranking
 * is that of the run that made the scores: all threads, tokenizing included, none of the search.
 */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { LLM } from "../../dist/index.js";
import { LocalReranker } from "../../dist/rag/index.js";
import { readFlags } from "../../tools/flags.mjs";
import { describeMachine } from "../machine.mjs";
import { Bm25, contentWords } from "./bm25.mjs";
import { readPackages } from "./packages.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const cache = join(root, "bench/.cache/rag");
const { values: flags } = readFlags({
  options: {
    embedder: { type: "string", default: join(root, "models/embedder") },
    teacher: { type: "string" },
    reranker: { type: "string" },
    "reranker-device": { type: "string", default: "cpu" },
    "chunk-tokens": { type: "numbers", default: [128, 256, 512], min: 16 },
    "manual-bytes": { type: "number", default: 500_000 },
    threads: { type: "number", default: 2, min: 1 },
    show: { type: "number", default: 0 },
    out: { type: "string", published: join(root, "bench/results/rag-retrieval.json") },
  },
});

/** Of English documentation, with either tokenizer. */
const CHARS_PER_TOKEN = 4;
const FIRST = 100;
const RANK_OFFSET = 60;
/** Chunks of hybrid that a reranker reads. */
const RERANKED = 30;

/** Paragraphs joined up to a size; those that are longer, cut behind a sentence or a word. */
function chunksOf(paragraphs, charsMax) {
  const chunks = [];
  let text = "";
  for (let rest of paragraphs) {
    while (rest !== "") {
      const room = charsMax - text.length;
      if (rest.length + 2 <= room || (text === "" && rest.length <= charsMax)) {
        text = text === "" ? rest : `${text}\n\n${rest}`;
        break;
      }
      if (text !== "") {
        chunks.push(text);
        text = "";
        continue;
      }
      const ends = [". ", "\n", " "].map((end) => rest.lastIndexOf(end, charsMax - 1) + 1);
      const cut = ends.find((end) => end > charsMax / 2) ?? charsMax;
      chunks.push(rest.slice(0, cut).trim());
      rest = rest.slice(cut).trim();
    }
  }
  if (text !== "") chunks.push(text);
  return chunks;
}

/** A model's vectors of texts, one behind the other. Longer texts lose their end. */
async function embedAll(llm, texts) {
  const { dimensions, tokensMax } = llm.info.embedding;
  const vectors = new Float32Array(texts.length * dimensions);
  for (let start = 0; start < texts.length; start += 512) {
    const part = texts.slice(start, start + 512);
    const ids = await Promise.all(part.map((text) => idsOf(llm, text, tokensMax)));
    const results = await llm.embed(ids.map((promptTokenIds) => ({ promptTokenIds })));
    results.forEach(({ embedding }, place) => {
      vectors.set(embedding, (start + place) * dimensions);
    });
  }
  return vectors;
}

/** At most `tokensMax` ids, the last one that of a whole text. */
async function idsOf(llm, text, tokensMax) {
  for (let shorter = text; ; shorter = shorter.slice(0, shorter.length * 0.7)) {
    try {
      const ids = await llm.codec.encode(shorter, { addSpecialTokens: true });
      if (ids.length <= tokensMax) return ids;
      return [...ids.slice(0, tokensMax - 1), ids.at(-1)];
    } catch (error) {
      if (error.code !== "PROMPT_TOO_LONG") throw error;
    }
  }
}

/** Where what a model makes of texts is kept. */
function cacheFile(folder, texts, ending) {
  const hash = createHash("sha256").update(readFileSync(join(folder, "model.safetensors")));
  hash.update(JSON.stringify(texts));
  return join(cache, `${hash.digest("hex").slice(0, 24)}.${ending}`);
}

/** The same from an earlier run, where model and texts are equal. */
async function cachedVectors(llm, folder, texts) {
  const file = cacheFile(folder, texts, "f32");
  if (existsSync(file)) {
    const bytes = readFileSync(file);
    return {
      vectors: new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4),
      tookMs: null,
    };
  }
  const begun = performance.now();
  const vectors = await embedAll(llm, texts);
  const tookMs = performance.now() - begun;
  writeFileSync(file, Buffer.from(vectors.buffer));
  return { vectors, tookMs };
}

/** Places of the `FIRST` texts whose vectors are nearest to a query's. */
function nearest(query, vectors) {
  const { length } = query;
  const scores = new Float32Array(vectors.length / length);
  for (let place = 0; place < scores.length; place++) {
    let sum = 0;
    for (let at = 0; at < length; at++) sum += query[at] * vectors[place * length + at];
    scores[place] = sum;
  }
  return [...scores.keys()].sort((a, b) => scores[b] - scores[a]).slice(0, FIRST);
}

/** Reciprocal rank fusion (Cormack and others, 2009). */
function fuse(rankings) {
  const scores = new Map();
  for (const ranking of rankings) {
    ranking.forEach((place, rank) => {
      scores.set(place, (scores.get(place) ?? 0) + 1 / (RANK_OFFSET + rank + 1));
    });
  }
  return [...scores].sort(([, a], [, b]) => b - a).map(([place]) => place);
}

/** Scores of each query with its texts and what they took, from an earlier run if there was one. */
async function cachedScores({ reranker, folder }, asked) {
  const file = cacheFile(folder, asked, "scores.json");
  if (existsSync(file)) return JSON.parse(readFileSync(file, "utf8"));
  const scores = [];
  const used = process.cpuUsage();
  for (const { query, texts } of asked) scores.push(await reranker.score(query, texts));
  const { user, system } = process.cpuUsage(used);
  const processorMsPerQuestion = Math.round((user + system) / 1000 / asked.length);
  const made = { processorMsPerQuestion, scores };
  writeFileSync(file, JSON.stringify(made));
  return made;
}

/** Rankings whose first `RERANKED` are in the order of a reranker's scores, and what it took. */
async function rerank(model, rankings, { chunks, questions }) {
  const asked = rankings.map((ranking, place) => ({
    query: questions[place].text,
    texts: ranking.slice(0, RERANKED).map((chunk) => chunks[chunk].text),
  }));
  const { scores, processorMsPerQuestion } = await cachedScores(model, asked);
  const reranked = rankings.map((ranking, place) => {
    const order = [...scores[place].keys()].sort((a, b) => scores[place][b] - scores[place][a]);
    return [...order.map((rank) => ranking[rank]), ...ranking.slice(order.length)];
  });
  return { rankings: reranked, candidates: RERANKED, processorMsPerQuestion };
}

/** Recall and mean reciprocal rank of rankings; null: not among the first. */
function summarise(ranks) {
  const share = (found) => Number((ranks.filter(found).length / ranks.length).toFixed(4));
  const reciprocal = ranks.reduce((sum, rank) => sum + (rank === null ? 0 : 1 / rank), 0);
  return {
    recall1: share((rank) => rank === 1),
    recall5: share((rank) => rank !== null && rank <= 5),
    recall10: share((rank) => rank !== null && rank <= 10),
    mrr: Number((reciprocal / ranks.length).toFixed(4)),
  };
}

/** Content words of a question that its answer has as well. */
function sharedWords({ text, document }, documents) {
  const answer = new Set(contentWords(documents[document].paragraphs.join("\n")));
  return new Set(contentWords(text).filter((word) => answer.has(word))).size;
}

async function openModel(folder) {
  const llm = await LLM.load(folder, { device: "cpu", threads: flags.threads });
  return { llm, folder };
}

/** Rankings by one model, and what it took. */
async function rankByMeaning({ llm, folder }, { chunks, questions }) {
  const texts = chunks.map(({ text }) => text);
  const { vectors, tookMs } = await cachedVectors(llm, folder, texts);
  const asked = await cachedVectors(
    llm,
    folder,
    questions.map(({ text }) => text),
  );
  const { dimensions } = llm.info.embedding;
  const rankings = questions.map((_, place) =>
    nearest(asked.vectors.subarray(place * dimensions, (place + 1) * dimensions), vectors),
  );
  const perSecond = tookMs === null ? null : Math.round((texts.length / tookMs) * 1000);
  return { rankings, dimensions, chunksPerSecond: perSecond };
}

async function measure(chunkTokens, corpus, { models, reranker }) {
  const charsMax = chunkTokens * CHARS_PER_TOKEN;
  const chunks = corpus.documents.flatMap(({ paragraphs }, document) =>
    chunksOf(paragraphs, charsMax).map((text) => ({ text, document })),
  );
  const { questions } = corpus;
  const index = new Bm25(chunks.map(({ text }) => text));
  const methods = { bm25: questions.map(({ text }) => index.search(text, FIRST)) };
  const speeds = {};
  for (const [name, model] of Object.entries(models)) {
    const { rankings, ...more } = await rankByMeaning(model, { chunks, questions });
    const hybrid = name === "dense" ? "hybrid" : `hybrid with ${name}`;
    methods[name] = rankings;
    methods[hybrid] = rankings.map((ranking, place) => fuse([methods.bm25[place], ranking]));
    speeds[name] = more;
  }
  if (reranker !== null) {
    const { rankings, ...more } = await rerank(reranker, methods.hybrid, { chunks, questions });
    methods.reranked = rankings;
    speeds.reranker = more;
  }
  const few = questions.map((question) => sharedWords(question, corpus.documents) <= 1);
  const table = {};
  for (const [name, rankings] of Object.entries(methods)) {
    const ranks = rankings.map((ranking, place) => {
      const at = ranking.findIndex((chunk) => chunks[chunk].document === questions[place].document);
      return at === -1 ? null : at + 1;
    });
    if (name === "dense") show(ranks, rankings, { chunks, questions, documents: corpus.documents });
    table[name] = {
      all: summarise(ranks),
      fewSharedWords: summarise(ranks.filter((_, place) => few[place])),
    };
  }
  const counts = { chunks: chunks.length, fewSharedWords: few.filter(Boolean).length };
  return { chunkTokens, ...counts, methods: table, models: speeds };
}

/** Some questions that were not found, and what was found first. */
function show(ranks, rankings, { chunks, questions, documents }) {
  const missed = ranks.flatMap((rank, place) => (rank === null || rank > 10 ? [place] : []));
  for (const place of missed.slice(0, flags.show)) {
    const { text, document } = questions[place];
    console.error(`\n? ${text}\n  wanted: ${documents[document].paragraphs[0].slice(0, 160)}`);
    console.error(`  first: ${chunks[rankings[place][0]].text.slice(0, 160)}`);
  }
}

if (flags.reranker !== undefined && !existsSync(flags.embedder)) {
  console.error(`Cannot rerank: --embedder must name a folder, current value is ${flags.embedder}`);
  process.exit(2);
}
mkdirSync(cache, { recursive: true });
const corpus = readPackages(cache, { manualBytes: flags["manual-bytes"] });
const models = {};
if (existsSync(flags.embedder)) models.dense = await openModel(flags.embedder);
if (flags.teacher !== undefined) models.teacher = await openModel(flags.teacher);
let reranker = null;
if (flags.reranker !== undefined) {
  const engine = { device: flags["reranker-device"], threads: flags.threads };
  const opened = await LocalReranker.open(flags.reranker, engine);
  reranker = { reranker: opened, folder: flags.reranker };
}
const results = [];
for (const chunkTokens of flags["chunk-tokens"]) {
  results.push(await measure(chunkTokens, corpus, { models, reranker }));
}
await reranker?.reranker.close();
for (const { llm } of Object.values(models)) await llm[Symbol.asyncDispose]();
const perPackage = {};
for (const { package: name } of corpus.questions) perPackage[name] = (perPackage[name] ?? 0) + 1;
const report = {
  machine: describeMachine(),
  packages: corpus.versions,
  questions: { count: corpus.questions.length, perPackage },
  documents: corpus.documents.length,
  manualBytes: flags["manual-bytes"],
  results,
};
const text = JSON.stringify(report, null, 1);
mkdirSync(dirname(flags.out), { recursive: true });
writeFileSync(flags.out, `${text}\n`);
console.log(text);
