/** Whole models with quantised matrices: the same logits as their copies in floats. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { type Checkpoint, openCheckpoint, writeSafetensors } from "#checkpoint";
import { ReferenceDevice } from "#devices";
import { describeModel } from "#models";
import { QUANTIZED, quantized } from "../../tools/fuzz/quantized-modules.mjs";
import { DecoderDriver } from "../contracts/decoder-driver.ts";
import { GGUF_FILE_TYPES, randomGguf } from "../support/random-gguf.ts";
import { type RawTensor, safetensorsOf } from "./quantized-folder.ts";
import { scratchFolder } from "./scratch-folder.ts";

const LLAMA = "test/fixtures/models/llama";
const PROMPT = [5, 17, 3, 40];

function opened(path: string): Checkpoint {
  const checkpoint = openCheckpoint(path);
  onTestFinished(() => checkpoint.close());
  return checkpoint;
}

/** The fixture with random quanta in all matrices of its layers. */
function quantizedCopy(method: (typeof QUANTIZED)[keyof typeof QUANTIZED]): string {
  const folder = scratchFolder();
  const source = opened(LLAMA);
  const tensors = new Map<string, RawTensor>();
  for (const { name, dtype, shape, bytes } of source.tensors.values()) {
    const isMatrix = /layers\..*_proj\.weight$/.test(name);
    const parts: Readonly<Record<string, RawTensor>> = isMatrix
      ? quantized(method, name, shape)
      : { [name]: { dtype: dtype.toUpperCase(), shape, bytes: bytes() } };
    for (const [part, raw] of Object.entries(parts)) tensors.set(part, raw);
  }
  const config = { ...source.config, quantization_config: method.config };
  writeFileSync(join(folder, "config.json"), JSON.stringify(config));
  writeFileSync(join(folder, "model.safetensors"), safetensorsOf(tensors));
  return folder;
}

/** The same weights as floats, in a folder of their own. */
function floatCopy(checkpoint: Checkpoint): string {
  const folder = scratchFolder();
  const { quantization_config: _gone, ...config } = checkpoint.config;
  writeFileSync(join(folder, "config.json"), JSON.stringify(config));
  const tensors = [...checkpoint.tensors.values()].map((weight) => ({
    ...{ name: weight.name, dtype: weight.dtype, shape: weight.shape },
    bytes: weight.bytes(),
  }));
  writeSafetensors(join(folder, "model.safetensors"), tensors);
  return folder;
}

async function logitsOf(checkpoint: Checkpoint): Promise<Float32Array> {
  const model = describeModel(checkpoint.config);
  if (model.kind !== "decoder") throw new Error("A decoder is wanted");
  const device = new ReferenceDevice();
  const driver = new DecoderDriver({ device, model, sources: checkpoint.tensors });
  driver.step([{ sequence: 0, tokens: PROMPT }]);
  return driver.logits([PROMPT.length - 1]);
}

test.each(Object.entries(QUANTIZED))("a model of %s computes as its copy", async (_, method) => {
  const checkpoint = opened(quantizedCopy(method));
  const copy = opened(floatCopy(checkpoint));
  expect(checkpoint.totalBytes).toBeLessThan(copy.totalBytes);
  const logits = await logitsOf(checkpoint);
  expect(logits.every(Number.isFinite)).toBe(true);
  expect(logits).toEqual(await logitsOf(copy));
});

test.each(GGUF_FILE_TYPES)("a GGUF of %s computes as its copy", async (type) => {
  const checkpoint = opened(randomGguf(scratchFolder(), type));
  const copy = opened(floatCopy(checkpoint));
  const logits = await logitsOf(checkpoint);
  expect(logits.every(Number.isFinite)).toBe(true);
  expect(logits).toEqual(await logitsOf(copy));
});
