// node examples/kv-cache.mjs: what stays cached, what the cache tells, and a search with beams.
import { LLM } from "perigee";

const llm = await LLM.load("models/pocket", { kvCache: { hostCacheBytes: 2 ** 24 } });

// The start that all questions share is worth keeping; what was answered is not.
const start = "You are Pocket. You explain computing to beginners, in one short sentence. Q: ";
const { length } = await llm.codec.encode(start);
const retention = { ranges: [{ start: 0, end: length, priority: 90 }], decodePriority: 10 };
for (const question of ["What is a cache?", "What is a mutex?"]) {
  const options = { temperature: 0, maxTokens: 8, retention };
  const [{ promptTokenIds, cachedTokens }] = await llm.generate(start + question, options);
  console.log(`${question} ${cachedTokens} of ${promptTokenIds.length} prompt tokens were cached`);
}

// What the cache told since it was made: which contents can be found, and how much they are worth.
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
for (const { level, cached, total } of cache.levels) console.log(level, cached, "of", total);
console.log(cache.copiedBlocks, "blocks were copied before a beam wrote into them");

await llm.close();
