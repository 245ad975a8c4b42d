/** Medusa's choices beside plain heads, its trees, and files that are refused. */
import { afterAll, describe, expect, test } from "vitest";
import { openCheckpoint } from "#checkpoint";
import { type Device, openDevice, type WeightFormat } from "#devices";
import {
  checkBase,
  describeMedusa,
  draftElementsMax,
  loadMedusaWeights,
  Medusa,
  medusaPaths,
} from "#models";
import { treeOf } from "#speculative";
import { decodeFloats } from "#tensor";
import { sampleRow } from "../../../src/devices/reference/sample.ts";
import { scratchFolder } from "../../checkpoint/scratch-folder.ts";
import { RandomNumbers } from "../../contracts/device-ops/random.ts";
import { type MedusaShape, writeRandomMedusa } from "../../support/random-drafter.ts";

const [H, V] = [16, 128];
const plainShape: MedusaShape = { hidden: H, vocabulary: V, heads: 3, layers: 1 };
const shapes: Readonly<Record<string, MedusaShape>> = {
  "version 1": plainShape,
  "two layers": { ...plainShape, layers: 2 },
  "version 2, which shares the model's output layer": { ...plainShape, outputs: false },
  "vLLM's names, without biases": { ...plainShape, vllmNames: true },
  "a draft vocabulary": { ...plainShape, drafted: 40 },
};

const unfiltered = { temperature: 1, topK: 0, topP: 1, minP: 0, seed: { low: 5, high: 6 } };

const devices: Device[] = [];
for (const kind of ["reference", "cpu"] as const) {
  devices.push(await openDevice({ kind, threads: 1, warn: () => {} }));
}
afterAll(() => {
  for (const device of devices) device.dispose();
});

/** The model's output layer, for heads that have none. */
const modelHead = new RandomNumbers(5).floats(V * H, 1 / Math.sqrt(H));
/** Token t of the draft vocabulary is the model's token 2 t. */
const mapped = (drafted: number | undefined) => {
  const distances = Int32Array.from({ length: drafted ?? 0 }, (_, token) => token);
  return new Map(
    drafted === undefined ? [] : [["d2t", { shape: [drafted], values: () => distances }] as const],
  );
};

function networkOn(
  device: Device,
  folder: string,
  shape: MedusaShape,
  format: WeightFormat = "f32",
) {
  const { path, config, tensors } = openCheckpoint(folder);
  const spec = describeMedusa(config);
  const table = {
    ...{ name: "head", dtype: "f32" as const, shape: [V, H], discard() {} },
    bytes: () => new Uint8Array(modelHead.buffer),
  };
  const output = { weight: device.pack([table], { format }) };
  const files = {
    ...{ path, tensors, integers: mapped(shape.drafted) },
    has: (name: string) => tensors.has(name),
  };
  const base = { hiddenSize: H, vocabularySize: V, output };
  const weights = loadMedusaWeights(device, spec, { files, format, base });
  const limits = { sequencesMax: 8, widthMax: 8, lengthMax: 3 };
  return new Medusa({ device, spec, weights, limits, nodesMax: 63 });
}

/** The model's tokens of a head, the likeliest first. */
function ranked(folder: string, shape: MedusaShape, head: number, context: readonly number[]) {
  return logitsOf(folder, shape, head, context)
    .sort(([, a], [, b]) => b - a)
    .map(([token]) => token);
}

/** The model's tokens of a head, and their logits. */
function logitsOf(
  folder: string,
  shape: MedusaShape,
  head: number,
  context: readonly number[],
): [number, number][] {
  const { tensors } = openCheckpoint(folder);
  const valuesOf = (name: string): Float32Array | null => {
    const tensor = tensors.get(name);
    return tensor === undefined ? null : decodeFloats(tensor.bytes(), tensor.dtype);
  };
  const linear = (weight: Float32Array | null, x: readonly number[], bias: Float32Array | null) =>
    Array.from({ length: (weight?.length ?? 0) / H }, (_, row) =>
      x.reduce((sum, value, at) => sum + value * (weight?.[row * H + at] ?? 0), bias?.[row] ?? 0),
    );
  let x = [...context];
  for (let layer = 0; layer < shape.layers; layer++) {
    const name = shape.vllmNames ? `blocks.${head}.layers.${layer}` : `${head}.${layer}.linear`;
    const delta = linear(valuesOf(`${name}.weight`), x, valuesOf(`${name}.bias`));
    x = x.map((value, at) => value + (delta[at] ?? 0) / (1 + Math.exp(-(delta[at] ?? 0))));
  }
  const output = shape.vllmNames ? `lm_heads.${head}.weight` : `${head}.${shape.layers}.weight`;
  const logits = linear(valuesOf(output) ?? modelHead, x, null);
  return logits.map((logit, token) => [shape.drafted === undefined ? token : 2 * token, logit]);
}

