/** The bundled model gives what Hugging Face's transformers recorded of it, in fp32. */
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type ChatMessage, LLM, type LoadOptions } from "#engine";
import { full, sized } from "../support/full.ts";

interface GoldenPrompt {
  readonly name: string;
  readonly text: string;
  readonly messages?: readonly ChatMessage[];
  readonly tools?: readonly unknown[];
  readonly token_ids: readonly number[];
  readonly output_ids: readonly number[];
  readonly output_text: string;
  readonly ended_by_eos: boolean;
  /** By output token: logit of the chosen one less that of the next best. */
  readonly top2_gaps: readonly number[];
}

const fixtures = "test/fixtures/pocket";
const { prompts }: { prompts: readonly GoldenPrompt[] } = JSON.parse(
  readFileSync(`${fixtures}/golden.json`, "utf8"),
);
const heldout: { documents: readonly { name: string; nll: number; tokens: number }[] } = JSON.parse(
  readFileSync(`${fixtures}/heldout.json`, "utf8"),
);
const greedy = { temperature: 0, maxTokens: 48 };
/** Some of every kind: prompts follow each other by kind. */
const ALONE = prompts.filter((_, place) => place % 4 === 0);
/** Two logits so close may change places by the order of a sum. */
const tieGap = 1e-3;

let llm: LLM;

function loadPocket(options: LoadOptions = {}): Promise<LLM> {
  return LLM.load("models/pocket", { dtype: "float32", engineThread: false, ...options });
}

beforeAll(async () => {
  llm = await loadPocket();
});

afterAll(async () => {
  await llm?.[Symbol.asyncDispose]();
});

/** The same tokens, up to the first place where the recorded run nearly tied. */
function expectRecorded(tokens: readonly number[], { output_ids, top2_gaps }: GoldenPrompt): void {
  const tie = top2_gaps.findIndex((gap) => gap < tieGap);
  const end = tie < 0 ? undefined : tie;
  expect(tokens.slice(0, end)).toEqual(output_ids.slice(0, end));
}

describe.each(prompts)("$name", (prompt) => {
  test("is rendered and encoded as recorded", async () => {
    const { messages, tools, text } = prompt;
    const options = tools === undefined ? {} : { tools };
    const ids =
      messages === undefined
        ? await llm.codec?.encode(text)
        : (await llm.chatPrompt(messages, options)).promptTokenIds;
    expect(ids).toEqual(prompt.token_ids);
  });

  // Each continues in a batch, too: the short size asks some alone.
  test.runIf(full || ALONE.includes(prompt))("continues greedily as recorded", async () => {
    const [result] = await llm.generate({ promptTokenIds: prompt.token_ids }, greedy);
    const completion = result?.completions[0];
    expectRecorded(completion?.tokenIds ?? [], prompt);
    expect(completion?.text).toBe(prompt.output_text);
    expect(completion?.finishReason).toBe(prompt.ended_by_eos ? "stop" : "length");
  });
});

test.for<[string, LoadOptions]>([
  ["in one batch, in chunks of 5", { scheduler: { longPrefillTokensMax: 5 } }],
  ...sized<[string, LoadOptions][]>(
    [],
    [
      ["in one batch", {}],
      ["without a prefix cache", { kvCache: { prefixCaching: false } }],
    ],
  ),
])("all prompts continue as recorded %s", async ([, options]) => {
  await using model = await loadPocket(options);
  const batch = prompts.map(({ token_ids }) => ({ promptTokenIds: token_ids }));
  const results = await model.generate(batch, greedy);
  for (const [place, prompt] of prompts.entries()) {
    expectRecorded(results[place]?.completions[0]?.tokenIds ?? [], prompt);
  }
  expect(model.stats().heldBlocks).toBe(0);
});

test("held-out documents are as likely as recorded", async () => {
  const texts = readHeldout();
  for (const { name, nll, tokens } of heldout.documents.slice(0, sized(1, 3))) {
    const [result] = await llm.generate(texts.get(name) ?? "", { promptLogprobs: 0, maxTokens: 1 });
    const scores = result?.promptLogprobs?.map((entry) => entry?.logprob ?? 0) ?? [];
    expect(scores).toHaveLength(tokens);
    const sum = scores.reduce((total, value) => total - value, 0);
    expect(Math.abs(sum / nll - 1)).toBeLessThan(1e-4);
  }
});

/** Documents by name; a line that starts with the mark names the one that follows. */
function readHeldout(): Map<string, string> {
  const mark = /^=====8<===== (.*)\n/gm;
  const [, ...parts] = readFileSync(`${fixtures}/heldout.txt`, "utf8").split(mark);
  const documents = new Map<string, string>();
  for (let at = 0; at < parts.length; at += 2) {
    documents.set(parts[at] ?? "", (parts[at + 1] ?? "").replace(/\n$/, ""));
  }
  return documents;
}
