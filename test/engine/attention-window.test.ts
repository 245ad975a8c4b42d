/** Windows and attention sinks, from options to tokens. */
import { expect, test } from "vitest";
import { LLM, type LoadOptions } from "#engine";
import { fixturePath } from "../contracts/recorded-model.ts";

const inline = { device: "cpu", dtype: "float32", engineThread: false } as const;
const prompt = { promptTokenIds: Array.from({ length: 20 }, (_, i) => 1 + i) };

async function continueGreedily(options: LoadOptions, maxTokens: number) {
  await using llm = await LLM.load(fixturePath("llama"), { ...inline, ...options });
  const [result] = await llm.generate(prompt, { temperature: 0, maxTokens, ignoreEos: true });
  return { tokens: result?.completions[0]?.tokenIds ?? [], info: llm.info };
}

const streaming = { attentionWindow: 32, attentionSinks: 4 };

test("sinks keep every token that comes before the window is full", async () => {
  const { tokens: plain } = await continueGreedily({}, 12);
  const { tokens } = await continueGreedily({ kvCache: streaming }, 12);
  expect(tokens).toEqual(plain);
});

test("without a larger contextTokensMax the model's own limit stays", async () => {
  const { info: own } = await continueGreedily({}, 1);
  const { info } = await continueGreedily({ kvCache: streaming }, 1);
  expect(info.contextTokensMax).toBe(own.contextTokensMax);
});

test("with sinks an output may be longer than the model was made for", async () => {
  const { info: own } = await continueGreedily({}, 1);
  const contextTokensMax = own.contextTokensMax + 50;
  const options = { kvCache: streaming, scheduler: { contextTokensMax } };
  const { tokens, info } = await continueGreedily(options, own.contextTokensMax + 10);
  expect(info.contextTokensMax).toBe(contextTokensMax);
  expect(tokens).toHaveLength(own.contextTokensMax + 10);
  // Neither blocks nor steps show: only positions and what they see.
  const cut = { kvCache: { ...streaming, blockTokens: 4 }, scheduler: { contextTokensMax } };
  const { tokens: same } = await continueGreedily(cut, own.contextTokensMax + 10);
  expect(same).toEqual(tokens);
});

test.for([
  ["llama", streaming],
  ["llama", { attentionWindow: 32 }],
  ["mistral-sliding-window", {}],
] as const)("%s with %o: a pool for the window alone gives the same tokens", async (given) => {
  const [fixture, kvCache] = given;
  const run = async (poolBlocks: number | null) => {
    const sized = { ...kvCache, blockTokens: 4, dtype: "float32" } as const;
    const open = (poolBytes: number | null) =>
      LLM.load(fixturePath(fixture), { ...inline, kvCache: { ...sized, poolBytes } });
    await using probe = await open(null);
    const { bytesPerBlock } = probe.info;
    await using llm = await open(poolBlocks === null ? null : poolBlocks * bytesPerBlock);
    const [result] = await llm.generate(prompt, {
      ...{ temperature: 0, maxTokens: 200, ignoreEos: true },
    });
    expect(llm.stats()).toMatchObject({ heldBlocks: 0, preemptions: 0 });
    return result?.completions[0]?.tokenIds;
  };
  const tokens = await run(null);
  expect(tokens).toHaveLength(200);
  // 220 positions would take 55 blocks; a window of 32 takes 9, or 10 with its sinks' own.
  expect(await run(16)).toEqual(tokens);
});

test("a plain window does not let positions grow beyond the model's", async () => {
  const { info: own } = await continueGreedily({}, 1);
  const scheduler = { contextTokensMax: own.contextTokensMax + 50 };
  const { info } = await continueGreedily({ kvCache: { attentionWindow: 32 }, scheduler }, 1);
  expect(info.contextTokensMax).toBe(own.contextTokensMax);
});

test.for([
  ["bert-encoder", { attentionWindow: 32 }, "needs a decoder"],
  ["gpt2", streaming, "positions must be rotary"],
  ["mistral-sliding-window", streaming, "windows of their own"],
] as const)("%s with %o is refused", async ([fixture, kvCache, message]) => {
  const loading = LLM.load(fixturePath(fixture), { ...inline, kvCache });
  await expect(loading).rejects.toThrow(message);
  await expect(loading).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
});
