import { describe, expect, onTestFinished, test } from "vitest";
import { type NamedWeight, openCheckpoint } from "#checkpoint";
import { ggufWeight } from "../../src/checkpoint/gguf-weights.ts";
import { MemoryFile } from "./memory-file.ts";
import {
  MODULE,
  quantizedFolder,
  type RawTensor,
  RECORDED_MODULES,
  recordedModule,
} from "./quantized-folder.ts";
import { bitsOf, typeOf } from "./recorded-blocks.ts";

function weightIn(folder: string): NamedWeight | undefined {
  const checkpoint = openCheckpoint(folder);
  onTestFinished(() => checkpoint.close());
  return checkpoint.tensors.get(`${MODULE}.weight`);
}

describe.each([...RECORDED_MODULES])("%s", (_name, { config, tensors, shape, values }) => {
  test("is read as the matrix that was recorded, bit by bit", () => {
    const weight = weightIn(quantizedFolder(config, tensors));
    expect(weight).toMatchObject({ dtype: "f32", shape });
    const bytes = weight?.bytes() ?? new Uint8Array(0);
    expect(bitsOf(bytes)).toEqual(bitsOf(new Uint8Array(values.buffer)));
    weight?.discard();
  });

  test("gives no part as a tensor, and counts all of them as stored bytes", () => {
    const checkpoint = openCheckpoint(quantizedFolder(config, tensors));
    onTestFinished(() => checkpoint.close());
    expect([...checkpoint.tensors.keys()].sort()).toEqual([
      `${MODULE}.weight`,
      "model.norm.weight",
    ]);
    expect(checkpoint.integers.size).toBe(0);
    const stored = Object.values(tensors).reduce((sum, { bytes }) => sum + bytes.length, 0);
    expect(checkpoint.totalBytes).toBe(stored + 8);
  });

  test.each(Object.keys(tensors).filter((part) => !/g_idx$/.test(part)))(
    "without %s is refused by its name, or as having no quantised weights",
    (part) => {
      const { [part]: _gone, ...others } = tensors;
      const act = () => weightIn(quantizedFolder(config, others));
      expect(act).toThrow(expect.objectContaining({ code: "CHECKPOINT_INVALID" }));
      expect(act).toThrow(part);
    },
  );

  // With more columns, quanta can be those of another model.
  const checked = Object.keys(tensors).filter((part) => part !== "qweight" && part !== "weight");

  test.each(checked)("with %s of another shape is refused", (part) => {
    const wrong = { ...tensors, [part]: longer(tensors[part]) };
    const act = () => weightIn(quantizedFolder(config, wrong));
    expect(act).toThrow(expect.objectContaining({ code: "CHECKPOINT_INVALID" }));
    expect(act).toThrow(/must (have|fit|be) /);
  });

  test.each(Object.keys(tensors))("with %s as a vector of bytes is refused", (part) => {
    const bytes = tensors[part]?.bytes ?? new Uint8Array(0);
    const flat = { dtype: "U8", shape: [bytes.length], bytes };
    const act = () => weightIn(quantizedFolder(config, { ...tensors, [part]: flat }));
    if (/g_idx$/.test(part)) return; // Tables of bytes are not read: as if there were none.
    expect(act).toThrow(expect.objectContaining({ code: "CHECKPOINT_INVALID" }));
  });
});

/** The tensor with one more of its first extent. */
function longer(tensor: RawTensor | undefined): RawTensor {
  const { dtype, shape = [], bytes = new Uint8Array(0) } = tensor ?? {};
  const [rows = 1, ...inner] = shape;
  const more = new Uint8Array((bytes.length / rows) * (rows + 1));
  more.set(bytes);
  return { dtype: dtype ?? "I32", shape: [rows + 1, ...inner], bytes: more };
}

describe("how matrices are stored", () => {
  test.each([
    ["awq, groups of 128", "awq-int4-g128"],
    ["awq, a scale per row", "awq-int4-row"],
    ["gptq, 8 bits", "gptq-int8-g32"],
    ["packed, 4 bits, groups with zeros", "compressed-int4-g128"],
    ["bytes, 8 bits, symmetric rows", "compressed-int8-row"],
    ["packed, 4 bits, one scale", "compressed-int4-matrix"],
  ])("%s is named %s", (name, stored) => {
    const { config, tensors } = recordedModule(name);
    expect(weightIn(quantizedFolder(config, tensors))?.storedAs).toBe(stored);
  });
});

