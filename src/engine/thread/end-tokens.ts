import { EngineError } from "#base";
import type { Checkpoint } from "#checkpoint";

/** End tokens of config.json and generation_config.json together. Throws CHECKPOINT_INVALID. */
export function endTokens(
  fromConfig: readonly number[],
  generationConfig: Checkpoint["generationConfig"],
): number[] {
  const value = generationConfig?.eos_token_id;
  const more = Array.isArray(value) ? value : value === undefined || value === null ? [] : [value];
  if (!more.every((id): id is number => Number.isInteger(id))) {
    throw new EngineError(
      "CHECKPOINT_INVALID",
      "Cannot read generation_config.json: eos_token_id must be an id or a list of ids",
      { param: "eos_token_id" },
    );
  }
  return [...new Set([...fromConfig, ...more])];
}
