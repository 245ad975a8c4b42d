import type { Architecture } from "../architecture.ts";
import { DecoderConfig, parseConfig } from "../config.ts";
import { windowsOf } from "../config-parts.ts";
import { llamaLikeNames, llamaLikeSpec } from "./llama-like.ts";

/** Defaults of Qwen 2 and 3 for fields that the config leaves out; windows must also be enabled. */
export const qwenDefaults = {
  ...{ num_key_value_heads: 32, sliding_window: 4096, max_window_layers: 28 },
};

/** Qwen 1.5, 2 and 2.5: Llama with biases on queries, keys and values. */
export const qwen2: Architecture = {
  modelTypes: ["qwen2"],
  describe(json) {
    const config = parseConfig(DecoderConfig, { ...qwenDefaults, ...json });
    const spec = llamaLikeSpec(config, { windows: qwenWindows(config) });
    return { kind: "decoder", spec, names: llamaLikeNames({ qkvBias: true }) };
  },
};

/** Windows only where they are enabled, from layer `max_window_layers` on. */
export function qwenWindows(config: DecoderConfig): (number | null)[] {
  const on = config.use_sliding_window === true && Boolean(config.sliding_window);
  return windowsOf(config, (layer) => on && layer >= (config.max_window_layers ?? 0));
}
