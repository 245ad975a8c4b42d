/**
 * Kernels do not check what they are given, so each op must, before it calls one: every buffer of
 * every op is given too small, of another type and of another kind of device.
 */
import { afterAll, describe, expect, test } from "vitest";
import type { Activation, DeviceOps, DeviceTensor, WeightMatrix } from "#devices";
import type { CpuDevice } from "../../../src/devices/cpu/cpu-device.ts";
import { cpuDevices, randomFloats, sourceOf } from "./linear-material.ts";

const devices = cpuDevices();
afterAll(() => {
  for (const { device } of devices) device.dispose();
});

/** T rows, E columns, S sequences; attention of 2 heads of 16 over 1. */
const [T, E, S, V] = [4, 32, 2, 64];

type Buffer = DeviceTensor | Activation | WeightMatrix;
/** What an op may be given; the compiler knows each op's own fields, this test finds them. */
type Fields = Record<string, unknown>;

/** An input of every op that runs as it is. */
function inputsOf(device: CpuDevice): Record<keyof DeviceOps, Fields> {
  const f32 = (...shape: number[]) => device.allocate("f32", shape);
  const i32 = (...shape: number[]) => device.allocate("i32", shape);
  const u32 = (...shape: number[]) => device.allocate("u32", shape);
  const activation = (columns = E) => device.allocateActivation("f32", T, columns);
  const matrix = (rows: number, columns: number) =>
    device.pack([sourceOf(randomFloats(rows * columns, 1), [rows, columns])], { format: "f32" });
  const cache = device.allocateKvPool({
    ...{ format: "f32", layers: 1, blocks: 2, blockTokens: 4, kvHeads: 1, headDim: 16 },
  });
  const count = T;
  const starts = i32(S + 1);
  const penalties = { frequencyPenalty: f32(T), presencePenalty: f32(T) };
  return {
    takeTokens: { count, ids: i32(T), sampled: i32(T), sources: i32(T) },
    acceptTrees: {
      ...{ count, ids: i32(T), sampled: i32(T), firstIds: i32(T), firstSampled: i32(T) },
      ...{
        drafted: i32(T),
        columns: 3,
        parents: i32(T, 3),
        roots: i32(T),
        nodes: i32(T),
        depths: i32(T),
      },
    },
    spreadRows: { count: S, out: i32(S, 3), starts, values: i32(1) },
    embed: { count, out: f32(T, E), ids: i32(T), table: matrix(V, E) },
    norm: {
      ...{ count, kind: "layer", out: activation(), x: f32(T, E), delta: f32(T, E) },
      ...{ weight: f32(E), bias: f32(E), epsilon: 1e-5 },
    },
    linear: { count, out: f32(T, V), x: activation(), weight: matrix(V, E), bias: f32(V) },
    linearActivate: {
      ...{ count, kind: "silu", out: activation(), x: activation(), weight: matrix(2 * E, E) },
      ...{ bias: f32(2 * E), gated: true, scratch: f32(T, 2 * E) },
    },
    activate: { count, kind: "silu", out: activation(), x: f32(T, 2 * E), gated: true },
    convert: { count, out: activation(), x: f32(T, E) },
    add: { count, x: f32(T, E), delta: f32(T, E) },
    ropeKvWrite: {
      ...{ count, qkv: f32(T, 4 * 16), query: f32(T, E), heads: 2, cache, layer: 0 },
      ...{ positions: i32(T), slots: i32(T), rope: f32(8, 16), queryNorm: f32(16) },
      ...{ keyNorm: f32(16), normEpsilon: 1e-6 },
    },
    pagedAttention: {
      ...{ count, out: activation(), query: f32(T, E), heads: 2, cache, layer: 0, scale: 1 },
      batch: {
        ...{ sequences: S, queryStarts: starts, contextLengths: i32(S), blockTables: i32(S, 2) },
        ...{ queryLengthMax: 2, contextLengthMax: 4, treeMask: u32(T, 1) },
      },
    },
    moveTokens: { count, cache, groups: S, starts, moves: i32(T, 2) },
    rotateHeads: {
      ...{ count, x: f32(T, E), heads: 2, headDim: 16, positions: i32(T), rope: f32(4, 16) },
    },
    encoderAttention: {
      ...{ count, out: activation(), qkv: f32(T, 3 * E), heads: 2, headDim: 16, starts },
      ...{ sequences: S, scale: 1 },
    },
    mixtureOfExperts: {
      ...{ count, out: f32(T, E), x: activation(), routerLogits: f32(T, 2), expertsPerToken: 1 },
      ...{ normalize: true, kind: "silu", gateUp: [matrix(2 * V, E), matrix(2 * V, E)] },
      down: [matrix(E, V), matrix(E, V)],
    },
    gatherRows: { count, out: f32(T, E), x: f32(T, E), indices: i32(T) },
    joinRows: {
      ...{ count, out: f32(T, E + V), left: f32(T / 2, E), leftRepeat: 2, right: f32(T, V) },
      rightIndices: i32(T),
    },
    meanPool: { out: f32(S, E), x: f32(T, E), starts, sequences: S, normalize: false },
    softcap: { count, x: f32(T, V), cap: 30 },
    adjustLogits: {
      ...{ count, out: f32(T, V), logits: f32(T, V), entryStarts: i32(T + 1), entryTokens: i32(1) },
      ...{ entryBias: f32(1), entryCounts: i32(1), repetitionPenalty: f32(T), ...penalties },
      ...{ allowed: u32(T, V / 32), allowedRows: i32(T) },
    },
    sample: {
      ...{ count, logits: f32(T, V), out: i32(T), temperature: f32(T), topK: i32(T) },
      ...{ topP: f32(T), minP: f32(T), seeds: u32(T, 2), positions: i32(T) },
    },
    logprobs: {
      ...{ count, logits: f32(T, V), tokens: i32(T), chosen: f32(T), ranks: i32(T), topCount: 2 },
      ...{ topTokens: i32(T, 2), topLogprobs: f32(T, 2) },
    },
    raceCandidates: {
      ...{ count: S, before: 2, topTokens: i32(T, 3), topLogprobs: f32(T, 3), tokenMap: i32(V) },
      ...{ temperature: f32(S), topK: i32(S), topP: f32(S), minP: f32(S), seeds: u32(S, 2) },
      ...{ positions: i32(S), ahead: 1 },
    },
    selectBeams: {
      ...{ count: S, before: 2, width: 2, topTokens: i32(T, 3), topLogprobs: f32(T, 3) },
      ...{ scores: f32(T), tokenMap: i32(V), outScores: f32(T), tokens: i32(T), parents: i32(T) },
    },
    traceBeams: {
      ...{ count: S, width: 2, length: 3, stride: 8, levels: i32(48), out: i32(S, 2, 3) },
    },
  };
}

