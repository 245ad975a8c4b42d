/**
 * node bench/rag/order-accuracy.mjs [--questions 500] [--order-seed 1] [--json FILE]
 *
 * Whether the order of passages changes answers: the bundled model's held-out questions
 * (test/fixtures/pocket/qa.jsonl), each with its passages in a random order in place of a search's,
 * in the order of our cache, and in the order of documents. Counted: exact matches of the answer
 * without citations, as the model wrote it, and cached tokens. Questions come a second time with
 * their passages in another random order, so that a book of orders has something to remember.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { LLM } from "../../dist/index.js";
import { Answerer, parseAskSettings } from "../../dist/rag/answering/index.js";
import { readFlags } from "../../tools/flags.mjs";
import { commandLine, describeMachine } from "../machine.mjs";

const { values: flags } = readFlags({
  options: {
    questions: { type: "number", default: 500, min: 1 },
    "order-seed": { type: "number", default: 1 },
    json: { type: "string", default: "" },
  },
});
const root = fileURLToPath(new URL("../..", import.meta.url));
const rows = readFileSync(`${root}test/fixtures/pocket/qa.jsonl`, "utf8")
  .trim()
  .split("\n")
  .map((line) => JSON.parse(line))
  .slice(0, flags.questions);

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

const draw = random(flags["order-seed"]);
const place = { lines: null, page: null, headings: [] };
const asked = [0, 1].flatMap(() =>
  rows.map(({ question, answer, passages }, number) => {
    const hits = passages.map((text, index) => {
      const documentId = `${String(number).padStart(4, "0")}.md`;
      const id = `${documentId} ${index}`;
      const chunk = { id, documentId, documentHash: "", index, text, place, attributes: {} };
      return { chunk, score: draw() };
    });
    return { question, answer, hits: hits.sort((a, b) => b.score - a.score) };
  }),
);
const plain = (text) =>
  text
    .replace(/\s*\[\d+\]/g, "")
    .replace(/\.$/, "")
    .trim();

const results = {};
for (const order of ["similarity", "document", "cache"]) {
  const llm = await LLM.load(undefined, { onWarning: () => {} });
  const answerer = new Answerer(llm);
  const settings = parseAskSettings({ order, style: "written", maxTokens: 32 });
  let [right, prompt, cached] = [0, 0, 0];
  for (const { question, answer, hits } of asked) {
    for await (const event of answerer.answer({ corpus: "qa", question, hits, settings })) {
      if (event.type !== "answer") continue;
      // One passage or several: both refusals are right.
      const said = plain(event.answer.text).replace("passages do", "passage does");
      if (said === plain(answer).replace("passages do", "passage does")) right++;
      prompt += event.answer.usage.promptTokens;
      cached += event.answer.usage.cachedTokens;
    }
  }
  answerer[Symbol.dispose]();
  await llm.close();
  const hitRate = Number((cached / prompt).toFixed(4));
  results[order] = { exactMatch: Number((right / asked.length).toFixed(4)), hitRate };
  console.log(order, JSON.stringify(results[order]));
}
if (flags.json !== "") {
  const result = {
    command: commandLine(),
    ...{ machine: describeMachine(), questions: asked.length, ...results },
  };
  writeFileSync(flags.json, `${JSON.stringify(result, null, 2)}\n`);
}
