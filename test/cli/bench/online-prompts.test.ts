import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type OnlinePromptOptions, onlinePrompts } from "../../../src/cli/bench/online-prompts.ts";
import { scratchFolder } from "../../checkpoint/scratch-folder.ts";

const options: OnlinePromptOptions = {
  ...{ prompts: 3, inputLength: 5, vocabularySize: 100, seed: 1 },
  ...{ text: false, chat: false, dataset: null },
};

test("made-up prompts are the same for a seed, and others for another", async () => {
  for (const kind of [{}, { text: true }, { chat: true }]) {
    const made = await onlinePrompts({ ...options, ...kind });
    expect(made).toHaveLength(3);
    expect(await onlinePrompts({ ...options, ...kind })).toEqual(made);
    expect(await onlinePrompts({ ...options, ...kind, seed: 2 })).not.toEqual(made);
  }
});

test("they are token ids, words, or messages", async () => {
  const [ids] = await onlinePrompts(options);
  expect(ids).toEqual({ prompt: expect.arrayContaining([expect.any(Number)]) });
  const [text] = await onlinePrompts({ ...options, text: true });
  expect(text).toEqual({ prompt: expect.stringMatching(/^(\w+ ){4}\w+$/) });
  const [chat] = await onlinePrompts({ ...options, chat: true });
  const content = expect.stringMatching(/^(\w+ ){4}\w+$/);
  expect(chat).toEqual({ messages: [{ role: "user", content }] });
});

test("a dataset has texts and conversations, as many as wanted", async () => {
  const dataset = join(scratchFolder(), "set.jsonl");
  const messages = [{ role: "system", content: "Be brief" }];
  const rows = ["one", { prompt: "two", answer: 2 }, { messages }, "four"];
  writeFileSync(dataset, rows.map((row) => JSON.stringify(row)).join("\n\n"));
  const plain = [{ prompt: "one" }, { prompt: "two" }, { messages }];
  expect(await onlinePrompts({ ...options, dataset })).toEqual(plain);
  const [first] = await onlinePrompts({ ...options, dataset, chat: true });
  expect(first).toEqual({ messages: [{ role: "user", content: "one" }] });
});

test.each([
  ["no JSON", "{", "line 1"],
  ["an object without a prompt", '"a"\n{"text": "b"}', "line 2"],
  ["no row at all", "\n", "set.jsonl"],
])("a dataset with %s is refused by its place", async (_, content, place) => {
  const dataset = join(scratchFolder(), "set.jsonl");
  writeFileSync(dataset, content);
  const reading = onlinePrompts({ ...options, dataset });
  await expect(reading).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  await expect(reading).rejects.toThrow(place);
});

test("a dataset that is not there is refused by its name", async () => {
  const reading = onlinePrompts({ ...options, dataset: "/nowhere.jsonl" });
  await expect(reading).rejects.toThrow("Cannot read /nowhere.jsonl: wanted a file of JSON lines");
});
