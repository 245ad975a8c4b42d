/**
 * node bench/rag/follow-ups.mjs [--questions 200] [--json FILE]
 *
 * What rewriting follow-up questions by rules brings, without a model that could do it: pairs of
 * questions about the same thing (test/fixtures/pocket/qa.jsonl), of which the second one has a
 * pronoun in place of its name. All passages of all questions are searched by words and by meaning.
 * Counted: the passage that answers is the first found, for the second question as it was asked, as
 * rewritten, and with its name.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { standaloneQuestion } from "../../dist/rag/answering/index.js";
import { chunkId, openEmbedder, openStore, Rag } from "../../dist/rag/public.js";
import { readFlags } from "../../tools/flags.mjs";
import { commandLine, describeMachine } from "../machine.mjs";

const { values: flags } = readFlags({
  options: {
    questions: { type: "number", default: 200, min: 1 },
    json: { type: "string", default: "" },
  },
});
const root = fileURLToPath(new URL("../..", import.meta.url));
const rows = readFileSync(`${root}test/fixtures/pocket/qa.jsonl`, "utf8")
  .trim()
  .split("\n")
  .map((line) => JSON.parse(line));

/** A question that ends in the name of the thing that it is about, and its pronoun for it. */
const ABOUT = new RegExp(
  "^(.*\\b(?:of|is|at|to|for|from|in|own|owns|leads|take)) " +
    "((?:(?:the|project|server|train) )?[A-Z][\\w' -]*)\\?$",
);

const pairs = [];
for (const { question, passages, answer, answerable } of rows) {
  const [, start = "", name = ""] = ABOUT.exec(question) ?? [];
  const own = passages.find((text) => text.includes(name.replace(/^the /, "")));
  if (!answerable || name === "" || own?.includes(answer) !== true) continue;
  const [, verb, property] = /^(What (?:is|are)) the (.*) of$/.exec(start) ?? [];
  const pronoun = property === undefined ? `${start} it?` : `${verb} its ${property}?`;
  pairs.push({ earlier: `What is known about ${name}?`, question, pronoun, passage: own });
  if (pairs.length >= flags.questions) break;
}

const folder = mkdtempSync(join(tmpdir(), "perigee-follow-ups-"));
const embedder = await openEmbedder("embedder");
const store = await openStore(folder);
const { dimensions, fingerprint } = embedder;
await store.create({ name: "default", dimensions, embedder: fingerprint });
const texts = [...new Set(rows.flatMap(({ passages }) => passages))];
const vectors = await embedder.embedDocuments(texts);
const place = { lines: null, page: null, headings: [] };
await store.upsert(
  "default",
  texts.map((text, index) => {
    const documentId = `${index}.md`;
    const id = chunkId(documentId, 0, text);
    const vector = vectors[index];
    return { id, documentId, documentHash: "1", index: 0, text, place, attributes: {}, vector };
  }),
);
const rag = await Rag.open({ store, embedder });
const isFirst = async (query, passage) => {
  for await (const { chunk } of rag.search(query, { limit: 1 })) return chunk.text === passage;
  return false;
};
const counts = { asAsked: 0, rewritten: 0, named: 0, same: 0 };
for (const { earlier, question, pronoun, passage } of pairs) {
  const turns = [{ question: earlier, answer: "So." }];
  const alone = await standaloneQuestion(null, pronoun, turns, { cacheSalt: null });
  if (await isFirst(pronoun, passage)) counts.asAsked++;
  if (await isFirst(alone, passage)) counts.rewritten++;
  if (await isFirst(question, passage)) counts.named++;
  if (alone.toLowerCase() === question.toLowerCase()) counts.same++;
}
await rag.close();
await store.close();
await embedder.close();
rmSync(folder, { recursive: true });

const share = (count) => Number((count / pairs.length).toFixed(3));
const shares = Object.fromEntries(Object.entries(counts).map(([key, n]) => [key, share(n)]));
const result = {
  command: commandLine(),
  machine: describeMachine(),
  pairs: pairs.length,
  passages: texts.length,
  ...shares,
};
console.log(JSON.stringify(result));
if (flags.json !== "") writeFileSync(flags.json, `${JSON.stringify(result, null, 2)}\n`);
