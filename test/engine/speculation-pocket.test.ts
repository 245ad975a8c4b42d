/** Drafts of the bundled model: texts, stop strings, predictions, and what may be asked for. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type GenerateOptions, LLM, type LoadOptions } from "#engine";
import { cpuThreads, eachNth, sized } from "../support/full.ts";

const numbers = "List of numbers: 1, 2, 3, 4, 5, 6, 7,";
const rows = '{"name":"a","age":1}\n{"name":"b","age":2}\n{"name":"c",';

let plain: LLM;
let drafting: LLM;

function load(speculative: LoadOptions["speculative"]): Promise<LLM> {
  return LLM.load("models/pocket", {
    ...{ device: "cpu", dtype: "float32", threads: cpuThreads, engineThread: false },
    speculative,
  });
}

beforeAll(async () => {
  plain = await load({});
  drafting = await load({ kind: "lookup" });
});

afterAll(async () => {
  await plain.close();
  await drafting.close();
});

async function outputOf(llm: LLM, prompt: string, options: GenerateOptions) {
  const [result] = await llm.generate(prompt, {
    temperature: 0,
    maxTokens: sized(60, 100),
    ...options,
  });
  return (result?.completions ?? []).map(
    ({ text, tokenIds, logprobs, finishReason, stopReason }) => ({
      ...{ text, tokenIds, finishReason, stopReason },
      logprobs: logprobs?.length ?? null,
    }),
  );
}

describe("[SP1] a stop string inside of confirmed tokens", () => {
  test.each([numbers, rows])("ends the output where it ends without drafts: %s", async (prompt) => {
    const [whole] = await outputOf(plain, prompt, {});
    const text = whole?.text ?? "";
    const places = Array.from({ length: text.length - 3 }, (_, at) => at);
    const before = drafting.stats().acceptedTokens;
    for (const at of eachNth(47, places)) {
      const stop = [text.slice(at, at + 3)];
      const options = { stop, logprobs: 1, includeStopStrInOutput: at % 2 === 0 };
      expect(await outputOf(drafting, prompt, options)).toEqual(
        await outputOf(plain, prompt, options),
      );
    }
    expect(drafting.stats().acceptedTokens).toBeGreaterThan(before);
  });
});

describe("[SP4] a prediction", () => {
  test("of the whole output makes it in a tenth of the steps", async () => {
    const [whole] = await outputOf(plain, "Write a story:", { maxTokens: 200 });
    const { steps } = drafting.stats();
    const prediction = whole?.text ?? "";
    expect(await outputOf(drafting, "Write a story:", { maxTokens: 200, prediction })).toEqual([
      whole,
    ]);
    expect(drafting.stats().steps - steps).toBeLessThanOrEqual(20);
  });

  test("that is wrong changes no token", async () => {
    const prediction = `${numbers} ${rows}`.repeat(20);
    expect(await outputOf(drafting, numbers, { prediction })).toEqual(
      await outputOf(plain, numbers, {}),
    );
  });

  test("is ignored where nothing is drafted", async () => {
    const [whole] = await outputOf(plain, numbers, {});
    expect(await outputOf(plain, numbers, { prediction: whole?.text ?? "" })).toEqual([whole]);
    expect(plain.stats()).toMatchObject({ drafts: 0, draftedTokens: 0, acceptedPerPosition: [] });
  });
});

describe("a request", () => {
  test("may turn drafts off", async () => {
    const { drafts } = drafting.stats();
    await outputOf(drafting, numbers, { speculative: false });
    expect(drafting.stats().drafts).toBe(drafts);
  });

  test("may have shorter ones", async () => {
    const before = drafting.stats();
    await outputOf(drafting, numbers, { speculative: { kind: "lookup", length: 1 } });
    const { drafts, draftedTokens } = drafting.stats();
    expect(drafts).toBeGreaterThan(before.drafts);
    expect(draftedTokens - before.draftedTokens).toBe(drafts - before.drafts);
  });

  test.each([
    ["a kind that is not loaded", () => plain, { kind: "lookup" }, "none is (speculative.kind)"],
    ["more than the model's", () => drafting, { length: 40 }, "must be at most 31"],
    ["an unknown kind", () => drafting, { kind: "guess" }, "lookup is"],
    ["an unknown field", () => drafting, { depth: 1 }, "depth"],
  ] as const)("cannot have %s", async (_, llm, speculative, message) => {
    const options = { speculative } as GenerateOptions;
    await expect(outputOf(llm(), numbers, options)).rejects.toThrow(
      expect.objectContaining({
        code: "INVALID_ARGUMENT",
        message: expect.stringContaining(message),
      }),
    );
  });
});