/** Buffers that the data in others decides how much is read of; their size is not the op's. */
const OPEN_ENDED = new Set([
  ...["takeTokens.sampled", "spreadRows.values", "gatherRows.x", "meanPool.x", "ropeKvWrite.rope"],
  "rotateHeads.rope",
  ...["adjustLogits.entryTokens", "adjustLogits.entryBias", "adjustLogits.entryCounts"],
  ...["acceptTrees.ids", "acceptTrees.sampled"],
  ...["joinRows.right", "raceCandidates.tokenMap", "selectBeams.tokenMap"],
]);

function isTensor(value: unknown): value is DeviceTensor {
  return typeof value === "object" && value !== null && "dtype" in value && "shape" in value;
}

function isActivation(value: unknown): value is Activation {
  return typeof value === "object" && value !== null && "rowBytes" in value;
}

function isMatrix(value: unknown): value is WeightMatrix {
  return typeof value === "object" && value !== null && "bytes" in value && "format" in value;
}

/** The buffers of an input, those of `batch` and lists included, and the input with another one. */
function* buffersOf(input: Fields): Generator<[string, Buffer, (other: unknown) => Fields]> {
  for (const [name, value] of Object.entries(input)) {
    const withOther = (other: unknown) => ({ ...input, [name]: other });
    if (isTensor(value) || isActivation(value)) yield [name, value, withOther];
    else if (isMatrix(value) && !("blocks" in value)) yield [name, value, withOther];
    else if (Array.isArray(value)) {
      yield [`${name}.1`, value[1], (other) => withOther([value[0], other])];
    } else if (name === "batch") {
      for (const [inner, buffer, other] of buffersOf(value as Fields)) {
        yield [inner, buffer, (made) => withOther(other(made))];
      }
    }
  }
}

