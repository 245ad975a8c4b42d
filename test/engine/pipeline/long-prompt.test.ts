/** A prompt of 64 Ki tokens over stages: the chunks of a tiny model with random weights. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { LLM } from "#engine";
import { sized } from "../../support/full.ts";

const CONTEXT_TOKENS = 65_536;
const folder = mkdtempSync(join(tmpdir(), "perigee-long-prompt-"));
writeFileSync(
  join(folder, "config.json"),
  JSON.stringify({
    ...{ architectures: ["LlamaForCausalLM"], model_type: "llama", vocab_size: 256 },
    ...{ hidden_size: 32, intermediate_size: 64, num_hidden_layers: 4 },
    ...{ num_attention_heads: 2, num_key_value_heads: 1, max_position_embeddings: CONTEXT_TOKENS },
    ...{ rms_norm_eps: 1e-5, rope_theta: 500_000, tie_word_embeddings: false, hidden_act: "silu" },
    ...{ bos_token_id: 1, eos_token_id: 2, torch_dtype: "float32" },
  }),
);
afterAll(() => rmSync(folder, { recursive: true }));

const promptTokenIds = Array.from(
  { length: sized(6000, CONTEXT_TOKENS - 4) },
  (_, place) => 3 + ((place * 7919 + (place >> 5)) % 250),
);

/** Three tokens behind the prompt, with the log-probability of every token of the vocabulary. */
async function answerOf(stages: number) {
  await using llm = await LLM.load(folder, {
    ...{ device: "cpu", dtype: "float32", randomWeights: true, threads: sized(1, 2) },
    ...(stages > 1 ? { pipeline: { stages } } : { scheduler: { stepTokensMax: 2048 } }),
  });
  const options = { temperature: 0, maxTokens: 3, ignoreEos: true, logprobs: -1 };
  const [result] = await llm.generate({ promptTokenIds }, options);
  return result?.completions;
}

test(`[PP3] ${promptTokenIds.length} tokens in chunks of 2,048 over 2 and 4 stages: bit for bit`, {
  timeout: sized(60_000, 600_000),
}, async () => {
  const one = await answerOf(1);
  expect(one?.[0]?.logprobs?.[0]).toBeDefined();
  expect(await answerOf(2)).toEqual(one);
  expect(await answerOf(4)).toEqual(one);
});
