import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { openCheckpoint, writeSafetensors } from "#checkpoint";
import type { KvFormat } from "#devices";
import { kvScales } from "#models";

const directory = mkdtempSync(join(tmpdir(), "kv-scales-"));
afterAll(() => rmSync(directory, { recursive: true }));

interface Given {
  readonly scales: Readonly<Record<string, number | readonly number[]>>;
  readonly shape?: readonly number[];
  readonly format?: KvFormat;
  readonly config?: object;
  readonly layers?: number;
}

/** What is found in a made-up model of two layers that has nothing but these scales. */
async function scalesIn({ scales, shape = [1], format = "fp8", config = {}, layers = 2 }: Given) {
  const tensors = Object.entries(scales).map(([name, value]) => {
    const bytes = new Uint8Array(Float32Array.from([value].flat()).buffer);
    return { name, dtype: "f32" as const, shape, bytes };
  });
  writeSafetensors(join(directory, "model.safetensors"), tensors);
  writeFileSync(join(directory, "config.json"), JSON.stringify({ model_type: "llama", ...config }));
  const checkpoint = await openCheckpoint(directory);
  try {
    return kvScales(checkpoint, { layers, format });
  } finally {
    checkpoint.close();
  }
}

const layer = (index: number) => `model.layers.${index}.self_attn`;
const weight = { "model.layers.0.self_attn.k_proj.weight": 3 };

test.for([
  ["k_scale", "v_scale"],
  ["attn.k_scale", "attn.v_scale"],
  ["k_proj.k_scale", "v_proj.v_scale"],
  ["k_proj.output_scale", "v_proj.output_scale"],
])("T 4.3: %s and %s are found, one per layer", async ([key, value]) => {
  const found = await scalesIn({
    scales: {
      ...weight,
      [`${layer(1)}.${key}`]: 0.25,
      [`${layer(0)}.${key}`]: 0.5,
      [`${layer(0)}.${value}`]: 2,
      [`${layer(1)}.${value}`]: 4,
    },
  });
  expect(found).toEqual({ key: Float32Array.of(0.5, 0.25), value: Float32Array.of(2, 4) });
});

test.for([
  [1, "model.layers.%.self_attn.kv_scale"],
  [0, "transformer.layers.%.attention.kv_cache_scaling_factor"],
] as const)("T 4.3: a merged scale serves keys and values (%i dimensions)", async (given) => {
  const [dimensions, name] = given;
  const scales = { [name.replace("%", "0")]: 0.5, [name.replace("%", "1")]: 0.75 };
  const found = await scalesIn({ scales, shape: dimensions === 0 ? [] : [1] });
  expect(found).toEqual({ key: Float32Array.of(0.5, 0.75), value: Float32Array.of(0.5, 0.75) });
});

test("scales of their own go before a merged one", async () => {
  const scales = {
    [`${layer(0)}.k_scale`]: 1,
    [`${layer(0)}.kv_scale`]: 3,
    [`${layer(0)}.v_scale`]: 2,
  };
  const found = await scalesIn({ scales, layers: 1 });
  expect(found).toEqual({ key: Float32Array.of(1), value: Float32Array.of(2) });
});

test("without scales, and for formats that need none, tokens have their own", async () => {
  expect(await scalesIn({ scales: weight })).toBeNull();
  const scales = { [`${layer(0)}.kv_scale`]: 1, [`${layer(1)}.kv_scale`]: 1 };
  for (const format of ["f32", "bf16", "i8"] as const) {
    expect(await scalesIn({ scales, format })).toBeNull();
  }
  const kvScheme = { num_bits: 8, type: "int" };
  const config = { quantization_config: { config_groups: {}, kv_cache_scheme: kvScheme } };
  expect(await scalesIn({ scales, format: "fp8", config })).toBeNull();
  expect(await scalesIn({ scales, format: "i8", config })).not.toBeNull();
});

test("scales of other tensors are not the cache's", async () => {
  const scales = {
    [`${layer(0)}.k_proj.weight_scale`]: 1,
    [`${layer(0)}.k_proj.input_scale`]: 1,
    "model.k_scale": 1,
  };
  expect(await scalesIn({ scales })).toBeNull();
});

test.for([
  [{ [`${layer(0)}.k_scale`]: 1, [`${layer(0)}.v_scale`]: 1 }, "2 layers is wanted, there are 1"],
  [
    { [`${layer(0)}.k_scale`]: 1, [`${layer(1)}.k_scale`]: 1 },
    "a value scale for each of 2 layers is wanted, there are 0 and none for layer 0",
  ],
] as const)("scales of some layers only are refused, %#", async ([scales, message]) => {
  await expect(scalesIn({ scales })).rejects.toThrow(message);
  await expect(scalesIn({ scales })).rejects.toMatchObject({ code: "CHECKPOINT_INVALID" });
});

test.for([0, -1, Number.NaN, Number.POSITIVE_INFINITY])("a scale of %d is refused", async (bad) => {
  const scales = { [`${layer(0)}.kv_scale`]: 1, [`${layer(1)}.kv_scale`]: bad };
  await expect(scalesIn({ scales })).rejects.toThrow(
    `${layer(1)}.kv_scale: a scale must be positive, current value is ${bad}`,
  );
});

test("a scale per head is refused: one per layer is what the cache has", async () => {
  const scales = { [`${layer(0)}.kv_scale`]: [1, 2], [`${layer(1)}.kv_scale`]: [1, 2] };
  await expect(scalesIn({ scales, shape: [2] })).rejects.toThrow("current shape is [2]");
});
