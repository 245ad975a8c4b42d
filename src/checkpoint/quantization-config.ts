/** How a checkpoint's matrices are quantised, as `quantization_config` of config.json says. */
import { EngineError, valueText } from "#base";
import { compressedQuantization } from "./compressed-config.ts";
import type { JsonObject } from "./json-text.ts";
import { QuantizationFields } from "./quantization-fields.ts";
import type {
  AwqQuantization,
  GptqQuantization,
  WeightQuantization,
} from "./weight-quantization.ts";

/** Families whose modules keep matrices the other way round, which quantisers turn. */
const TURNED_FAMILIES: ReadonlySet<unknown> = new Set(["gpt2"]);

/**
 * Null: weights are floats. Throws UNSUPPORTED_MODEL for a scheme that is not read, and
 * CHECKPOINT_INVALID for one that makes no sense.
 */
export function weightQuantization(path: string, config: JsonObject): WeightQuantization | null {
  const given = config.quantization_config ?? config.compression_config;
  if (given === undefined || given === null) return null;
  const fields = new QuantizationFields(path, given);
  if (quantizesCacheOnly(fields)) return null;
  const scheme = schemeOf(fields);
  if (!TURNED_FAMILIES.has(config.model_type)) return scheme;
  throw new EngineError(
    "UNSUPPORTED_MODEL",
    `Cannot load ${path}: models of type ${valueText(config.model_type)} must not be quantised ` +
      `by other tools, current value is ${scheme.method}; use the unquantised checkpoint ` +
      '(quantization: "int8", --quantization int8, quantises it at load) or a GGUF',
    { param: "quantization_config" },
  );
}

function schemeOf(fields: QuantizationFields): WeightQuantization {
  switch (fields.of("quant_method")) {
    case "awq":
      return awq(fields);
    case "gptq":
      return gptq(fields);
    case "compressed-tensors":
      return compressedQuantization(fields);
    default:
      throw fields.refused("quant_method", "must be awq, gptq or compressed-tensors");
  }
}

function awq(fields: QuantizationFields): AwqQuantization {
  const version = fields.first("version", "format", "checkpoint_format");
  if (version.value !== undefined && String(version.value).toLowerCase() !== "gemm") {
    throw fields.refused(version.name, "must be gemm");
  }
  const bits = fields.first("bits", "w_bit");
  if (bits.value !== 4) throw fields.refused(bits.name, "must be 4");
  // Without zeros AutoAWQ writes another layout.
  if (fields.of("zero_point") === false) throw fields.refused("zero_point", "must be true");
  const group = fields.first("group_size", "q_group_size").name;
  return { method: "awq", bits: 4, groupColumns: fields.groupColumns(group) };
}

function gptq(fields: QuantizationFields): GptqQuantization {
  const bits = fields.of("bits");
  if (bits !== 4 && bits !== 8) throw fields.refused("bits", "must be 4 or 8");
  const format = fields.first("checkpoint_format", "format");
  const version = format.value ?? "gptq";
  if (version !== "gptq" && version !== "gptq_v2") {
    throw fields.refused(format.name, "must be gptq or gptq_v2");
  }
  if (fields.of("is_marlin_format") === true) {
    throw fields.refused("is_marlin_format", "must be false");
  }
  if ((fields.of("pack_dtype") ?? "int32") !== "int32") {
    throw fields.refused("pack_dtype", "must be int32");
  }
  refuseOtherSchemes(fields);
  return {
    method: "gptq",
    bits,
    groupColumns: fields.groupColumns("group_size"),
    zerosLessOne: version === "gptq",
  };
}

/** GPTQModel's `dynamic` excludes modules ("-:"), or quantises some of them otherwise. */
function refuseOtherSchemes(fields: QuantizationFields): void {
  const rules = fields.of("dynamic");
  if (typeof rules !== "object" || rules === null) return;
  const other = Object.keys(rules).find((rule) => !rule.startsWith("-:"));
  if (other === undefined) return;
  throw fields.refused("dynamic", "must only exclude modules (-:)", other);
}

/**
 * Whether only the KV cache is quantised: llm-compressor with a scheme for the cache and no other.
 */
function quantizesCacheOnly(fields: QuantizationFields): boolean {
  const groups = fields.of("config_groups");
  const ofCache = fields.of("kv_cache_scheme");
  const none = typeof groups === "object" && groups !== null && Object.keys(groups).length === 0;
  return none && typeof ofCache === "object" && ofCache !== null;
}
