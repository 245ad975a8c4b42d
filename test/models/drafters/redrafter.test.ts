/** ReDrafter's beams beside a plain beam search, and files that are refused. */
import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { openCheckpoint } from "#checkpoint";
import { type Device, openDevice, type WeightFormat } from "#devices";
import {
  type BranchDraw,
  baseFingerprint,
  checkBase,
  describeModel,
  describeReDrafter,
  draftElementsMax,
  loadReDrafterWeights,
  ReDrafter,
} from "#models";
import { decodeFloats } from "#tensor";
import { sampleRow } from "../../../src/devices/reference/sample.ts";
import { scratchFolder } from "../../checkpoint/scratch-folder.ts";
import { RandomNumbers } from "../../contracts/device-ops/random.ts";
import { fixturePath } from "../../contracts/recorded-model.ts";
import { type DrafterShape, writeRandomDrafter } from "../../support/random-drafter.ts";

const [H, V] = [16, 128];
const shapes: Readonly<Record<string, DrafterShape>> = {
  "recurrent, with a projection": {
    ...{ hidden_size: H, vocab_size: V, exit_dim: 24, num_draft_layers: 1, rnn: true },
  },
  "a sum of embeddings, two blocks": {
    ...{ hidden_size: H, vocab_size: V, exit_dim: 2 * H, num_draft_layers: 2, rnn: false },
  },
  "no block": {
    ...{ hidden_size: H, vocab_size: V, exit_dim: 2 * H, num_draft_layers: 0, rnn: true },
  },
};

const devices: Device[] = [];
for (const kind of ["reference", "cpu"] as const) {
  devices.push(await openDevice({ kind, threads: 1, warn: () => {} }));
}
afterAll(() => {
  for (const device of devices) device.dispose();
});

/** A drafter's files as plain numbers. */
class PlainDrafter {
  readonly #shape: DrafterShape;
  readonly #values: (name: string) => Float32Array;
  readonly #embeddings: Float32Array;

  constructor(folder: string, shape: DrafterShape, embeddings: Float32Array) {
    const { tensors } = openCheckpoint(folder);
    this.#shape = shape;
    this.#embeddings = embeddings;
    this.#values = (name) => {
      const tensor = tensors.get(name);
      if (tensor === undefined) throw new Error(`no ${name}`);
      return decodeFloats(tensor.bytes(), tensor.dtype);
    };
  }

  #linear(name: string, x: readonly number[], hasBias = true): number[] {
    const weight = this.#values(`${name}.weight`);
    const bias = hasBias ? this.#values(`${name}.bias`) : null;
    return Array.from({ length: weight.length / x.length }, (_, row) =>
      x.reduce(
        (sum, value, at) => sum + value * (weight[row * x.length + at] ?? 0),
        bias?.[row] ?? 0,
      ),
    );
  }

  #advance(state: readonly number[], token: number): number[] {
    const embedded = [...this.#embeddings.subarray(token * H, (token + 1) * H)];
    if (!this.#shape.rnn) return state.map((value, at) => value + (embedded[at] ?? 0));
    const fromState = this.#linear("rnn_u", state);
    return this.#linear("rnn_w", embedded, false).map((value, at) =>
      silu(value + (fromState[at] ?? 0)),
    );
  }

  /** What sampling draws, token by token, were the distribution the drafter's. */
  drawn(context: readonly number[], root: number, draw: BranchDraw, length: number): number[] {
    const tokens: number[] = [];
    let state = new Array<number>(H).fill(0);
    for (let level = 0; level < length; level++) {
      state = this.#advance(state, tokens.at(-1) ?? root);
      const logits = Float32Array.from(this.#logprobs(context, state));
      tokens.push(sampleRow(logits, { ...draw, position: draw.position + level }));
    }
    return tokens;
  }

  #logprobs(context: readonly number[], state: readonly number[]): number[] {
    const { exit_dim, num_draft_layers: blocks } = this.#shape;
    let x = [...context, ...state];
    if (exit_dim !== x.length) x = this.#linear("input_proj", x);
    for (let block = 0; block < blocks; block++) {
      const delta = this.#linear(`lm_head.${block}.linear`, x);
      x = x.map((value, at) => value + silu(delta[at] ?? 0));
    }
    const logits = this.#linear(`lm_head.${blocks}`, x, false);
    const max = Math.max(...logits);
    const sum = Math.log(logits.reduce((total, logit) => total + Math.exp(logit - max), 0));
    return logits.map((logit) => logit - max - sum);
  }

  /** The beams with the largest sums, best first. */
  beams(context: readonly number[], root: number, { width, length }: Shape): Beam[] {
    let beams: Beam[] = [{ tokens: [], score: 0, state: new Array<number>(H).fill(0) }];
    for (let level = 0; level < length; level++) {
      beams = beams
        .flatMap(({ tokens, score, state: before }) => {
          const state = this.#advance(before, tokens.at(-1) ?? root);
          return this.#logprobs(context, state).map((logprob, token) => ({
            ...{ tokens: [...tokens, token], score: score + logprob, state },
          }));
        })
        .sort((a, b) => b.score - a.score)
        .slice(0, width);
    }
    return beams;
  }
}