describe("blocks", () => {
  test.each([
    ["gptq, symmetric groups", "Q4_0"],
    ["gptq, 8 bits, symmetric groups", "Q8_0"],
    ["packed, 4 bits, symmetric groups", "Q4_0"],
    ["bytes, 8 bits, symmetric rows of whole blocks", "Q8_0"],
  ])("of %s are those of %s, and mean the same bit by bit", (name, type) => {
    const { config, tensors } = recordedModule(name);
    const weight = weightIn(quantizedFolder(config, tensors));
    const { packed, shape = [] } = weight ?? {};
    expect(packed?.type).toBe(type);
    const id = type === "Q4_0" ? 2 : 8;
    const blocks = packed?.blocks() ?? new Uint8Array(0);
    const tensor = { name: "t", type: typeOf(id), shape, startBytes: 0, sizeBytes: blocks.length };
    const as = { name: "w", layout: { kind: "plain" } } as const;
    const read = ggufWeight(new MemoryFile(blocks), tensor, as);
    expect(bitsOf(read.bytes())).toEqual(bitsOf(weight?.bytes() ?? new Uint8Array(0)));
  });

  test.each([
    ...["awq, groups of 32", "gptq, groups of 32", "gptq, 8 bits, a scale per row"],
    ...["packed, 4 bits, groups in any order", "packed, 8 bits, symmetric rows"],
    ...["packed, 4 bits, groups with zeros", "bytes, 8 bits, one scale"],
  ])("do not exist for %s", (name) => {
    const { config, tensors } = recordedModule(name);
    expect(weightIn(quantizedFolder(config, tensors))?.packed).toBeUndefined();
  });
});

describe("a group index", () => {
  test.each([
    ["gptq, groups of 32", "g_idx", -1],
    ["gptq, groups of 32", "g_idx", 3],
    ["gptq, groups of 32", "g_idx", 2 ** 31 - 1],
    ["packed, 4 bits, groups in any order", "weight_g_idx", -(2 ** 31)],
    ["packed, 4 bits, groups in any order", "weight_g_idx", 2],
  ])("of %s in %s that is %i is refused when the weight is read", (name, part, value) => {
    const { config, tensors } = recordedModule(name);
    const { bytes = new Uint8Array(0), ...rest } = tensors[part] ?? { dtype: "", shape: [] };
    const changed = bytes.slice();
    new DataView(changed.buffer).setInt32(4, value, true);
    const weight = weightIn(
      quantizedFolder(config, { ...tensors, [part]: { ...rest, bytes: changed } }),
    );
    expect(() => weight?.bytes()).toThrow(`must have groups from 0 to`);
    expect(() => weight?.bytes()).toThrow(expect.objectContaining({ code: "CHECKPOINT_INVALID" }));
  });
});

test.each([
  [5, 30],
  [7, 24],
  [7, 33],
  [7, -1],
  [7, 0],
  [2 ** 31 + 7, 30],
  [-7, 30],
])("a stated shape of %i × %i that the words do not fit is refused", (rows, columns) => {
  const { config, tensors } = recordedModule("packed, 8 bits, symmetric rows");
  const bytes = new Uint8Array(BigInt64Array.of(BigInt(rows), BigInt(columns)).buffer);
  const stated = { dtype: "I64", shape: [2], bytes };
  const act = () => weightIn(quantizedFolder(config, { ...tensors, weight_shape: stated }));
  expect(act).toThrow(expect.objectContaining({ code: "CHECKPOINT_INVALID" }));
});

