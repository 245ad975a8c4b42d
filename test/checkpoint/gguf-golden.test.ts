import { readFileSync } from "node:fs";
import { Tokenizer } from "@huggingface/tokenizers";
import { expect, onTestFinished, test } from "vitest";
import { type Checkpoint, openCheckpoint } from "#checkpoint";
import { ReferenceDevice } from "#devices";
import { describeModel } from "#models";
import { DecoderDriver } from "../contracts/decoder-driver.ts";

const golden: { text: string; prompt: number[]; greedy: number[] } = JSON.parse(
  readFileSync("test/fixtures/gguf/tiny-llama.json", "utf8"),
);

function opened(): Checkpoint {
  const checkpoint = openCheckpoint("test/fixtures/gguf/tiny-llama.gguf");
  onTestFinished(() => checkpoint.close());
  return checkpoint;
}

test("a GGUF's tokenizer gives the ids that llama.cpp gives", () => {
  const { tokenizer } = opened();
  const { tokenizerJson, tokenizerConfig } = { ...tokenizer };
  const encoder = new Tokenizer(Object(tokenizerJson), Object(tokenizerConfig));
  expect(encoder.encode(golden.text).ids).toEqual(golden.prompt);
});

test("a GGUF's weights give the tokens that llama.cpp gives", async () => {
  const checkpoint = opened();
  const model = describeModel(checkpoint.config);
  if (model.kind !== "decoder") throw new Error("A decoder is wanted");
  const device = new ReferenceDevice();
  const driver = new DecoderDriver({ device, model, sources: checkpoint.tensors });
  let tokens: readonly number[] = golden.prompt;
  const greedy: number[] = [];
  while (greedy.length < golden.greedy.length) {
    driver.step([{ sequence: 0, tokens }]);
    const logits = await driver.logits([tokens.length - 1]);
    const best = logits.indexOf(Math.max(...logits));
    greedy.push(best);
    tokens = [best];
  }
  expect(greedy).toEqual(golden.greedy);
});