interface Beam {
  readonly tokens: readonly number[];
  readonly score: number;
  readonly state: readonly number[];
}

interface Shape {
  readonly width: number;
  readonly length: number;
}

const silu = (x: number): number => x / (1 + Math.exp(-x));

function networkOn(device: Device, folder: string, format: WeightFormat = "f32"): ReDrafter {
  const checkpoint = openCheckpoint(folder);
  const spec = describeReDrafter(checkpoint.config);
  const weights = loadReDrafterWeights(device, spec, { files: checkpoint, format });
  const table = {
    ...{ name: "table", dtype: "f32" as const, shape: [V, H], discard() {} },
    bytes: () => new Uint8Array(embeddings.buffer),
  };
  const limits = { sequencesMax: 8, widthMax: 16, lengthMax: 14 };
  const packed = device.pack([table], { format });
  return new ReDrafter({ device, spec, weights, embeddings: packed, limits });
}

const embeddings = new RandomNumbers(3).floats(V * H);

describe.each(Object.entries(shapes))("[SP10] %s", (_, shape) => {
  test.each(devices)("beams of $kind are those of a plain search", async (device) => {
    const folder = scratchFolder();
    writeRandomDrafter(folder, shape);
    const network = networkOn(device, folder);
    const plain = new PlainDrafter(folder, shape, embeddings);
    // The sizes of upstream's own test, the widest, and narrower ones behind them.
    for (const [count, width, length] of [
      ...([
        [1, 2, 2],
        [2, 6, 8],
        [7, 9, 14],
        [3, 16, 3],
      ] as const),
      ...([
        [8, 1, 5],
        [1, 4, 4],
      ] as const),
    ]) {
      const hidden = device.allocate("f32", [count, H]);
      const contexts = new RandomNumbers(count).floats(count * H);
      device.write(hidden, contexts);
      const roots = Int32Array.from({ length: count }, (_root, at) => (37 * at + width) % V);
      const found = await network.draft(hidden, roots, { width, length });
      expect(found).toHaveLength(count);
      found.forEach((beams, at) => {
        const context = [...contexts.subarray(at * H, (at + 1) * H)];
        const wanted = plain.beams(context, roots[at] ?? 0, { width, length });
        expect(beams.map((beam) => [...beam])).toEqual(wanted.map(({ tokens }) => tokens));
      });
      device.release(hidden);
    }
    network.dispose();
  });

  test.each(devices)("[SP29] its chains are the beams of width 1, on $kind", async (device) => {
    const folder = scratchFolder();
    writeRandomDrafter(folder, shape);
    const network = networkOn(device, folder);
    const lengths = [3, 1, 5];
    const hidden = device.allocate("f32", [3, H]);
    device.write(hidden, new RandomNumbers(4).floats(3 * H));
    const roots = Int32Array.of(8, 1, 3);
    const beams = await network.draft(hidden, roots, { width: 1, length: 5 });
    const wishes = lengths.map((length) => ({ width: 1, length, draw: null }));
    const chains = network.trees(hidden, roots, wishes);
    const elements = await device.readI32(device.rows(chains.tokens, 0, chains.count));
    const found = await chains.take();
    lengths.forEach((length, at) => {
      expect(found[at]).toEqual(beams[at]?.[0]?.subarray(0, length));
      const placed = Array.from({ length }, (_, place) => elements[chains.placeOf(at, place + 1)]);
      expect(placed).toEqual([...(found[at] ?? [])]);
    });
    network.dispose();
  });

  test.each(devices)("[SP30] its trees are its first beams, cut, on $kind", async (device) => {
    const folder = scratchFolder();
    writeRandomDrafter(folder, shape);
    const network = networkOn(device, folder);
    const shapes = [
      { width: 3, length: 4 },
      { width: 1, length: 2 },
      { width: 2, length: 1 },
      { width: 3, length: 5 },
    ];
    const count = shapes.length;
    const hidden = device.allocate("f32", [count, H]);
    device.write(hidden, new RandomNumbers(6).floats(count * H));
    const roots = Int32Array.of(8, 1, 3, 2);
    const beams = await network.draft(hidden, roots, { width: 3, length: 5 });
    const wishes = shapes.map((each) => ({ ...each, draw: null }));
    const trees = network.trees(hidden, roots, wishes);
    expect(trees.count).toBeLessThanOrEqual(draftElementsMax(network.limits));
    const elements = await device.readI32(device.rows(trees.tokens, 0, trees.count));
    const found = await trees.take();
    for (const [at, { width, length }] of shapes.entries()) {
      const own = (beams[at] ?? []).slice(0, width).map((beam) => [...beam.subarray(0, length)]);
      const nodes = trees.nodes[at];
      const tokens = found[at] ?? new Int32Array(0);
      expect([...tokens]).toEqual(own.flat());
      expect(tokens).toHaveLength((nodes?.parents.length ?? 0) - 1);
      tokens.forEach((token, place) => {
        expect(elements[trees.placeOf(at, place + 1)]).toBe(token);
        const isFirst = place % length === 0;
        expect(nodes?.parents[place + 1]).toBe(isFirst ? 0 : place);
        expect(nodes?.depths[place + 1]).toBe((place % length) + 1);
      });
    }
    network.dispose();
  });

  test.each(devices)("a sequence's beams do not depend on the others, on $kind", async (device) => {
    const folder = scratchFolder();
    writeRandomDrafter(folder, shape);
    const network = networkOn(device, folder);
    const hidden = device.allocate("f32", [5, H]);
    device.write(hidden, new RandomNumbers(9).floats(5 * H));
    const together = await network.draft(hidden, Int32Array.of(1, 2, 3, 4, 5), {
      ...{ width: 3, length: 4 },
    });
    for (let at = 0; at < 5; at++) {
      const alone = await network.draft(device.rows(hidden, at, at + 1), Int32Array.of(at + 1), {
        ...{ width: 3, length: 4 },
      });
      expect(alone[0]).toEqual(together[at]);
    }
    network.dispose();
  });
});

