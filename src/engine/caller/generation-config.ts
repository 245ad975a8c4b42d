import type { SamplingOptions } from "#sampling";

/** Sampling fields that a model's authors recommend. */
export type SamplingDefaults = Pick<
  SamplingOptions,
  "temperature" | "topP" | "topK" | "minP" | "repetitionPenalty"
>;

const FIELDS = {
  temperature: "temperature",
  top_p: "topP",
  top_k: "topK",
  min_p: "minP",
  repetition_penalty: "repetitionPenalty",
} as const;

/** Reads generation_config.json. Ignores `do_sample`, as vLLM does. */
export function defaultSamplingFrom(
  config: Readonly<Record<string, unknown>> | null,
): SamplingDefaults {
  const defaults: Record<string, number> = {};
  for (const [theirs, ours] of Object.entries(FIELDS)) {
    const value = config?.[theirs];
    if (typeof value === "number" && Number.isFinite(value)) defaults[ours] = value;
  }
  return defaults;
}
