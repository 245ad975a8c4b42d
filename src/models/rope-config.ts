import {
  invalidConfig,
  type RopeConfig,
  type RopeParameters,
  unsupportedConfig,
} from "./config.ts";
import type { RopeScaling, RopeSpec } from "./decoder-spec.ts";

export interface RopeDefaults {
  readonly headDim: number;
  readonly theta: number;
  /** Share of a head that is rotated. */
  readonly rotaryFactor?: number;
}

/** Rope from a config of either dialect. */
export function ropeFrom(config: RopeConfig, defaults: RopeDefaults): RopeSpec {
  const parameters = parametersOf(config);
  const rotaryFactor =
    parameters.partial_rotary_factor ?? config.partial_rotary_factor ?? defaults.rotaryFactor ?? 1;
  const rotaryDim = Math.floor(defaults.headDim * rotaryFactor);
  if (rotaryDim % 2 !== 0 || rotaryDim === 0) {
    throw invalidConfig("partial_rotary_factor", "an even number of dimensions", rotaryDim);
  }
  return {
    kind: "rope",
    rotaryDim,
    theta: parameters.rope_theta ?? config.rope_theta ?? defaults.theta,
    scaling: scalingFrom(parameters, config, rotaryDim),
  };
}

/** The older name takes precedence where both exist; an empty object counts as none. */
function parametersOf(config: RopeConfig): RopeParameters {
  const said = [config.rope_scaling, config.rope_parameters].find(
    (found) => found && Object.keys(found).length > 0,
  );
  for (const type of config.layer_types ?? []) {
    if (said && Object.hasOwn(said, type)) {
      throw unsupportedConfig("rope_parameters", "the same for all layers", Object.keys(said));
    }
  }
  return said ?? {};
}

/** Positions that a model can use. Configs often enable YaRN without the new length. */
export function contextTokensOf(config: RopeConfig, { scaling }: RopeSpec): number {
  const trained = config.max_position_embeddings;
  if (scaling.kind !== "yarn") return trained;
  return Math.max(trained, Math.floor(scaling.originalContextTokens * scaling.factor));
}

function scalingFrom(
  parameters: RopeParameters,
  config: RopeConfig,
  rotaryDim: number,
): RopeScaling {
  const kind = parameters.rope_type ?? parameters.type ?? "default";
  switch (kind) {
    case "default":
    // Changes nothing up to max_position_embeddings, which is the limit here.
    case "dynamic":
      return { kind: "default" };
    case "linear":
      return { kind: "linear", factor: wanted(parameters, "factor") };
    case "llama3":
      return {
        kind: "llama3",
        originalContextTokens: originalTokensOf(parameters, config),
        factor: wanted(parameters, "factor"),
        lowFrequencyFactor: wanted(parameters, "low_freq_factor"),
        highFrequencyFactor: wanted(parameters, "high_freq_factor"),
      };
    case "yarn":
      return yarnFrom(parameters, config);
    case "longrope":
    case "su": // the name in Phi-3's first configs
      return longropeFrom(parameters, config, rotaryDim);
    default:
      throw unsupportedConfig(
        "rope_type",
        "one of default, linear, dynamic, llama3, yarn, longrope",
        kind,
      );
  }
}

function yarnFrom(parameters: RopeParameters, config: RopeConfig): RopeScaling {
  const originalContextTokens = originalTokensOf(parameters, config);
  const factor = parameters.factor ?? config.max_position_embeddings / originalContextTokens;
  return {
    kind: "yarn",
    factor,
    betaFast: parameters.beta_fast ?? 32,
    betaSlow: parameters.beta_slow ?? 1,
    truncate: parameters.truncate ?? true,
    attentionFactor: parameters.attention_factor ?? yarnAttentionFactor(parameters, factor),
    originalContextTokens,
  };
}

/**
 * The length before stretching: the config's own field takes precedence over that of the
 * parameters.
 */
function originalTokensOf(parameters: RopeParameters, config: RopeConfig): number {
  return (
    config.original_max_position_embeddings ??
    parameters.original_max_position_embeddings ??
    config.max_position_embeddings
  );
}

/** YaRN's temperature; DeepSeek's `mscale` pair replaces it by a ratio. */
function yarnAttentionFactor(parameters: RopeParameters, factor: number): number {
  const temperature = (mscale: number): number =>
    factor <= 1 ? 1 : 0.1 * mscale * Math.log(factor) + 1;
  const { mscale, mscale_all_dim: mscaleAll } = parameters;
  if (mscale && mscaleAll) return temperature(mscale) / temperature(mscaleAll);
  return temperature(1);
}

/** LongRoPE; the default factor is the ratio of the stretched context to the original one. */
function longropeFrom(
  parameters: RopeParameters,
  config: RopeConfig,
  rotaryDim: number,
): RopeScaling {
  const original = originalTokensOf(parameters, config);
  const stretch = parameters.factor ?? config.max_position_embeddings / original;
  const attentionFactor = stretch <= 1 ? 1 : Math.sqrt(1 + Math.log(stretch) / Math.log(original));
  return {
    kind: "longrope",
    shortFactors: factorsOf(parameters, "short_factor", rotaryDim / 2),
    longFactors: factorsOf(parameters, "long_factor", rotaryDim / 2),
    attentionFactor: parameters.attention_factor ?? attentionFactor,
    originalContextTokens: original,
  };
}

function factorsOf(
  parameters: RopeParameters,
  field: "short_factor" | "long_factor",
  count: number,
): readonly number[] {
  const factors = parameters[field];
  if (factors?.length === count) return factors;
  throw invalidConfig(`rope_scaling.${field}`, `${count} numbers`, factors?.length);
}

function wanted(
  parameters: RopeParameters,
  field: "factor" | "low_freq_factor" | "high_freq_factor",
): number {
  const value = parameters[field];
  if (value === undefined || value === null) {
    const kind = parameters.rope_type ?? parameters.type;
    throw invalidConfig(`rope_scaling.${field}`, `a number with rope type ${kind}`, value);
  }
  return value;
}
