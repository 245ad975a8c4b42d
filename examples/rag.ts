// node examples/rag.ts: answers from documents of one's own, with sources, all on this machine.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bundledModel } from "perigee";
import { Rag } from "perigee/rag";

const folder = mkdtempSync(join(tmpdir(), "perigee-example-"));
writeFileSync(
  join(folder, "towns.md"),
  "# Sarvik\n\nSarvik has a population of 18,240. Its mayor is Ilka Brand.\n\n" +
    "# Morrow\n\nMorrow has a harbour and a museum, which opened in 1987.\n",
);

const rag = await Rag.open({ store: join(folder, "store"), llm: bundledModel });
for await (const event of rag.ingest(["towns.md"], { base: folder })) {
  if (event.type === "report")
    console.log(event.documents, "document,", event.chunksStored, "chunks");
}

const question = "What is the population of Sarvik?";
for await (const event of rag.ask(question)) {
  if (event.type === "text") process.stdout.write(event.text);
  if (event.type === "answer") {
    const { sources, citations } = event.answer;
    const { chunk } = sources[citations[0].number - 1];
    console.log("\nfrom", chunk.documentId, "under", chunk.place.headings.join(" › "));
  }
}

// It leans on the question before: "its" is Sarvik's.
const turns = [{ question, answer: "18,240" }];
const { text, usage } = await rag.answer("Who is its mayor?", { turns });
console.log(text);
console.log(usage.cachedTokens, "of", usage.promptTokens, "prompt tokens were cached");

await rag.close();
rmSync(folder, { recursive: true });
