import { expect, test } from "vitest";
import { ReferenceDevice } from "#devices";
import { randomWeights } from "#models";
import { decodeFloats } from "#tensor";
import { DecoderDriver } from "../contracts/decoder-driver.ts";
import { openRecordedModel } from "../contracts/recorded-model.ts";

const elementsOf = (name: string, shape: readonly number[], seed?: number) =>
  decodeFloats(randomWeights(seed).get(name, shape)?.bytes() ?? new Uint8Array(), "bf16");

test("a name and a seed decide a tensor", () => {
  const first = elementsOf("a.weight", [8, 8]);
  expect(elementsOf("a.weight", [8, 8])).toEqual(first);
  expect(elementsOf("b.weight", [8, 8])).not.toEqual(first);
  expect(elementsOf("a.weight", [8, 8], 1)).not.toEqual(first);
});

test("norms are 1 and biases 0", () => {
  expect([...elementsOf("norm.weight", [3])]).toEqual([1, 1, 1]);
  expect([...elementsOf("norm.bias", [3])]).toEqual([0, 0, 0]);
});

test.for(["llama", "qwen3-moe", "gemma2", "gpt2"])(
  "activations stay finite and logits are spread: %s",
  async (name) => {
    const { model } = openRecordedModel(name);
    if (model.kind !== "decoder") throw new Error("A recorded decoder is wanted");
    const device = new ReferenceDevice();
    const driver = new DecoderDriver({
      ...{ device, model, sources: randomWeights() },
      ...{ format: "f32", kvFormat: "f32", sequences: 1 },
    });
    const tokens = [3, 14, 15, 9, 26];
    driver.step([{ sequence: 0, tokens }]);
    const logits = await driver.logits(tokens.map((_, row) => row));
    const deviation = Math.sqrt(logits.reduce((sum, x) => sum + x * x, 0) / logits.length);
    expect(deviation).toBeGreaterThan(0.1);
    expect(deviation).toBeLessThan(10);
  },
);
