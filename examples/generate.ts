// node examples/generate.ts: continues prompts, two samples each, as one batch.
import { LLM } from "perigee";

const llm = await LLM.load();

const prompts = ["A cache is", "The function returns"];
const results = await llm.generate(prompts, { temperature: 0.8, maxTokens: 24, n: 2, seed: 7 });

for (const [number, result] of results.entries()) {
  for (const { index, text, finishReason } of result.completions) {
    console.log(`${prompts[number]} … (${index}, ${finishReason}):${text}`);
  }
}

await llm.close();
