import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { LLM } from "#engine";
import { Rag } from "#rag";
import { MemoryStore } from "../../support/memory-store.ts";
import { WordEmbedder, wordChunk } from "../../support/word-embedder.ts";

const facts = [
  "The Orlen bridge was built in 1931. Its architect was Tamsin Vorle.",
  "The Kesset bridge is 412 metres long. It was designed by Joren Hask.",
  "Sarvik has a population of 18,240. Its mayor is Ilka Brand.",
  "The Morrow museum opened in 1987 and has 36 rooms.",
];
let llm: LLM;
let rag: Rag;
const store = new MemoryStore();

beforeAll(async () => {
  const embedder = new WordEmbedder();
  await store.create({ name: "default", dimensions: 256, embedder: embedder.fingerprint });
  await store.upsert(
    "default",
    facts.map((text, i) => wordChunk(`fact-${i}.md`, text, { attributes: { number: i } })),
  );
  llm = await LLM.load();
  rag = await Rag.open({ store, embedder, llm });
});
afterAll(async () => {
  await rag.close();
  await llm.close();
});

describe("Rag", () => {
  it("answers", async () => {
    for (const q of [
      "What is the population of Sarvik?",
      "How long is the Kesset bridge?",
      "Who designed the Orlen bridge?",
      "What is the height of the Eiffel tower?",
      "What is the colour of Sarvik?",
    ]) {
      const a = await rag.answer(q);
      console.log(q, "=>", a.text, JSON.stringify(a.citations), a.refusal, JSON.stringify(a.usage));
    }
    const b = await rag.answer("Who is its mayor?", {
      turns: [{ question: "What is the population of Sarvik?", answer: "18,240" }],
    });
    console.log(b.question, b.text);
    expect(b.text).toBe("Ilka Brand [1]");
  });
});
