import { mkdtempSync, rmSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import type { NamedWeight } from "#checkpoint";
import {
  type FingerprintInput,
  modelFingerprint,
} from "../../../src/engine/tiers/model-fingerprint.ts";

const SIZE = 3_000_000;
const WRITTEN = 1_700_000_000;

const weight = (name: string, shape = [2, 3]): NamedWeight => ({
  name,
  dtype: "bf16",
  shape,
  bytes: () => new Uint8Array(12),
  discard: () => {},
});

/** A folder with one weight file of zeros, and a way to change it. */
function model() {
  const path = mkdtempSync(join(tmpdir(), "perigee-model-"));
  onTestFinished(() => rmSync(path, { recursive: true }));
  const write = (bytes: Buffer, at = WRITTEN) => {
    writeFileSync(join(path, "model.safetensors"), bytes);
    utimesSync(join(path, "model.safetensors"), at, at);
  };
  write(Buffer.alloc(SIZE));
  const tensors = new Map(["a", "b"].map((name) => [name, weight(name)] as const));
  const checkpoint = { path, config: { layers: 2 }, tensors };
  const input: FingerprintInput = {
    checkpoint,
    arithmetic: "cpu avx2",
    weightFormat: "bf16",
    layout: "cpu bf16, layers 2",
    randomWeights: false,
    rope: { frequencies: Float32Array.of(1, 0.5), attentionFactor: 1 },
    layerWindows: [null, null],
    layerPlaces: [
      [0, 0],
      [0, 1],
    ],
    sinkTokens: 0,
    release: "1.2.3",
  };
  return { path, write, input, checkpoint };
}

test("a fingerprint is 32 hexadecimal digits, and the same every time", async () => {
  const { input, write } = model();
  const first = await modelFingerprint(input);
  expect(first).toMatch(/^[0-9a-f]{32}$/);
  write(Buffer.alloc(SIZE));
  expect(await modelFingerprint(input)).toBe(first);
});

test("every part of what keys and values follow from changes it", async () => {
  const { input, checkpoint } = model();
  const variants: FingerprintInput[] = [
    input,
    { ...input, arithmetic: "cpu avx512" },
    { ...input, weightFormat: "i8" },
    { ...input, layout: "cpu i8, layers 2" },
    { ...input, randomWeights: true },
    { ...input, rope: null },
    { ...input, rope: { frequencies: Float32Array.of(1, 0.25), attentionFactor: 1 } },
    { ...input, rope: { frequencies: Float32Array.of(1, 0.5), attentionFactor: 1.5 } },
    { ...input, layerWindows: [64, null] },
    { ...input, layerWindows: [64, 64] },
    { ...input, layerWindows: [64, 64], sinkTokens: 4 },
    { ...input, release: "1.2.4" },
    { ...input, checkpoint: { ...checkpoint, config: { layers: 3 } } },
    { ...input, checkpoint: { ...checkpoint, tensors: new Map([["a", weight("a")]]) } },
    { ...input, checkpoint: { ...checkpoint, tensors: new Map([["a", weight("a", [3, 2])]]) } },
  ];
  const prints = await Promise.all(variants.map((variant) => modelFingerprint(variant)));
  expect(new Set(prints).size).toBe(variants.length);
});

test("the order in which a file names its tensors does not matter", async () => {
  const { input, checkpoint } = model();
  const tensors = new Map([...checkpoint.tensors].toReversed());
  const turned = await modelFingerprint({ ...input, checkpoint: { ...checkpoint, tensors } });
  expect(turned).toBe(await modelFingerprint(input));
});

test("other contents change it although size and time of writing are the same", async () => {
  const { input, write } = model();
  const before = await modelFingerprint(input);
  const changed = Buffer.alloc(SIZE);
  changed.fill(1, SIZE / 2, SIZE / 2 + 12_000);
  write(changed);
  expect(await modelFingerprint(input)).not.toBe(before);
  changed.fill(0);
  changed.writeUInt8(1, SIZE - 1);
  write(changed);
  expect(await modelFingerprint(input)).not.toBe(before);
});

test("of a file that is too large to be read whole, pieces of all of it count", async () => {
  const { input, write } = model();
  const bytes = Buffer.alloc(17 * 2 ** 20);
  write(bytes);
  const before = await modelFingerprint(input);
  for (const at of [0, bytes.length / 2, bytes.length - 100_000]) {
    const changed = Buffer.from(bytes);
    changed.fill(1, at, at + 100_000);
    write(changed);
    expect(await modelFingerprint(input)).not.toBe(before);
  }
  write(bytes);
  expect(await modelFingerprint(input)).toBe(before);
});

test("a file that was written again, or is longer, counts as another", async () => {
  const { input, write } = model();
  const before = await modelFingerprint(input);
  write(Buffer.alloc(SIZE), WRITTEN + 1);
  expect(await modelFingerprint(input)).not.toBe(before);
  write(Buffer.alloc(SIZE + 1));
  expect(await modelFingerprint(input)).not.toBe(before);
});

test("a file named by its digest, as in a hub's cache, is the same whenever it was fetched", async () => {
  const { input, path } = model();
  const blob = join(path, "ab".repeat(32));
  writeFileSync(blob, Buffer.alloc(1000));
  rmSync(join(path, "model.safetensors"));
  symlinkSync(blob, join(path, "model.safetensors"));
  const before = await modelFingerprint(input);
  utimesSync(blob, WRITTEN, WRITTEN);
  expect(await modelFingerprint(input)).toBe(before);
});

test("a single file is a model too, however small", async () => {
  const { input, path, checkpoint } = model();
  const file = join(path, "tiny.gguf");
  writeFileSync(file, "x");
  const single = { ...input, checkpoint: { ...checkpoint, path: file } };
  expect(await modelFingerprint(single)).not.toBe(await modelFingerprint(input));
});

test("the release is read from the package where none is given", async () => {
  const { release: _, ...input } = model().input;
  expect(await modelFingerprint(input)).toMatch(/^[0-9a-f]{32}$/);
});
