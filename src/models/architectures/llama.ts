import type { Architecture } from "../architecture.ts";
import { DecoderConfig, parseConfig } from "../config.ts";
import { llamaLikeNames, llamaLikeSpec } from "./llama-like.ts";

/** What a config without these fields means. */
const defaults = { eos_token_id: 2 };

/** Llama 1 to 3, and what is made in its image: SmolLM, TinyLlama, Yi, the bundled model. */
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
