import type { Architecture } from "../architecture.ts";
import { DecoderConfig, parseConfig } from "../config.ts";
import { llamaLikeNames, llamaLikeSpec } from "./llama-like.ts";
import { qwenDefaults, qwenWindows } from "./qwen2.ts";

/** Qwen 3: Llama with norms on query and key heads. */
export const qwen3: Architecture = {
  modelTypes: ["qwen3"],
  describe(json) {
    const config = parseConfig(DecoderConfig, { ...qwenDefaults, head_dim: 128, ...json });
    const bias = config.attention_bias ?? false;
    const spec = llamaLikeSpec(config, { windows: qwenWindows(config), queryKeyNorm: true });
    const names = llamaLikeNames({ qkvBias: bias, outputBias: bias, queryKeyNorm: true });
    return { kind: "decoder", spec, names };
  },
};