describe.each(Object.entries(shapes))("[SP22] %s", (_, shape) => {
  test.each(devices)("a first beam of $kind is what sampling draws", async (device) => {
    const folder = scratchFolder();
    writeRandomDrafter(folder, shape);
    const plain = new PlainDrafter(folder, shape, embeddings);
    const count = 8;
    const hidden = device.allocate("f32", [count, H]);
    const contexts = new RandomNumbers(5).floats(count * H);
    device.write(hidden, contexts);
    const roots = Int32Array.from({ length: count }, (_root, at) => 11 * at);
    const draws = Array.from({ length: count }, (_draw, at): BranchDraw | null => {
      if (at === 3) return null;
      const filter = at % 2 === 0 ? { topK: 12, topP: 1 } : { topK: 16, topP: 0.8 };
      return { ...filter, minP: 0, temperature: 1, seed: { low: at, high: 7 }, position: 20 + at };
    });
    for (const width of [1, 3]) {
      const network = networkOn(device, folder);
      const found = await network.draft(hidden, roots, { width, length: 4, draws });
      const greedy = await network.draft(hidden, roots, { width, length: 4 });
      found.forEach((beams, at) => {
        const draw = draws[at] ?? null;
        if (draw === null) {
          expect(beams).toEqual(greedy[at]);
          return;
        }
        const context = [...contexts.subarray(at * H, (at + 1) * H)];
        expect([...(beams[0] ?? [])]).toEqual(plain.drawn(context, roots[at] ?? 0, draw, 4));
        expect(new Set(beams.map((beam) => beam.join())).size).toBe(width);
      });
      expect(found).not.toEqual(greedy);
      network.dispose();
    }
    device.release(hidden);
  });
});