/** Buffers that an op must not take in the place of `buffer`. */
function* wrongOnes(device: CpuDevice, name: string, buffer: Buffer) {
  if (isTensor(buffer)) {
    const { dtype, shape } = buffer;
    const [rows = 1, ...rest] = shape;
    yield ["another type", device.allocate(dtype === "f32" ? "i32" : "f32", shape)] as const;
    yield ["another kind of device", { dtype, shape }] as const;
    if (!OPEN_ENDED.has(name)) {
      yield ["a row less", device.allocate(dtype, [rows - 1, ...rest])] as const;
    }
    return;
  }
  if (isActivation(buffer)) {
    const { format, rows, columns } = buffer;
    yield ["a row less", device.allocateActivation(format, rows - 1, columns)] as const;
    yield ["a column less", device.allocateActivation(format, rows, columns - 1)] as const;
    return;
  }
  const { rows, columns } = buffer;
  const packed = (r: number, c: number) =>
    device.pack([sourceOf(randomFloats(r * c, 1), [r, c])], { format: "f32" });
  // The ids decide how many rows of a table are needed.
  if (name !== "embed.table") yield ["a row less", packed(rows - 1, columns)] as const;
  yield ["a column less", packed(rows, columns - 1)] as const;
}

describe.for(devices)("on $isa", ({ device }) => {
  const inputs = inputsOf(device);
  const call = (op: keyof DeviceOps, input: Fields): void => {
    Reflect.apply(device[op], device, [input]);
  };

  test.for(Object.keys(inputs) as (keyof DeviceOps)[])("%s refuses what does not fit", (op) => {
    const input = inputs[op];
    expect(() => call(op, input)).not.toThrow();
    const refused: string[] = [];
    const taken: string[] = [];
    for (const [name, buffer, withOther] of buffersOf(input)) {
      for (const [how, wrong] of wrongOnes(device, `${op}.${name}`, buffer)) {
        const place = `${name}: ${how}`;
        try {
          call(op, withOther(wrong));
          taken.push(place);
        } catch (error) {
          expect(String(error)).toMatch(/Cannot/);
          refused.push(place);
        }
      }
    }
    expect(taken).toEqual([]);
    expect(refused.length).toBeGreaterThan(0);
  });

  test("joinRows refuses too few rows on the right where no indices choose among them", () => {
    const f32 = (rows: number) => device.allocate("f32", [rows, E]);
    const input = { count: T, out: device.allocate("f32", [T, 2 * E]), left: f32(T) };
    expect(() => device.joinRows({ ...input, right: f32(T) })).not.toThrow();
    expect(() => device.joinRows({ ...input, right: f32(T - 1) })).toThrow("Cannot use f32");
  });

  test.for(Object.keys(inputs) as (keyof DeviceOps)[])("%s refuses counts that lie", (op) => {
    const input = inputs[op];
    const name = "count" in input ? "count" : "sequences";
    for (const count of [T + 1, -1, 0.5, Number.NaN, 2 ** 31, 2 ** 53, Number.POSITIVE_INFINITY]) {
      expect(() => call(op, { ...input, [name]: count })).toThrow("Cannot");
    }
  });
});
