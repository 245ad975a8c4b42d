import type { Architecture } from "../architecture.ts";
import { DecoderConfig, parseConfig } from "../config.ts";
import { windowsOf } from "../config-parts.ts";
import { llamaLikeNames, llamaLikeSpec } from "./llama-like.ts";

/** What a config without the field means; null means no window. */
const defaultWindow = 4096;

/** Mistral: Llama, with a window in every layer. */
export const mistral: Architecture = {
  modelTypes: ["mistral"],
  describe(json) {
    const config = parseConfig(DecoderConfig, { sliding_window: defaultWindow, ...json });
    const windows = windowsOf(config, () => Boolean(config.sliding_window));
    return { kind: "decoder", spec: llamaLikeSpec(config, { windows }), names: llamaLikeNames() };
  },
};
