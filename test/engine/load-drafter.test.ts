import { expect, test } from "vitest";
import { LLM } from "#engine";
import { drafterFormat } from "../../src/engine/thread/load-drafter.ts";

const cpu = { accelerator: false };
const gpu = { accelerator: true };

test("[SP40] a ReDrafter has int8 weights on a CPU, but beside float32", () => {
  expect(drafterFormat(cpu, "bf16")).toBe("i8");
  expect(drafterFormat(cpu, "i8")).toBe("i8");
  expect(drafterFormat(cpu, "f32")).toBe("f32");
  expect(drafterFormat(gpu, "bf16")).toBe("bf16");
});

test("[SP40] outputs are those without it, bit for bit, and most drafts are accepted", async () => {
  const prompt = "<|im_start|>user\nWhat is a KV cache?<|im_end|>\n<|im_start|>assistant\n";
  const options = { maxTokens: 48, temperature: 0, logprobs: 0 };
  const outputs: unknown[] = [];
  for (const kind of ["off", "redrafter"] as const) {
    const speculative = { kind, width: 1, lengthMax: 4, adaptive: false };
    const load = { device: "cpu", dtype: "bfloat16", speculative } as const;
    const llm = await LLM.load("models/pocket", load);
    const [result] = await llm.generate([prompt], options);
    outputs.push(result?.completions[0]);
    const { drafts, acceptedTokens } = llm.stats();
    if (kind === "redrafter") expect(acceptedTokens / drafts).toBeGreaterThan(1);
    await llm.close();
  }
  const [off, on] = outputs;
  expect(on).toMatchObject({ tokenIds: expect.anything() });
  expect(tokensOf(on)).toEqual(tokensOf(off));
});

/** Tokens with their log-probabilities. */
function tokensOf(completion: unknown): unknown {
  const { tokenIds, logprobs } = completion as Record<string, unknown>;
  return { tokenIds, logprobs };
}
