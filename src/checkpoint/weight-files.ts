/** The safetensors files of a Hugging Face directory: one, or shards with an index. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { EngineError } from "#base";
import type { FileBytes } from "./file-bytes.ts";
import { invalidFile } from "./invalid-file.ts";
import { readJsonObject } from "./json-text.ts";
import { openFileBytes } from "./mapped-file.ts";
import type { NamedIntegers, NamedWeight } from "./named-weight.ts";
import { readSafetensors } from "./safetensors.ts";

const SINGLE_NAME = "model.safetensors";
const INDEX_NAME = "model.safetensors.index.json";

/** Weights and their files. */
export interface OpenWeights {
  readonly tensors: ReadonlyMap<string, NamedWeight>;
  readonly integers: ReadonlyMap<string, NamedIntegers>;
  readonly files: readonly FileBytes[];
}

/** Whether a directory has weights that `openDirectoryWeights` supports. */
export function hasSafetensors(directory: string): boolean {
  return existsSync(join(directory, INDEX_NAME)) || existsSync(join(directory, SINGLE_NAME));
}

/** Opens all shards of a directory. On failure no file stays open. */
export function openDirectoryWeights(directory: string): OpenWeights {
  const indexPath = join(directory, INDEX_NAME);
  const index = readJsonObject(indexPath);
  if (index === null) return openWeights([join(directory, SINGLE_NAME)]);
  const shardOf = weightMap(indexPath, index.weight_map);
  const shards = [...new Set(shardOf.values())].sort();
  for (const shard of shards) checkPresent(directory, shard);
  const opened = openWeights(shards.map((shard) => join(directory, shard)));
  for (const [tensor, shard] of shardOf) {
    const isThere = opened.tensors.has(tensor) || opened.integers.has(tensor);
    if (!isThere && !holdsInteger(tensor)) {
      closeAll(opened.files);
      const path = join(directory, shard);
      const field = `tensor ${tensor}`;
      throw invalidFile({ path, field, must: `must exist (${INDEX_NAME})`, actual: "missing" });
    }
  }
  return opened;
}

/** Opens safetensors files as one set of weights. On failure no file stays open. */
export function openWeights(paths: readonly string[]): OpenWeights {
  const files: FileBytes[] = [];
  const tensors = new Map<string, NamedWeight>();
  const integers = new Map<string, NamedIntegers>();
  try {
    for (const path of paths) {
      const file = openFileBytes(path);
      files.push(file);
      const read = readSafetensors(file);
      for (const [name, table] of read.integers) integers.set(name, table);
      for (const [name, weight] of read.weights) {
        if (tensors.has(name)) {
          const must = "must be in one shard only";
          throw invalidFile({ path, field: `tensor ${name}`, must, actual: "a second one" });
        }
        tensors.set(name, weight);
      }
    }
  } catch (error) {
    closeAll(files);
    throw error;
  }
  return { tensors, integers, files };
}

/** Ends every mapping. */
export function closeAll(files: readonly FileBytes[]): void {
  for (const file of files) file.close();
}

/** Whether it is a buffer of masks or positions: these are integers, and not among the weights. */
function holdsInteger(tensor: string): boolean {
  return /(\.attn\.(masked_)?bias|position_ids|inv_freq)$/.test(tensor);
}

function weightMap(path: string, value: unknown): ReadonlyMap<string, string> {
  const field = "weight_map";
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw invalidFile({ path, field, must: "must be an object", actual: value });
  }
  const map = new Map<string, string>();
  for (const [tensor, shard] of Object.entries(value)) {
    // A plain name in this directory: an index must not name files elsewhere on the machine.
    if (typeof shard !== "string" || !/^[\w][\w.-]*\.safetensors$/.test(shard)) {
      const must = "must be the plain name of a .safetensors file beside the index";
      throw invalidFile({ path, field: `${field}.${tensor}`, must, actual: shard });
    }
    map.set(tensor, shard);
  }
  if (map.size > 0) return map;
  throw invalidFile({ path, field, must: "must name at least one tensor", actual: "none" });
}

function checkPresent(directory: string, shard: string): void {
  if (existsSync(join(directory, shard))) return;
  throw new EngineError(
    "CHECKPOINT_INVALID",
    `Cannot load ${directory}: shard ${shard} must exist because ${INDEX_NAME} names it, ` +
      "current value is missing; download the model again (perigee models pull resumes)",
    { param: shard },
  );
}