describe("a scheme that is not read", () => {
  const base = { awq: "awq, groups of 32", gptq: "gptq, groups of 32" } as const;

  test.each([
    ["awq", { version: "gemv" }, "version must be gemm"],
    ["awq", { bits: 3 }, "bits must be 4"],
    ["awq", { zero_point: false }, "zero_point must be true"],
    ["gptq", { bits: 3 }, "bits must be 4 or 8"],
    ["gptq", { checkpoint_format: "marlin" }, "checkpoint_format must be gptq or gptq_v2"],
    ["gptq", { is_marlin_format: true }, "is_marlin_format must be false"],
    ["gptq", { pack_dtype: "int8" }, "pack_dtype must be int32"],
    ["gptq", { dynamic: { "+:.*down.*": { bits: 8 } } }, "dynamic must only exclude modules"],
    ["gptq", { quant_method: "bitsandbytes" }, "quant_method must be awq, gptq or compressed"],
    ["gptq", { quant_method: undefined }, "quant_method must be awq, gptq or compressed"],
  ] as const)("of %s with %j says so, and what to do", (method, fields, message) => {
    const { config, tensors } = recordedModule(base[method]);
    const act = () => weightIn(quantizedFolder({ ...config, ...fields }, tensors));
    expect(act).toThrow(expect.objectContaining({ code: "UNSUPPORTED_MODEL" }));
    expect(act).toThrow(message);
    expect(act).toThrow("--quantization int8");
  });

  test.each([
    [{ num_bits: 2 }, "num_bits must be 4 or 8"],
    [{ type: "float" }, "type must be int"],
    [{ dynamic: true }, "dynamic must be false"],
    [{ strategy: "block" }, "strategy must be group, channel or tensor"],
  ])("of compressed-tensors with weights of %j says so", (weights, message) => {
    const act = () => weightIn(compressedFolder({}, weights));
    expect(act).toThrow(expect.objectContaining({ code: "UNSUPPORTED_MODEL" }));
    expect(act).toThrow(message);
  });

  test.each([
    [{ format: "nvfp4-pack-quantized" }, "format must be pack-quantized or int-quantized"],
    [{ sparsity_config: { format: "sparse-24-bitmask" } }, "sparsity_config must be empty"],
    [
      { transform_config: { config_groups: { R1: { type: "hadamard" } } } },
      "transform_config must be empty",
    ],
  ])("of compressed-tensors with %j says so", (fields, message) => {
    const act = () => weightIn(compressedFolder(fields, {}));
    expect(act).toThrow(expect.objectContaining({ code: "UNSUPPORTED_MODEL" }));
    expect(act).toThrow(message);
  });

  test("of a family whose matrices quantisers turn says so", () => {
    const { config, tensors } = recordedModule(base.gptq);
    const act = () => weightIn(quantizedFolder(config, tensors, { model_type: "gpt2" }));
    expect(act).toThrow("models of type gpt2 must not be quantised by other tools");
  });
});

describe("a scheme that makes no sense", () => {
  test.each([0, -2, 1.5, "128", null, 2 ** 60, []])("a group size of %j is refused", (size) => {
    for (const name of ["awq, groups of 32", "gptq, groups of 32"]) {
      const { config, tensors } = recordedModule(name);
      const act = () => weightIn(quantizedFolder({ ...config, group_size: size }, tensors));
      expect(act).toThrow(expect.objectContaining({ code: "CHECKPOINT_INVALID" }));
    }
    const act = () => weightIn(compressedFolder({}, { group_size: size, strategy: "group" }));
    expect(act).toThrow(expect.objectContaining({ code: "CHECKPOINT_INVALID" }));
  });

  test.each([
    [{ config_groups: {} }, "config_groups must have a group"],
    [{ config_groups: null }, "config_groups must be an object"],
    [{ config_groups: { a: 3 } }, "config_groups.a must be an object"],
    [{ config_groups: { a: {} } }, "config_groups.a.weights must be an object"],
  ])("%j is refused", (fields, message) => {
    const act = () => weightIn(compressedFolder(fields, {}));
    expect(act).toThrow(expect.objectContaining({ code: "CHECKPOINT_INVALID" }));
    expect(act).toThrow(message);
  });
});

test("groups of one scheme are one, others are refused", () => {
  const { config, tensors } = recordedModule("packed, 4 bits, symmetric groups");
  const { group_0: group } = Object(config.config_groups);
  const other = { ...group, weights: { ...group.weights, num_bits: 8 } };
  const open = (second: object) =>
    weightIn(quantizedFolder({ ...config, config_groups: { a: group, b: second } }, tensors));
  expect(open({ ...group, targets: ["re:.*down_proj"] })?.shape).toEqual([5, 64]);
  expect(() => open(other)).toThrow("must have one scheme for all matrices");
});

test("modules that GPTQModel excludes stay as they are", () => {
  const { config, tensors } = recordedModule("gptq, groups of 32");
  const fields = { ...config, dynamic: { "-:.*self_attn.*": {} } };
  expect(weightIn(quantizedFolder(fields, tensors))?.shape).toEqual([16, 96]);
});

test("a module with a quantised and another weight is refused", () => {
  const { config, tensors } = recordedModule("gptq, groups of 32");
  const weight = { dtype: "F32", shape: [1], bytes: new Uint8Array(4) };
  const act = () => weightIn(quantizedFolder(config, { ...tensors, weight }));
  expect(act).toThrow("must be the only one of its module");
});

test("without its weights, a quantised model's configuration opens", () => {
  const { config, tensors } = recordedModule("gptq, groups of 32");
  const checkpoint = openCheckpoint(quantizedFolder(config, tensors), { weights: false });
  expect(checkpoint.tensors.size).toBe(0);
  checkpoint.close();
});

function compressedFolder(fields: object, weights: object): string {
  const { config, tensors } = recordedModule("packed, 4 bits, symmetric groups");
  const { group_0: group } = Object(config.config_groups);
  const changed = { ...group, weights: { ...group.weights, ...weights } };
  return quantizedFolder({ ...config, config_groups: { group_0: changed }, ...fields }, tensors);
}
