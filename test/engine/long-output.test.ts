/** Outputs far longer than the window: what is held stays bounded, however long they become. */
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { LLM, type LoadOptions } from "#engine";
import { fixturePath } from "../contracts/recorded-model.ts";
import { sized } from "../support/full.ts";

const OUTPUT_TOKENS = sized(2_000, 20_000);
const BLOCK_TOKENS = 16;

/** A recorded model that takes longer contexts, as one that was made for them would. */
function stretched(fixture: string, contextTokensMax: number): string {
  const folder = mkdtempSync(join(tmpdir(), "perigee-stretched-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  cpSync(fixturePath(fixture), folder, { recursive: true });
  const path = join(folder, "config.json");
  const config: object = JSON.parse(readFileSync(path, "utf8"));
  writeFileSync(path, JSON.stringify({ ...config, max_position_embeddings: contextTokensMax }));
  return folder;
}

/** Most blocks held at a time, and how many tokens came. */
async function runLong(path: string, options: LoadOptions, maxTokens = OUTPUT_TOKENS) {
  await using llm = await LLM.load(path, {
    ...{ device: "cpu", dtype: "float32", engineThread: false, threads: 1 },
    // Drafts hold blocks, too, while a step verifies them.
    speculative: { kind: "off" },
    ...options,
    kvCache: { blockTokens: BLOCK_TOKENS, ...options.kvCache },
  });
  let heldMax = 0;
  llm.listen({
    onStep: (_, { heldBlocks }) => {
      heldMax = Math.max(heldMax, heldBlocks);
    },
  });
  const prompt = { promptTokenIds: [1, 2, 3, 4, 5, 6, 7] };
  const sampling = { temperature: 0, maxTokens, ignoreEos: true };
  const [result] = await llm.generate(prompt, sampling);
  expect(llm.stats()).toMatchObject({ heldBlocks: 0, preemptions: 0 });
  return { heldMax, tokens: result?.completions[0]?.tokenIds.length };
}

test("a model with a window of its own", async () => {
  const path = stretched("mistral-sliding-window", 2 * OUTPUT_TOKENS);
  const { heldMax, tokens } = await runLong(path, {});
  expect(tokens).toBe(OUTPUT_TOKENS);
  // 16 tokens lie in at most two blocks, and the next token may need a third.
  expect(heldMax).toBeLessThanOrEqual(3);
});

test("a model that is given a window and sinks", async () => {
  const { heldMax, tokens } = await runLong(fixturePath("llama"), {
    kvCache: { attentionWindow: 64, attentionSinks: 4 },
    scheduler: { contextTokensMax: 2 * OUTPUT_TOKENS },
  });
  expect(tokens).toBe(OUTPUT_TOKENS);
  expect(heldMax).toBeLessThanOrEqual(1 + 60 / BLOCK_TOKENS + 2);
});

test("a model whose layers see a window by turns keeps all tokens for the others alone", async () => {
  const path = stretched("gemma2", 4096);
  const { heldMax, tokens } = await runLong(path, { scheduler: { stepTokensMax: 256 } }, 2_000);
  expect(tokens).toBe(2_000);
  const all = Math.ceil(2_007 / BLOCK_TOKENS);
  // Two of three layers see 16 tokens; each layer has a block of its own.
  expect(heldMax).toBeGreaterThanOrEqual(all);
  expect(heldMax).toBeLessThanOrEqual(all + 2 * 3);
});
