import { EngineError } from "#base";

/**
 * The first `dimensions` elements, made length 1; a vector of zeros stays as it is. Throws
 * ENGINE_STEP_FAILED for elements that are no finite numbers.
 */
export function unitVector(vector: Float32Array, dimensions = vector.length): Float32Array {
  const kept = vector.length > dimensions ? vector.subarray(0, dimensions) : vector;
  let sum = 0;
  for (const value of kept) sum += value * value;
  if (!Number.isFinite(sum)) {
    throw new EngineError(
      "ENGINE_STEP_FAILED",
      "Cannot use a vector: all of its elements must be finite numbers, some are not",
    );
  }
  const scale = sum > 0 ? 1 / Math.sqrt(sum) : 0;
  return kept.map((value) => value * scale);
}
