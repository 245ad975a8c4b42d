/** Small whole models as GGUF files, of every type: random blocks, see bench/gguf-blocks.mjs. */
import { join } from "node:path";
import { BLOCK_FILE_TYPES } from "../../bench/gguf-blocks.mjs";
import { writeRandomModel } from "../../bench/random-gguf.mjs";
import { SHAPES } from "../../bench/shapes.mjs";

/** Types of files: those of all their matrices, and mixtures. Vectors are always f32. */
export const GGUF_FILE_TYPES: readonly string[] = [...["f32", "f16", "bf16"], ...BLOCK_FILE_TYPES];

/**
 * Writes a Llama of 2 layers, 256 wide, with a byte-level vocabulary of 320 tokens, to `folder`;
 * its matrices have a standard deviation near 0.02. Returns the file's path.
 */
export function randomGguf(folder: string, type: string): string {
  const path = join(folder, `random-${type}.gguf`);
  writeRandomModel(SHAPES.blocks, `random ${type}`, { [type]: path }, { deviation: 0.02 });
  return path;
}
