import type { Architecture } from "../architecture.ts";
import { PhiConfig, parseConfig, unsupportedConfig } from "../config.ts";
import { activationOf } from "../config-parts.ts";
import type { DecoderNames, LayerNames } from "../weight-names.ts";
import { linearNames, llamaLikeSpec } from "./llama-like.ts";

/** Defaults of fields that the config leaves out. */
const defaults = { hidden_act: "gelu_new", eos_token_id: 2 };

/** Phi-1, 1.5 and 2: attention and feed-forward in parallel, rope on a part of each head. */
export const phi: Architecture = {
  modelTypes: ["phi"],
  describe(json) {
    const config = parseConfig(PhiConfig, { ...defaults, ...json });
    if (config.qk_layernorm === true) throw unsupportedConfig("qk_layernorm", "false", true);
    const spec = llamaLikeSpec(config, {
      rotaryFactor: 0.5,
      feedForward: () => ({
        kind: "dense",
        size: config.intermediate_size,
        activation: activationOf("hidden_act", config.hidden_act),
        gated: false,
      }),
    });
    const norm = { kind: "layer", epsilon: config.layer_norm_eps, weightOffset: 0 } as const;
    return { kind: "decoder", spec: { ...spec, norm }, names };
  },
};

const names: DecoderNames = {
  optionalPrefix: "model.",
  tokens: "model.embed_tokens",
  layer: layerNames,
  finalNorm: "model.final_layernorm",
  head: linearNames(["lm_head"], true),
};

function layerNames(index: number): LayerNames {
  const layer = `model.layers.${index}`;
  const projections = ["q_proj", "k_proj", "v_proj"].map((name) => `${layer}.self_attn.${name}`);
  return {
    attentionNorm: `${layer}.input_layernorm`,
    qkv: linearNames(projections, true),
    attentionOutput: linearNames([`${layer}.self_attn.dense`], true),
    feedForward: {
      kind: "dense",
      input: linearNames([`${layer}.mlp.fc1`], true),
      output: linearNames([`${layer}.mlp.fc2`], true),
    },
  };
}
