import type { Architecture } from "../architecture.ts";
import { MixtralConfig, parseConfig } from "../config.ts";
import { activationOf, windowsOf } from "../config-parts.ts";
import type { FeedForwardNames } from "../weight-names.ts";
import { linearNames, llamaLikeNames, llamaLikeSpec } from "./llama-like.ts";

/** Defaults of fields that the config leaves out. */
const defaults = { num_key_value_heads: 8, rms_norm_eps: 1e-5, eos_token_id: 2 };

/** Mixtral: Mistral with experts in every layer. */
export const mixtral: Architecture = {
  modelTypes: ["mixtral"],
  describe(json) {
    const config = parseConfig(MixtralConfig, { ...defaults, ...json });
    const spec = llamaLikeSpec(config, {
      windows: windowsOf(config, () => Boolean(config.sliding_window)),
      ropeTheta: 1e6,
      feedForward: () => ({
        kind: "experts",
        size: config.intermediate_size,
        experts: config.num_local_experts,
        expertsPerToken: config.num_experts_per_tok,
        normalize: true,
        activation: activationOf("hidden_act", config.hidden_act),
      }),
    });
    const names = llamaLikeNames({ feedForward: (_, layer) => expertNames(layer) });
    return { kind: "decoder", spec, names };
  },
};

/** w1 is the gate projection, w3 up, w2 down. */
function expertNames(layer: string): FeedForwardNames {
  const module = `${layer}.block_sparse_moe`;
  return {
    kind: "experts",
    router: linearNames([`${module}.gate`]),
    expert: (index) => ({
      input: linearNames([`${module}.experts.${index}.w1`, `${module}.experts.${index}.w3`]),
      output: linearNames([`${module}.experts.${index}.w2`]),
    }),
  };
}
