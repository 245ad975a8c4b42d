import { EngineError } from "#base";
import type { Shape } from "#tensor";
import type { WeightSupply } from "../weight-loader.ts";

/** A drafter's files. */
export interface DrafterFiles {
  readonly path: string;
  readonly tensors: WeightSupply;
  /** Tables of integers, by name. */
  readonly integers: ReadonlyMap<string, IntegerTable>;
}

/** Integers of a file. */
export interface IntegerTable {
  readonly shape: Shape;
  values(): Int32Array;
}

/** Distances from drafted tokens to the base's, as EAGLE-3's checkpoints have them. */
const TOKEN_MAP = "d2t";

/** The base's token of each drafted one; null: the same. Throws CHECKPOINT_INVALID. */
export function tokenMapOf(
  {
    draftVocabularySize: drafted,
    vocabularySize,
  }: { readonly draftVocabularySize: number; readonly vocabularySize: number },
  { path, integers }: Pick<DrafterFiles, "path" | "integers">,
): Int32Array | null {
  const table = integers.get(TOKEN_MAP);
  if (table === undefined && drafted === vocabularySize) return null;
  if (table?.shape.length !== 1 || table.shape[0] !== drafted) {
    const found = table === undefined ? "missing" : `[${table.shape.join(", ")}]`;
    throw invalidMap(path, `must be integers [${drafted}], current value is ${found}`);
  }
  const map = table.values().map((distance, token) => token + distance);
  const wrong = map.findIndex((token) => token < 0 || token >= vocabularySize);
  if (wrong >= 0) {
    const limit = `must map to tokens below ${vocabularySize}`;
    throw invalidMap(path, `${limit}, element ${wrong} maps to ${map[wrong]}`);
  }
  return map;
}

function invalidMap(path: string, what: string): EngineError {
  const message = `Cannot load ${path}: tensor ${TOKEN_MAP} ${what}`;
  return new EngineError("CHECKPOINT_INVALID", message, { param: `tensor ${TOKEN_MAP}` });
}
