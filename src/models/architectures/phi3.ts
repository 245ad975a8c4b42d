import type { Architecture } from "../architecture.ts";
import { DecoderConfig, parseConfig } from "../config.ts";
import { windowsOf } from "../config-parts.ts";
import type { DecoderNames, LayerNames } from "../weight-names.ts";
import { linearNames, llamaLikeNames, llamaLikeSpec } from "./llama-like.ts";

/** Phi-3, 3.5 and 4: Llama with its matrices already stacked, and LongRoPE. */
export const phi3: Architecture = {
  modelTypes: ["phi3"],
  describe(json) {
    const config = parseConfig(DecoderConfig, json);
    const windows = windowsOf(config, () => Boolean(config.sliding_window));
    return { kind: "decoder", spec: llamaLikeSpec(config, { windows }), names };
  },
};

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
