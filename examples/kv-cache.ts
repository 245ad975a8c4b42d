// node examples/kv-cache.ts: retention of cached blocks, KV events, and beam search.
import { bundledModel, LLM, type RetentionOptions } from "perigee";

const llm = await LLM.load(bundledModel, { kvCache: { hostCacheBytes: 2 ** 24 } });

// All questions share their start, which gets a high priority; answers get a low one.
const start = "You are Pocket. You explain computing to beginners, in one short sentence. Q: ";
const { codec } = llm;
if (codec === null) throw new Error("This model has no tokenizer");
const { length } = await codec.encode(start);
const retention: RetentionOptions = {
  ranges: [{ start: 0, end: length, priority: 90 }],
  decodePriority: 10,
};
for (const question of ["What is a cache?", "What is a mutex?"]) {
  const options = { temperature: 0, maxTokens: 8, retention };
  const [{ promptTokenIds, cachedTokens }] = await llm.generate(start + question, options);
  console.log(`${question} ${cachedTokens} of ${promptTokenIds.length} prompt tokens were cached`);
}

// Events since the cache was created: the contents that can be found, and their priorities.
for (const { id, event } of await llm.kvEvents.getLatestEvents(0)) {
  const blocks = event.type === "stored" ? event.blocks : [];
  const contents = blocks.map(({ tokenIds, priority }) => {
    return `${tokenIds.length} tokens of priority ${priority}`;
  });
  console.log(id, event.type, contents.join(", "));
}

// Three continuations at once: they share the prompt's blocks, and fork where they part.
const [beams] = await llm.generate("A cache is", { beamWidth: 3, n: 3, maxTokens: 8 });
for (const { score, text } of beams.completions) console.log(score?.toFixed(3), text);

const { cache } = llm.stats();
if (cache !== null) {
  for (const { level, cached, total } of cache.levels) console.log(level, cached, "of", total);
  console.log(cache.copiedBlocks, "blocks were copied before a beam wrote into them");
}

await llm.close();
