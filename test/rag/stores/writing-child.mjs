/** Writes a corpus step after step and says so after each; the test that started it ends it. */
import { openStore } from "../../../dist/rag/stores/index.js";

const [folder = "", stepsFile = "", from = "0", exactElements = "64"] = process.argv.slice(2);
const { steps } = await import(stepsFile);
let store = null;
try {
  store = await openStore(folder, { exactElements: Number(exactElements) });
  await store.create({ name: "written", dimensions: 16, embedder: "embedder-1" });
  process.stdout.write("open\n");
  for (let step = Number(from); step < steps; step++) {
    const { write } = await import(stepsFile);
    await write(store, step);
    process.stdout.write(`${step}\n`);
  }
  await store.close();
  process.stdout.write("closed\n");
} catch (error) {
  process.stdout.write(`failed ${JSON.stringify({ code: error.code, message: error.message })}\n`);
  // What was stored is found although it is full.
  const { chunks } = await store.corpus("written");
  const query = { vector: null, text: "words", limit: 1000, filter: null };
  const found = await store.search("written", query);
  process.stdout.write(`found ${found.length} of ${chunks}\n`);
}