describe.each(Object.entries(shapes))("[SP12] %s", (_, shape) => {
  test.each(devices)("choices of $kind are those of plain heads", async (device) => {
    const folder = scratchFolder();
    writeRandomMedusa(folder, shape);
    const network = networkOn(device, folder, shape);
    const bounds = [
      [1, 3],
      [8, 3],
      [3, 2],
      [4, 1],
    ] as const;
    for (const [width, length] of bounds) {
      const hidden = device.allocate("f32", [5, H]);
      const contexts = new RandomNumbers(width).floats(5 * H);
      device.write(hidden, contexts);
      const shapesWanted = Array.from({ length: 5 }, () => ({ width, length, draw: null }));
      const found = await network.branches(hidden, Int32Array.of(1, 2, 3, 4, 5), shapesWanted);
      expect(found).toHaveLength(5);
      found.forEach((branches, at) => {
        const context = [...contexts.subarray(at * H, (at + 1) * H)];
        const choices = [0, 1, 2].map((head) => ranked(folder, shape, head, context));
        expect(branches.length).toBeLessThanOrEqual(width);
        expect(branches[0]).toEqual(
          Int32Array.from({ length }, (_token, head) => choices[head]?.[0] ?? -1),
        );
        for (const branch of branches) {
          expect(branch.length).toBeLessThanOrEqual(length);
          branch.forEach((token, head) => {
            expect(choices[head]?.slice(0, 8)).toContain(token);
          });
        }
      });
      device.release(hidden);
    }
    network.dispose();
  });
});

describe.each(Object.entries(shapes))("[SP30] %s", (_, shape) => {
  test.each(devices)("its trees are those of its branches, on $kind", async (device) => {
    const folder = scratchFolder();
    writeRandomMedusa(folder, shape);
    const network = networkOn(device, folder, shape);
    const count = 5;
    const hidden = device.allocate("f32", [count, H]);
    device.write(hidden, new RandomNumbers(7).floats(count * H));
    const roots = Int32Array.of(1, 2, 3, 4, 5);
    const bounds = [
      { width: 1, length: 3 },
      { width: 8, length: 3 },
      { width: 3, length: 2 },
      { width: 4, length: 1 },
      { width: 5, length: 3 },
    ];
    for (const draw of [null, { ...unfiltered, topK: 20, position: 3 }]) {
      const wishes = bounds.map((each) => ({ ...each, draw }));
      const branches = await network.branches(hidden, roots, wishes);
      const trees = network.trees(hidden, roots, wishes);
      expect(trees.count).toBeLessThanOrEqual(draftElementsMax(network.limits));
      const elements = await device.readI32(
        device.rows(trees.tokens, 0, trees.tokens.shape[0] ?? 0),
      );
      const found = await trees.take();
      branches.forEach((own, at) => {
        const { tokens, parents, depths } = treeOf(0, own, 64);
        expect(found[at]).toEqual(tokens.subarray(1));
        expect(trees.nodes[at]).toMatchObject({ parents, depths });
        const placed = [...(found[at] ?? [])].map((_token, node) => trees.placeOf(at, node + 1));
        expect(placed.map((place) => elements[place])).toEqual([...(found[at] ?? [])]);
        expect(Math.max(...placed)).toBeLessThan(trees.count);
      });
    }
    device.release(hidden);
    network.dispose();
  });
});

