/** What is computed follows from the model and the settings, and from no number of the memory. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { LLM, type LoadOptions } from "#engine";

const BLOCK_BYTES = 3072;
const promptTokenIds = Array.from({ length: 40 }, (_, place) => 3 + ((place * 29) % 300));

/** A Phi-3 of made-up weights whose original context is 64 tokens, and whose own is 1,024. */
function longropeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "perigee-longrope-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const config = {
    ...{ model_type: "phi3", hidden_size: 96, intermediate_size: 112, num_hidden_layers: 3 },
    ...{ num_attention_heads: 6, num_key_value_heads: 2, vocab_size: 320 },
    ...{ max_position_embeddings: 1024, original_max_position_embeddings: 64 },
    rope_scaling: {
      type: "longrope",
      short_factor: Array(8).fill(1),
      long_factor: [1, 2, 3, 4, 6, 8, 12, 16],
    },
  };
  writeFileSync(join(folder, "config.json"), JSON.stringify(config));
  return folder;
}

async function logprobsOf(path: string, options: LoadOptions): Promise<readonly number[]> {
  const plain = { device: "cpu", dtype: "float32", engineThread: false, threads: 1 } as const;
  await using llm = await LLM.load(path, { ...plain, randomWeights: true, ...options });
  const sampling = { temperature: 0, maxTokens: 3, minTokens: 3, logprobs: 0 };
  const [result] = await llm.generate({ promptTokenIds }, sampling);
  return (result?.completions[0]?.logprobs ?? []).map(({ logprob }) => logprob);
}

test("LongRoPE's factors follow from the model's context, however few blocks the pool has", async () => {
  const path = longropeFolder();
  const withBlocks = (blocks: number, contextTokensMax: number | null = null) =>
    logprobsOf(path, {
      kvCache: { blockTokens: 4, poolBytes: blocks * BLOCK_BYTES },
      scheduler: { contextTokensMax },
    });
  // 56 tokens, which is below the original context of 64, and 256.
  const few = await withBlocks(14);
  const many = await withBlocks(64);
  expect(few).toHaveLength(3);
  expect(few).toEqual(many);
  const short = await withBlocks(64, 64);
  expect(short).not.toEqual(many);
  expect(await withBlocks(14, 64)).toEqual(short);
  expect(await withBlocks(14, 65)).toEqual(many);
});
