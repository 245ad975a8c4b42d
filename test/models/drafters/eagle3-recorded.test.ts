/** EAGLE-3's drafts beside those of PyTorch (training/drafters/eagle3_fixtures.py). */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { openCheckpoint } from "#checkpoint";
import { type Device, openDevice } from "#devices";
import { decodeFloats } from "#tensor";
import { Eagle3Bench, type GivenText } from "./eagle3-bench.ts";

/** expected.json: the chain behind the first `count` tokens and the root. */
type Recorded = readonly {
  readonly count: number;
  readonly root: number;
  readonly tokens: readonly number[];
}[];

const hiddenSize = 12;
const layers = Array.from({ length: 8 }, () => ({
  window: null,
  feedForward: { kind: "dense", size: 8, activation: "silu", gated: true } as const,
}));

const devices: Device[] = [];
for (const kind of ["reference", "cpu"] as const) {
  devices.push(await openDevice({ kind, threads: 1, warn: () => {} }));
}
afterAll(() => {
  for (const device of devices) device.dispose();
});

describe.each(["eagle3-plain", "eagle3-speculators"])("[SP16] %s, recorded", (name) => {
  const folder = fileURLToPath(new URL(`../../fixtures/drafters/${name}`, import.meta.url));
  const recorded: Recorded = JSON.parse(readFileSync(`${folder}/expected.json`, "utf8"));

  test.each(devices)("$kind drafts what PyTorch drafts", async (device) => {
    const { text, baseTokens } = inputsOf(`${folder}/inputs.safetensors`);
    const base = { hiddenSize, layers };
    const bench = new Eagle3Bench(device, { folder, base, baseTokens });
    for (const { count, root, tokens } of recorded) {
      // In two steps, so that the second one begins behind a stored token.
      const cut = Math.floor(count / 2);
      if (cut > 0) bench.fill(text, 0, cut);
      bench.fill(text, cut, count);
      expect(await bench.draft(root, count, count - cut - 1)).toEqual(tokens);
    }
  });
});

function inputsOf(path: string): { readonly text: GivenText; readonly baseTokens: Float32Array } {
  const { tensors, integers } = openCheckpoint(path);
  const floatsOf = (name: string): Float32Array => {
    const tensor = tensors.get(name);
    if (tensor === undefined) throw new Error(`no ${name}`);
    return decodeFloats(tensor.bytes(), tensor.dtype).slice();
  };
  const tokens = integers.get("tokens")?.values() ?? new Int32Array(0);
  const states = floatsOf("states");
  const size = tokens.length * hiddenSize;
  const parts = Array.from({ length: states.length / size }, (_, tap) =>
    states.slice(tap * size, (tap + 1) * size),
  );
  return { text: { tokens, states: parts }, baseTokens: floatsOf("embed_tokens.weight") };
}