describe.each(Object.entries(shapes))("[SP22] %s", (_, shape) => {
  test.each(devices)("first choices of $kind are what sampling draws", async (device) => {
    const folder = scratchFolder();
    writeRandomMedusa(folder, shape);
    const network = networkOn(device, folder, shape);
    const hidden = device.allocate("f32", [8, H]);
    const contexts = new RandomNumbers(8).floats(8 * H);
    device.write(hidden, contexts);
    const wishes = Array.from({ length: 8 }, (_wish, at) => ({
      ...{ width: 4, length: 3 },
      draw: { ...unfiltered, topK: 20, seed: { low: at, high: 1 }, position: 3 * at },
    }));
    const found = await network.branches(hidden, Int32Array.from(wishes.keys()), wishes);
    found.forEach((branches, at) => {
      const context = [...contexts.subarray(at * H, (at + 1) * H)];
      const drawn = wishes.slice(0, 3).map((_head, head) => {
        const logits = new Float32Array(V).fill(Number.NEGATIVE_INFINITY);
        for (const [token, logit] of logitsOf(folder, shape, head, context)) logits[token] = logit;
        const draw = wishes[at]?.draw ?? { ...unfiltered, position: 0 };
        return sampleRow(logits, { ...draw, position: draw.position + head });
      });
      expect([...(branches[0] ?? [])]).toEqual(drawn);
    });
    network.dispose();
  });
});

test("[SP12] sequences of other shapes beside them change nothing", async () => {
  const [, device] = devices;
  if (device === undefined) throw new Error("no device");
  const folder = scratchFolder();
  writeRandomMedusa(folder, plainShape);
  const network = networkOn(device, folder, plainShape);
  const hidden = device.allocate("f32", [3, H]);
  device.write(hidden, new RandomNumbers(9).floats(3 * H));
  const asked = [
    { width: 1, length: 1, draw: null },
    { width: 4, length: 3, draw: { ...unfiltered, position: 8 } },
    { width: 2, length: 2, draw: null },
  ];
  const together = await network.branches(hidden, Int32Array.of(1, 2, 3), asked);
  for (const [at, shape] of asked.entries()) {
    const row = device.rows(hidden, at, at + 1);
    expect(await network.branches(row, Int32Array.of(at), [shape])).toEqual([together[at]]);
  }
});

describe("[SP12] a tree of choices", () => {
  const accuracies = [
    [0.6, 0.2, 0.1],
    [0.5, 0.3, 0.1],
    [0.4, 0.1, 0.05],
  ];
  const pathsOf = (width: number, nodesMax: number, allowed: readonly number[][] | null = null) =>
    medusaPaths({ accuracies, allowed }, { length: 3, width, nodesMax });

  test("grows by the likeliest node", () => {
    // 0: .6, 0 0: .3, 1: .2, 0 1: .18, 0 0 0: .12, 2: .1, which comes before 1 0, equally likely.
    expect(pathsOf(8, 1)).toEqual([[0]]);
    expect(pathsOf(8, 3)).toEqual([[0, 0], [1]]);
    expect(pathsOf(8, 6)).toEqual([[0, 0, 0], [1], [0, 1], [2]]);
  });

  test("has no more ends than its width: one is a chain", () => {
    expect(pathsOf(1, 10)).toEqual([[0, 0, 0]]);
    expect(pathsOf(2, 10)).toEqual([
      [0, 0, 0],
      [1, 0, 0],
    ]);
    for (const width of [1, 2, 3, 5]) {
      expect(pathsOf(width, 63).length).toBeLessThanOrEqual(width);
    }
  });

  test("has the checkpoint's own paths, where it names some", () => {
    expect(pathsOf(8, 63, [[0], [1], [1, 2], [0, 0]])).toEqual([
      [0, 0],
      [1, 2],
    ]);
  });

  test("of as many nodes as there is room for expects the most tokens", () => {
    // Of all trees of three nodes; ends are not the limit.
    const likely = (paths: readonly (readonly number[])[]) => {
      const nodes = new Set(
        paths.flatMap((path) => path.map((_, at) => path.slice(0, at + 1).join())),
      );
      return [...nodes].reduce(
        (sum, node) =>
          sum +
          node
            .split(",")
            .reduce((p, choice, head) => p * (accuracies[head]?.[Number(choice)] ?? 0), 1),
        0,
      );
    };
    const others = [
      [[0], [1], [2]],
      [[0, 0, 0]],
      [
        [0, 0],
        [0, 1],
      ],
      [[0], [1, 0]],
    ];
    for (const other of others) {
      expect(likely(pathsOf(8, 3))).toBeGreaterThanOrEqual(likely(other));
    }
  });
});

