/** How a cross-encoder's output becomes a score: what sentence-transformers' CrossEncoder does. */
import { EngineError } from "#base";
import type { JsonConfig } from "./config.ts";
import type { EncoderSpec } from "./encoder-spec.ts";
import type { SentenceSource } from "./pooling-config.ts";

/** What turns a head's output into a score. */
export type ScoreActivation = "sigmoid" | "none";

const ACTIVATIONS: Readonly<Record<string, ScoreActivation>> = {
  "torch.nn.modules.activation.Sigmoid": "sigmoid",
  "torch.nn.modules.linear.Identity": "none",
};

/**
 * The activation of a model whose folder makes it a cross-encoder: it has a head of one label, and
 * no modules that pool. Null: it is none. Throws UNSUPPORTED_MODEL for another activation.
 */
export function scoreActivation(
  { head }: EncoderSpec,
  config: JsonConfig,
  source: SentenceSource | null,
): ScoreActivation | null {
  if (head === null) return null;
  const { modules = null, settings = null } = source ?? {};
  if (modules !== null && settings?.model_type !== "CrossEncoder") return null;
  const newer = field(config.sentence_transformers, "activation_fn");
  const named =
    settings?.activation_fn ?? newer ?? config.sbert_ce_default_activation_function ?? null;
  if (named === null) return "sigmoid";
  const known = ACTIVATIONS[String(named)];
  if (known !== undefined) return known;
  throw new EngineError(
    "UNSUPPORTED_MODEL",
    `Cannot score with this model: the activation of its scores must be one of ` +
      `${Object.keys(ACTIVATIONS).join(", ")}, current value is ${String(named)}`,
    { param: "activation_fn" },
  );
}

function field(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined;
}
