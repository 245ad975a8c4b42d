/**
 * node bench/rag/answers.mjs [--embedder embedder] [--mode hybrid] [--order cache] [--json FILE]
 *     [--verbose]
 *
 * Questions on this project's documentation, answered by the bundled models: docs/ is ingested
 * into a folder of its own, and each question of bench/rag/questions.json is asked once. Counted:
 * answers that contain the right string; citations whose passage has the very words that they
 * stand for, compared here by themselves; citations of the document that has the answer; questions
 * for which a passage with the right string was found. Questions on other things, which must be
 * refused, are asked as well.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { LLM } from "../../dist/index.js";
import { Rag } from "../../dist/rag/public.js";
import { readFlags } from "../../tools/flags.mjs";
import { commandLine, describeMachine } from "../machine.mjs";

const { values: flags } = readFlags({
  options: {
    embedder: { type: "string", default: "embedder" },
    mode: { type: "string", default: "hybrid" },
    order: { type: "string", default: "cache" },
    json: { type: "string", default: "" },
    verbose: { type: "boolean", default: false },
  },
});

const root = fileURLToPath(new URL("../..", import.meta.url));
const { questions } = JSON.parse(readFileSync(join(root, "bench/rag/questions.json"), "utf8"));

/** Nothing in docs/ answers these. */
const UNRELATED = [
  "What is the capital of France?",
  "Who wrote Hamlet?",
  "How tall is the Eiffel tower?",
  "What is the boiling point of water?",
  "How do I bake bread?",
  "Which team won the world cup in 2010?",
  "Who is the mayor of London?",
  "How many legs does a spider have?",
  "When did the second world war end?",
  "What is the price of gold?",
  "How far is the moon?",
  "Which vitamin is in oranges?",
  "Who painted the Mona Lisa?",
  "What is the speed of light?",
  "What language is spoken in Brazil?",
  "When was the telephone invented?",
  "What is the largest ocean?",
  "How many players are in a football team?",
  "What colour is the sky?",
  "Who discovered penicillin?",
];

/** A text as it is compared: without marks of Markdown, separators of thousands and line ends. */
const plain = (text) =>
  text
    .toLowerCase()
    .replace(/[`*|—]/g, " ")
    .replace(/(\d),(?=\d{3})/g, "$1")
    .replace(/\s+/g, " ")
    .trim();
const has = (text, part) => plain(text).includes(plain(part));
const inWords = (text) => ` ${(plain(text).match(/[\p{L}\p{N}]+/gu) ?? []).join(" ")} `;
const says = (text, claim) => inWords(text).includes(inWords(claim));

const folder = mkdtempSync(join(tmpdir(), "perigee-answers-"));
const llm = await LLM.load();
const counts = { right: 0, found: 0, refused: 0, citations: 0, said: 0, ofDocument: 0 };
let refusedUnrelated = 0;
let ingested = null;
const rag = await Rag.open({ store: join(folder, "store"), embedder: flags.embedder, llm });
try {
  for await (const event of rag.ingest(["."], { base: join(root, "docs") })) {
    if (event.type === "report") ingested = event;
  }
  const options = { mode: flags.mode, order: flags.order };
  for (const { question, answer, document } of questions) {
    const { text, citations, sources, refusal } = await rag.answer(question, options);
    const isRight = has(text, answer);
    const isFound = sources.some(({ chunk }) => has(chunk.text, answer));
    if (isRight) counts.right++;
    if (isFound) counts.found++;
    if (refusal !== null) counts.refused++;
    for (const { number, claim } of citations) {
      const { chunk } = sources[number - 1];
      counts.citations++;
      if (says(chunk.text, claim)) counts.said++;
      if (chunk.documentId === document) counts.ofDocument++;
    }
    const mark = isRight ? "right" : isFound ? "wrong" : "not found";
    if (flags.verbose) console.log(`${mark}: ${question} | ${answer} | ${text}`);
  }
  for (const question of UNRELATED) {
    const { refusal, text } = await rag.answer(question, options);
    if (refusal !== null) refusedUnrelated++;
    else if (flags.verbose) console.log(`not refused: ${question} | ${text}`);
  }
} finally {
  await rag.close();
  await llm.close();
  rmSync(folder, { recursive: true });
}

const share = (part, whole) => Number((part / Math.max(1, whole)).toFixed(3));
const result = {
  command: commandLine(),
  machine: describeMachine(),
  models: { embedder: flags.embedder, answers: "pocket", mode: flags.mode, order: flags.order },
  corpus: { documents: ingested?.documents, chunks: ingested?.chunksStored },
  questions: questions.length,
  ...counts,
  rightShare: share(counts.right, questions.length),
  citationsSaidShare: share(counts.said, counts.citations),
  citationsOfDocumentShare: share(counts.ofDocument, counts.citations),
  unrelated: { questions: UNRELATED.length, refused: refusedUnrelated },
};
console.log(JSON.stringify(result));
if (flags.json !== "") writeFileSync(flags.json, `${JSON.stringify(result, null, 2)}\n`);
