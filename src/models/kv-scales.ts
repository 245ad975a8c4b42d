import { EngineError } from "#base";
import type { KvFormat, KvScales, WeightSource } from "#devices";
import { decodeFloats, elementCount, formatShape } from "#tensor";
import type { JsonConfig } from "./config.ts";
import type { WeightSources } from "./weight-loader.ts";

/** The parts of a checkpoint that hold the scales of its cache. */
export interface ScaledCheckpoint {
  readonly tensors: WeightSources;
  /**
   * Its `quantization_config.kv_cache_scheme` specifies the format that the scales were calibrated
   * for.
   */
  readonly config: JsonConfig;
}

/** The cache that the scales are for. */
export interface ScaledCache {
  readonly layers: number;
  readonly format: KvFormat;
}

type Part = "key" | "value";

/** `layers` in most families, `h` in GPT-2's. */
const layerNumber = /(?:^|\.)(?:layers|h)\.(\d+)\./;

/**
 * Names of one layer's scales by tool: llm-compressor and vLLM (`self_attn.k_scale`, also below
 * `attn`), ModelOpt (`k_proj.k_scale`), AutoFP8 (`k_proj.output_scale`).
 */
const partNames: Readonly<Record<Part, RegExp>> = {
  key: /\.(?:k_scale|k_proj\.output_scale)$/,
  value: /\.(?:v_scale|v_proj\.output_scale)$/,
};

/** One scale for keys and values together: older exports of vLLM and TensorRT-LLM. */
const mergedName = /\.(?:kv_scale|kv_cache_scaling_factor)$/;

/**
 * Calibrated scales of a cache, one per layer, found by name among a checkpoint's tensors. Null:
 * there are none, or they are for another format, so tokens have scales of their own, which is as
 * exact. Throws CHECKPOINT_INVALID where only some layers have scales, or where one is not a
 * positive number: a default in its place would silently cost accuracy.
 */
export function kvScales(checkpoint: ScaledCheckpoint, cache: ScaledCache): KvScales | null {
  if (cache.format !== calibratedFormat(checkpoint.config)) return null;
  const found = { key: new Map<number, WeightSource>(), value: new Map<number, WeightSource>() };
  for (const [name, source] of checkpoint.tensors) {
    const layer = Number(layerNumber.exec(name)?.[1] ?? Number.NaN);
    if (Number.isNaN(layer)) continue;
    if (partNames.key.test(name)) found.key.set(layer, source);
    if (partNames.value.test(name)) found.value.set(layer, source);
    if (!mergedName.test(name)) continue;
    // Separate scales take precedence over a merged one.
    if (!found.key.has(layer)) found.key.set(layer, source);
    if (!found.value.has(layer)) found.value.set(layer, source);
  }
  if (found.key.size === 0 && found.value.size === 0) return null;
  const { layers } = cache;
  return {
    key: scalesOf("key", found.key, layers),
    value: scalesOf("value", found.value, layers),
  };
}

/** fp8 unless the config specifies a cache that was calibrated for integers. */
function calibratedFormat(config: JsonConfig): KvFormat {
  const scheme = fieldOf(fieldOf(config, "quantization_config"), "kv_cache_scheme");
  return fieldOf(scheme, "type") === "int" ? "i8" : "fp8";
}

function fieldOf(value: unknown, name: string): unknown {
  if (typeof value !== "object" || value === null) return undefined;
  return Object.entries(value).find(([key]) => key === name)?.[1];
}

function scalesOf(
  part: Part,
  sources: ReadonlyMap<number, WeightSource>,
  layers: number,
): Float32Array {
  return Float32Array.from({ length: layers }, (_, layer) => {
    const source = sources.get(layer);
    if (source === undefined) throw missing(part, layer, sources.size, layers);
    return scaleIn(source);
  });
}

function scaleIn(source: WeightSource): number {
  if (elementCount(source.shape) !== 1) {
    throw new EngineError(
      "CHECKPOINT_INVALID",
      `Cannot load ${source.name}: one scale per layer is wanted, ` +
        `current shape is ${formatShape(source.shape)}; ${remedy}`,
      { param: source.name },
    );
  }
  const [scale = Number.NaN] = decodeFloats(source.bytes(), source.dtype);
  if (scale > 0 && Number.isFinite(scale)) return scale;
  throw new EngineError(
    "CHECKPOINT_INVALID",
    `Cannot load ${source.name}: a scale must be positive, current value is ${scale}; ${remedy}`,
    { param: source.name },
  );
}

const remedy = "calibrate the model again, or remove the cache's scales from its files";

function missing(part: Part, layer: number, found: number, layers: number): EngineError {
  return new EngineError(
    "CHECKPOINT_INVALID",
    `Cannot load the cache's scales: a ${part} scale for each of ${layers} layers is wanted, ` +
      `there are ${found} and none for layer ${layer}; ${remedy}`,
    { param: part === "key" ? "k_scale" : "v_scale" },
  );
}
