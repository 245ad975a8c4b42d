/** ReDrafter's beams beside those that PyTorch found (training/drafters/fixtures.py). */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { openCheckpoint } from "#checkpoint";
import { type Device, openDevice } from "#devices";
import { describeReDrafter, loadReDrafterWeights, ReDrafter } from "#models";
import { decodeFloats } from "#tensor";

/** expected.json. */
interface Recorded {
  readonly roots: number[];
  readonly cases: readonly {
    readonly width: number;
    readonly length: number;
    readonly sequences: readonly { readonly tokens: readonly (readonly number[])[] }[];
  }[];
}

const devices: Device[] = [];
for (const kind of ["reference", "cpu"] as const) {
  devices.push(await openDevice({ kind, threads: 1, warn: () => {} }));
}
afterAll(() => {
  for (const device of devices) device.dispose();
});

describe.each(["redrafter-rnn", "redrafter-sum"])("[SP10] %s, recorded", (name) => {
  const folder = fileURLToPath(new URL(`../../fixtures/drafters/${name}`, import.meta.url));
  const recorded: Recorded = JSON.parse(readFileSync(`${folder}/expected.json`, "utf8"));

  test.each(devices)("$kind finds the beams of PyTorch", async (device) => {
    const checkpoint = openCheckpoint(folder);
    const inputs = openCheckpoint(`${folder}/inputs.safetensors`).tensors;
    const [table, given] = [inputs.get("embed_tokens.weight"), inputs.get("hidden")];
    if (table === undefined || given === undefined) throw new Error("inputs are missing");
    const spec = describeReDrafter(checkpoint.config);
    const weights = loadReDrafterWeights(device, spec, { files: checkpoint, format: "f32" });
    const limits = { sequencesMax: recorded.roots.length, widthMax: 16, lengthMax: 5 };
    const embeddings = device.pack([table], { format: "f32" });
    const network = new ReDrafter({ device, spec, weights, embeddings, limits });
    const hidden = device.allocate("f32", given.shape);
    device.write(hidden, decodeFloats(given.bytes(), given.dtype));
    const roots = Int32Array.from(recorded.roots);
    for (const { width, length, sequences } of recorded.cases) {
      const found = await network.draft(hidden, roots, { width, length });
      expect(found.map((beams) => beams.map((beam) => [...beam]))).toEqual(
        sequences.map(({ tokens }) => tokens),
      );
    }
    device.release(hidden);
    network.dispose();
  });
});