describe("[SP11] Medusa's heads of another model, or broken ones, are refused", () => {
  const config = { model_type: "medusa", hidden_size: H, vocab_size: V, medusa_num_layers: 1 };
  const base = { spec: { hiddenSize: H, vocabularySize: V }, fingerprint: "aa" };

  test.each([
    ["another hidden size", { hidden_size: 32 }, "hidden_size must be 16"],
    ["another vocabulary", { vocab_size: 64 }, "vocab_size must be 128"],
    ["another base", { base_fingerprint: "bb" }, 'base_fingerprint must be "aa"'],
  ])("%s", (_, change, message) => {
    const spec = describeMedusa({ ...config, ...change });
    expect(() => checkBase(spec, base, "/drafter")).toThrow(
      expect.objectContaining({
        code: "INVALID_ARGUMENT",
        param: "speculative.model",
        message: expect.stringContaining(message),
      }),
    );
  });

  test("sizes that are not stated, as upstream's files leave them, pass", () => {
    const spec = describeMedusa({
      medusa_num_heads: 5,
      base_model_name_or_path: "lmsys/vicuna-7b",
    });
    expect(spec).toMatchObject({ hiddenSize: null, vocabularySize: null, layers: 1 });
    expect(() => checkBase(spec, base, "/drafter")).not.toThrow();
  });

  test.each([
    ["another kind", { model_type: "llama" }, "UNSUPPORTED_MODEL", "model_type"],
    ["no layers", { medusa_num_layers: 0 }, "CHECKPOINT_INVALID", "medusa_num_layers"],
    ["too many layers", { medusa_num_layers: 1e9 }, "CHECKPOINT_INVALID", "medusa_num_layers"],
    ["an accuracy above 1", { head_accuracies: [[2]] }, "CHECKPOINT_INVALID", "head_accuracies"],
    ["a choice below 0", { medusa_choices: [[-1]] }, "CHECKPOINT_INVALID", "medusa_choices"],
    ["an empty path", { medusa_choices: [[]] }, "CHECKPOINT_INVALID", "medusa_choices"],
    [
      "too many paths",
      { medusa_choices: Array.from({ length: 64 }, () => [0]) },
      "CHECKPOINT_INVALID",
      "medusa_choices",
    ],
    [
      "a draft vocabulary above the model's",
      { draft_vocab_size: 129 },
      "CHECKPOINT_INVALID",
      "draft_vocab_size",
    ],
  ])("%s", (_, change, code, param) => {
    expect(() => describeMedusa({ ...config, ...change })).toThrow(
      expect.objectContaining({ code, param: expect.stringContaining(param) }),
    );
  });

  test.each([
    ["no head", { ...plainShape, heads: 0 }, "tensor 0.0.linear.weight"],
    [
      "heads of another size",
      { ...plainShape, hidden: 8, config: { hidden_size: H } },
      "0.0.linear.weight",
    ],
    [
      "accuracies of more heads than there are",
      { ...plainShape, heads: 2, config: { head_accuracies: [[0.6], [0.5], [0.4]] } },
      "head_accuracies",
    ],
    [
      "a draft vocabulary without output layers",
      { ...plainShape, outputs: false, drafted: 40 },
      "tensor 0.1.weight",
    ],
  ])("%s", (_, shape, param) => {
    const [device] = devices;
    if (device === undefined) throw new Error("no device");
    const folder = scratchFolder();
    writeRandomMedusa(folder, shape);
    expect(() => networkOn(device, folder, shape)).toThrow(
      expect.objectContaining({
        code: "CHECKPOINT_INVALID",
        param: expect.stringContaining(param),
      }),
    );
  });
});
