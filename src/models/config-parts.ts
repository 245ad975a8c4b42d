/** Parts of configs that several families read in the same way. */
import type { ActivationKind } from "#devices";
import { type DecoderConfig, invalidConfig, unsupportedConfig } from "./config.ts";

/** Hugging Face's names of activations. */
const activationKinds: ReadonlyMap<string, ActivationKind> = new Map([
  ["silu", "silu"],
  ["swish", "silu"],
  ["gelu", "gelu"],
  ["gelu_new", "gelu-tanh"],
  ["gelu_fast", "gelu-tanh"],
  ["gelu_pytorch_tanh", "gelu-tanh"],
  ["relu", "relu"],
]);

/** The activation called `name`, which came from `field`. */
export function activationOf(field: string, name: string): ActivationKind {
  const kind = activationKinds.get(name);
  if (kind !== undefined) return kind;
  throw unsupportedConfig(field, `one of ${[...activationKinds.keys()].join(", ")}`, name);
}

/** Tokens that end an output. A family's default may lie beyond a small vocabulary. */
export function endTokensOf(config: {
  readonly eos_token_id: readonly number[];
  readonly vocab_size: number;
}): readonly number[] {
  return config.eos_token_id.filter((id) => id < config.vocab_size);
}

export interface HeadShape {
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
}

/** Head counts and size, with defaults filled in and checked against each other. */
export function headShapeOf(config: {
  readonly hidden_size: number;
  readonly num_attention_heads: number;
  readonly num_key_value_heads?: number | null | undefined;
  readonly head_dim?: number | null | undefined;
}): HeadShape {
  const heads = config.num_attention_heads;
  const kvHeads = config.num_key_value_heads ?? heads;
  const headDim = config.head_dim ?? config.hidden_size / heads;
  if (!Number.isInteger(headDim)) {
    throw invalidConfig("num_attention_heads", `a divisor of ${config.hidden_size}`, heads);
  }
  if (heads % kvHeads !== 0) {
    throw invalidConfig("num_key_value_heads", `a divisor of ${heads}`, kvHeads);
  }
  return { heads, kvHeads, headDim };
}

/**
 * The window of each layer: by `layer_types`, else by `slides(layer)`. Null: none. The size is
 * `sliding_window`.
 */
export function windowsOf(
  config: DecoderConfig,
  slides: (layer: number) => boolean,
): (number | null)[] {
  const { layer_types: types, num_hidden_layers: layers, sliding_window: window } = config;
  if (types && types.length !== layers) {
    throw invalidConfig("layer_types", `${layers} entries`, types.length);
  }
  return Array.from({ length: layers }, (_, layer) => {
    const sliding = types ? isSliding(types[layer]) : slides(layer);
    if (!sliding) return null;
    if (!window) throw invalidConfig("sliding_window", "a number of tokens", window);
    return window;
  });
}

function isSliding(type: string | undefined): boolean {
  if (type === "sliding_attention") return true;
  if (type === "full_attention") return false;
  throw unsupportedConfig("layer_types", "sliding_attention or full_attention", type);
}