test.each(["bf16", "i8"] as const)("in %s it drafts about the same", async (format) => {
  const [, device] = devices;
  if (device === undefined) throw new Error("no device");
  const folder = scratchFolder();
  const shape = shapes["no block"];
  if (shape === undefined) throw new Error("no shape");
  writeRandomDrafter(folder, shape);
  const hidden = device.allocate("f32", [8, H]);
  device.write(hidden, new RandomNumbers(4).floats(8 * H));
  const roots = Int32Array.from({ length: 8 }, (_, at) => at);
  const draft = async (other: WeightFormat) =>
    await networkOn(device, folder, other).draft(hidden, roots, { width: 8, length: 1 });
  const [exact, rounded] = [await draft("f32"), await draft(format)];
  const shared = exact.map((beams, at) => {
    const tokens = new Set((rounded[at] ?? []).map(([token]) => token));
    return beams.filter(([token]) => tokens.has(token)).length;
  });
  expect(shared.reduce((sum, count) => sum + count, 0)).toBeGreaterThan(8 * 8 * 0.75);
});

describe("names of other writers", () => {
  test.each([
    ["lm_heads.", "input_projs."],
    ["0.", "input_projs.0."],
  ])("%s and %s", async (head, projection) => {
    const [device] = devices;
    if (device === undefined) throw new Error("no device");
    const [plain, renamed] = [scratchFolder(), scratchFolder()];
    const shape = shapes["recurrent, with a projection"];
    if (shape === undefined) throw new Error("no shape");
    writeRandomDrafter(plain, shape);
    cpSync(plain, renamed, { recursive: true });
    const path = join(renamed, "model.safetensors");
    const bytes = readFileSync(path);
    const length = Number(bytes.readBigUInt64LE(0));
    const header = bytes.subarray(8, 8 + length).toString();
    const text = header.replaceAll("lm_head.", head).replaceAll("input_proj.", projection);
    const size = Buffer.alloc(8);
    size.writeBigUInt64LE(BigInt(Buffer.byteLength(text)));
    writeFileSync(path, Buffer.concat([size, Buffer.from(text), bytes.subarray(8 + length)]));
    const hidden = device.allocate("f32", [1, H]);
    device.write(hidden, new RandomNumbers(1).floats(H));
    const drafts = [plain, renamed].map((folder) =>
      networkOn(device, folder).draft(hidden, Int32Array.of(1), { width: 2, length: 3 }),
    );
    const [one, other] = await Promise.all(drafts);
    expect(other).toEqual(one);
  });
});

