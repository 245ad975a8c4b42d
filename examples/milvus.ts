// MILVUS=http://127.0.0.1:19530 node examples/milvus.ts: the example of Milvus's and vLLM's own
// documents: three sentences, a vector database, an embedder, a model, and a question.
import { bundledModel } from "perigee";
import { chunkId, openEmbedder, openStore, Rag, type StoredChunk } from "perigee/rag";

const texts = [
  "Artificial intelligence became a field of research at a workshop in Dartmouth in 1956.",
  "Alan Turing wrote in 1950 how a machine's intelligence could be tested in conversation.",
  "Turing was born in Maida Vale, London, and grew up in the south of England.",
];

const address = process.env.MILVUS;
if (address === undefined) {
  console.log("skipped: MILVUS must be a server's address, e.g. http://127.0.0.1:19530");
} else {
  const embedder = await openEmbedder("embedder");
  const store = await openStore(address);
  const { dimensions, fingerprint } = embedder;
  const corpus = "perigee_example";
  await store.drop(corpus);
  await store.create({ name: corpus, dimensions, embedder: fingerprint });

  // What an ingestion would do with files.
  const vectors = await embedder.embedDocuments(texts);
  const chunks = texts.map((text, index): StoredChunk => {
    const documentId = "history.md";
    const place = { lines: null, page: null, headings: [] };
    const id = chunkId(documentId, index, text);
    const vector = vectors[index];
    return { id, documentId, documentHash: "1", index, text, place, attributes: {}, vector };
  });
  await store.upsert(corpus, chunks);

  const rag = await Rag.open({ store, embedder, llm: bundledModel });
  const { text, sources } = await rag.answer("What's Alan Turing's achievement?", { corpus });
  console.log(text);
  for (const { number, chunk } of sources) console.log(`[${number}]`, chunk.text);

  await rag.close();
  await store.drop(corpus);
  await store.close();
  await embedder.close();
}
