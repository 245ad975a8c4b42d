import type { Architecture } from "../architecture.ts";
import { DecoderConfig, parseConfig } from "../config.ts";
import { llamaLikeNames, llamaLikeSpec } from "./llama-like.ts";

/** Defaults of fields that the config leaves out. */
const defaults = { eos_token_id: 2 };

/** Llama 1 to 3, and models with the same layout: SmolLM, TinyLlama, Yi, the bundled model. */
export const llama: Architecture = {
  modelTypes: ["llama"],
  describe(json) {
    const config = parseConfig(DecoderConfig, { ...defaults, ...json });
    const attentionBias = config.attention_bias ?? false;
    const names = llamaLikeNames({
      qkvBias: attentionBias,
      outputBias: attentionBias,
      mlpBias: config.mlp_bias ?? false,
    });
    return { kind: "decoder", spec: llamaLikeSpec(config), names };
  },
};
