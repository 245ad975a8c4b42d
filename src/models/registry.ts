import { EngineError } from "#base";
import type { Architecture, Model } from "./architecture.ts";
import { bert } from "./architectures/bert.ts";
import { gemma2 } from "./architectures/gemma2.ts";
import { gpt2 } from "./architectures/gpt2.ts";
import { llama } from "./architectures/llama.ts";
import { mistral } from "./architectures/mistral.ts";
import { mixtral } from "./architectures/mixtral.ts";
import { modernBert } from "./architectures/modern-bert.ts";
import { nomicBert } from "./architectures/nomic-bert.ts";
import { opt } from "./architectures/opt.ts";
import { phi } from "./architectures/phi.ts";
import { phi3 } from "./architectures/phi3.ts";
import { qwen2 } from "./architectures/qwen2.ts";
import { qwen3 } from "./architectures/qwen3.ts";
import { qwen3Moe } from "./architectures/qwen3-moe.ts";
import { roberta } from "./architectures/roberta.ts";
import { type JsonConfig, ModelTypeConfig, parseConfig, quoted } from "./config.ts";

const architectures: readonly Architecture[] = [
  bert,
  gemma2,
  gpt2,
  llama,
  mistral,
  mixtral,
  modernBert,
  nomicBert,
  opt,
  phi,
  phi3,
  qwen2,
  qwen3,
  qwen3Moe,
  roberta,
];

/** Every `model_type` that can be run, sorted. */
export const modelTypes: readonly string[] = architectures
  .flatMap((architecture) => architecture.modelTypes)
  .sort();

/**
 * The model that a config.json describes. Throws UNSUPPORTED_MODEL, which lists what is supported,
 * and CHECKPOINT_INVALID, which names the wrong field.
 */
export function describeModel(config: JsonConfig): Model {
  const { model_type: modelType } = parseConfig(ModelTypeConfig, config);
  const found = architectures.find(({ modelTypes }) => modelTypes.includes(modelType));
  if (found !== undefined) return found.describe(config);
  throw new EngineError(
    "UNSUPPORTED_MODEL",
    `Cannot run this model: model_type must be one of ${modelTypes.join(", ")}, ` +
      `current value is ${quoted(modelType)}`,
    { param: "model_type" },
  );
}