describe("[SP11] a drafter of another model, or a broken one, is refused", () => {
  const config = {
    ...{ model_type: "recurrent_drafting_drafter", hidden_size: 16, vocab_size: 128 },
    ...{ exit_dim: 32, num_draft_layers: 1, rnn: true },
  };
  const base = { spec: { hiddenSize: 16, vocabularySize: 128 }, fingerprint: "aa" };

  test.each([
    ["another hidden size", { hidden_size: 32 }, "hidden_size must be 16"],
    ["another vocabulary", { vocab_size: 64 }, "vocab_size must be 128"],
    ["another base", { base_fingerprint: "bb" }, 'base_fingerprint must be "aa"'],
  ])("%s", (_, change, message) => {
    const spec = describeReDrafter({ ...config, ...change });
    expect(() => checkBase(spec, base, "/drafter")).toThrow(
      expect.objectContaining({
        code: "INVALID_ARGUMENT",
        param: "speculative.model",
        message: expect.stringContaining(message),
      }),
    );
  });

  test("the same base passes, and one that is not stated", () => {
    expect(() => checkBase(describeReDrafter(config), base, "/drafter")).not.toThrow();
    const stated = describeReDrafter({ ...config, base_fingerprint: "aa" });
    expect(() => checkBase(stated, base, "/drafter")).not.toThrow();
  });

  test.each([
    ["a missing field", { rnn: undefined }, "CHECKPOINT_INVALID", "rnn"],
    ["a size that is none", { exit_dim: -1 }, "CHECKPOINT_INVALID", "exit_dim"],
    ["too many layers", { num_draft_layers: 1e9 }, "CHECKPOINT_INVALID", "num_draft_layers"],
    [
      "a draft vocabulary above the model's",
      { draft_vocab_size: 129 },
      "CHECKPOINT_INVALID",
      "draft",
    ],
    ["another kind of model", { model_type: "llama" }, "UNSUPPORTED_MODEL", "model_type"],
  ])("%s", (_, change, code, param) => {
    expect(() => describeReDrafter({ ...config, ...change })).toThrow(
      expect.objectContaining({ code, param: expect.stringContaining(param) }),
    );
  });

  test.each([
    ["no table", new Map()],
    ["a table of another length", tableOf([1, 2, 3])],
    ["a token beyond the vocabulary", tableOf([...new Array<number>(63).fill(0), 128])],
    ["a token before it", tableOf([-1, ...new Array<number>(63).fill(0)])],
  ])("a draft vocabulary with %s", (_, integers) => {
    const [device] = devices;
    if (device === undefined) throw new Error("no device");
    const folder = scratchFolder();
    writeRandomDrafter(folder, { ...config, vocab_size: 64 });
    const spec = { ...describeReDrafter({ ...config, draft_vocab_size: 64 }) };
    const { tensors } = openCheckpoint(folder);
    const files = { path: folder, tensors, integers };
    expect(() => loadReDrafterWeights(device, spec, { files, format: "f32" })).toThrow(
      expect.objectContaining({ code: "CHECKPOINT_INVALID", param: "tensor d2t" }),
    );
  });

  test("a truncated file", () => {
    const folder = scratchFolder();
    writeRandomDrafter(folder, config);
    const path = join(folder, "model.safetensors");
    writeFileSync(path, readFileSync(path).subarray(0, -100));
    expect(() => openCheckpoint(folder)).toThrow(
      expect.objectContaining({ code: "CHECKPOINT_INVALID" }),
    );
  });
});

test("a base is identified by its final norm", () => {
  const prints = ["llama", "gemma2", "gpt2"].map((name) => {
    const { config, tensors } = openCheckpoint(fixturePath(name));
    const model = describeModel(config);
    if (model.kind !== "decoder") throw new Error("no decoder");
    expect(baseFingerprint(model, new Map())).toBe(null);
    return baseFingerprint(model, tensors);
  });
  for (const print of prints) expect(print).toMatch(/^[0-9a-f]{64}$/);
  expect(new Set(prints).size).toBe(prints.length);
});

function tableOf(values: readonly number[]) {
  const table = { shape: [values.length], values: () => Int32Array.from(values) };
  return new Map([["d2t", table]]);
}
