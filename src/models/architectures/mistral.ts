import type { Architecture } from "../architecture.ts";
import { DecoderConfig, parseConfig } from "../config.ts";
import { windowsOf } from "../config-parts.ts";
import { llamaLikeNames, llamaLikeSpec } from "./llama-like.ts";

/** Defaults of fields that the config leaves out; a window of null is none. */
const defaults = { sliding_window: 4096, num_key_value_heads: 8, eos_token_id: 2 };

/** Mistral: Llama, with a window in every layer. */
export const mistral: Architecture = {
  modelTypes: ["mistral"],
  describe(json) {
    const config = parseConfig(DecoderConfig, { ...defaults, ...json });
    const windows = windowsOf(config, () => Boolean(config.sliding_window));
    return { kind: "decoder", spec: llamaLikeSpec(config, { windows }), names: llamaLikeNames() };
  },
};
