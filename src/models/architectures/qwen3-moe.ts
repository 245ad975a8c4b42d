import type { Architecture } from "../architecture.ts";
import { invalidConfig, parseConfig, Qwen3MoeConfig } from "../config.ts";
import { activationOf, windowsOf } from "../config-parts.ts";
import type { FeedForwardSpec } from "../decoder-spec.ts";
import type { FeedForwardNames } from "../weight-names.ts";
import {
  denseFeedForward,
  gatedNames,
  linearNames,
  llamaLikeNames,
  llamaLikeSpec,
} from "./llama-like.ts";

/** Defaults of fields that the config leaves out; the window must also be enabled. */
const defaults = { num_key_value_heads: 4, sliding_window: 4096 };

/** Qwen 3 with experts in all layers except those that the config lists. */
export const qwen3Moe: Architecture = {
  modelTypes: ["qwen3_moe"],
  describe(json) {
    const config = parseConfig(Qwen3MoeConfig, { ...defaults, ...json });
    const bias = config.attention_bias ?? false;
    const slides = config.use_sliding_window === true && Boolean(config.sliding_window);
    const experts = expertsOf(config);
    const spec = llamaLikeSpec(config, {
      windows: windowsOf(config, () => slides),
      queryKeyNorm: true,
      feedForward: (layer) => (isSparse(config, layer) ? experts : denseFeedForward(config)),
    });
    const names = llamaLikeNames({
      qkvBias: bias,
      outputBias: bias,
      queryKeyNorm: true,
      feedForward: (index, layer) =>
        isSparse(config, index) ? expertNames(`${layer}.mlp`) : gatedNames(`${layer}.mlp`),
    });
    return { kind: "decoder", spec, names };
  },
};

function isSparse(config: Qwen3MoeConfig, layer: number): boolean {
  return !config.mlp_only_layers.includes(layer) && (layer + 1) % config.decoder_sparse_step === 0;
}

function expertsOf(config: Qwen3MoeConfig): FeedForwardSpec {
  // transformers 4 writes `num_experts`, 5 writes `num_local_experts`.
  const experts = config.num_experts ?? config.num_local_experts;
  if (!experts) throw invalidConfig("num_experts", "a number of experts", experts);
  return {
    kind: "experts",
    size: config.moe_intermediate_size,
    experts,
    expertsPerToken: config.num_experts_per_tok,
    normalize: config.norm_topk_prob,
    activation: activationOf("hidden_act", config.hidden_act),
  };
}

function expertNames(module: string): FeedForwardNames {
  return {
    kind: "experts",
    router: linearNames([`${module}.gate`]),
    expert: (index) => gatedNames(`${module}.experts.${index}`),
  };
}
