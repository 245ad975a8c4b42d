import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { EngineError } from "#base";
import type { Checkpoint } from "./checkpoint.ts";
import { openGguf } from "./gguf-checkpoint.ts";
import { openConfig, openHfDirectory, openSafetensorsFile } from "./hf-checkpoint.ts";
import { hasSafetensors } from "./weight-files.ts";

/** Options of opening a model. */
export interface OpenOptions {
  /** Off: only the configuration is read, and may be the only file; `tensors` is empty. */
  readonly weights?: boolean;
}

/**
 * Opens a model: a directory in Hugging Face layout, a directory with one GGUF, or a single .gguf
 * or .safetensors file; without weights a config.json, too. Reads headers and configuration only.
 */
export function openCheckpoint(path: string, { weights = true }: OpenOptions = {}): Checkpoint {
  const status = statSync(path, { throwIfNoEntry: false });
  if (status === undefined) throw notFound(path);
  if (!weights && isConfig(path, status.isDirectory())) return openConfig(path);
  if (status.isDirectory()) return openDirectory(path);
  if (path.endsWith(".gguf")) return openGguf(path);
  if (path.endsWith(".safetensors")) return openSafetensorsFile(path);
  throw new EngineError(
    "UNSUPPORTED_MODEL",
    `Cannot load ${path}: a model file must end in .safetensors or .gguf, current value is ` +
      "another name; pass the model's directory instead, or a config.json with randomWeights " +
      "(--random-weights)",
  );
}

function isConfig(path: string, isDirectory: boolean): boolean {
  return isDirectory ? existsSync(join(path, "config.json")) : path.endsWith(".json");
}

function openDirectory(directory: string): Checkpoint {
  if (hasSafetensors(directory)) return openHfDirectory(directory);
  const ggufs = readdirSync(directory).filter((name) => name.endsWith(".gguf"));
  const [first] = ggufs;
  if (first === undefined) return openHfDirectory(directory); // Its error names the missing files.
  if (ggufs.length === 1) return openGguf(join(directory, first));
  throw new EngineError(
    "INVALID_ARGUMENT",
    `Cannot load ${directory}: it must hold one GGUF, current value is ${ggufs.length} ` +
      `(${ggufs.slice(0, 8).join(", ")}); pass the path of one of them`,
  );
}

function notFound(path: string): EngineError {
  return new EngineError(
    "MODEL_NOT_FOUND",
    `Cannot load ${path}: it must be a directory, a .gguf or a .safetensors file, current value ` +
      "is no such path; check the path, or download a model: npx perigee models pull ORG/NAME",
  );
}
