import type { Architecture } from "../architecture.ts";
import { DecoderConfig, type JsonConfig, parseConfig } from "../config.ts";
import { windowsOf } from "../config-parts.ts";
import type { DecoderNames, LayerNames } from "../weight-names.ts";
import { linearNames, llamaLikeNames, llamaLikeSpec } from "./llama-like.ts";

/** Defaults of fields that the config leaves out. */
const defaults = {
  ...{ original_max_position_embeddings: 4096, rms_norm_eps: 1e-5, eos_token_id: 32_000 },
};

/** Phi-3, 3.5 and 4: Llama with its matrices already stacked, and LongRoPE. */
export const phi3: Architecture = {
  modelTypes: ["phi3"],
  describe(json) {
    const config = parseConfig(DecoderConfig, withLongrope({ ...defaults, ...json }));
    const windows = windowsOf(config, () => Boolean(config.sliding_window));
    return { kind: "decoder", spec: llamaLikeSpec(config, { windows }), names };
  },
};

/** In this family's first configs `yarn` and `su` always mean LongRoPE. */
function withLongrope(json: JsonConfig): JsonConfig {
  const isYarn = (rope: unknown): rope is JsonConfig =>
    typeof rope === "object" &&
    rope !== null &&
    (Reflect.get(rope, "rope_type") ?? Reflect.get(rope, "type")) === "yarn";
  const renamed = ["rope_scaling", "rope_parameters"].flatMap((field) => {
    const rope = json[field];
    return isYarn(rope) ? [[field, { ...rope, rope_type: "longrope" }] as const] : [];
  });
  return { ...json, ...Object.fromEntries(renamed) };
}

const names: DecoderNames = { ...llamaLikeNames(), layer: layerNames };

function layerNames(index: number): LayerNames {
  const layer = `model.layers.${index}`;
  return {
    ...llamaLikeNames().layer(index),
    qkv: linearNames([`${layer}.self_attn.qkv_proj`]),
    feedForward: {
      kind: "dense",
      input: linearNames([`${layer}.mlp.gate_up_proj`]),
      output: linearNames([`${layer}.mlp.down_proj`]),
    },
  };
}
