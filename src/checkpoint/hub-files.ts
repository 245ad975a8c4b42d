/** Chooses the files of a repository that a model needs. */
import { EngineError } from "#base";
import type { HubFile } from "./hub-download.ts";

/** Settings of sentence-transformers' pooling and later modules: `1_Pooling/config.json`. */
const MODULE_CONFIG = /^[0-9]+_[A-Za-z]+\/config\.json$/;
const INDEX_NAME = "model.safetensors.index.json";

/** The requested files. */
export interface FileChoice {
  readonly name: string;
  readonly file?: string;
}

/**
 * The one requested file; otherwise configuration, tokenizer, and the weights as safetensors, small
 * files first. Never pickles, other frameworks' weights or subfolders, except the modules of
 * sentence-transformers.
 */
export function chooseFiles(files: readonly HubFile[], choice: FileChoice): readonly HubFile[] {
  if (choice.file !== undefined) return [theFile(files, choice, choice.file)];
  const top = files.filter((file) => !file.path.includes("/"));
  const weights = weightsOf(top);
  if (weights.length === 0) throw noWeights(files, choice);
  const texts = files.filter(({ path }) => isText(path));
  return [...texts, ...weights].sort((a, b) => a.sizeBytes - b.sizeBytes);
}

function isText(path: string): boolean {
  if (path.includes("/")) return MODULE_CONFIG.test(path);
  return /\.(json|jinja)$/.test(path) && !/\.(bin|h5|msgpack)\.index\.json$/.test(path);
}

/** Shards where there is an index, else the single file, else any safetensors files. */
function weightsOf(top: readonly HubFile[]): readonly HubFile[] {
  const all = top.filter(({ path }) => path.endsWith(".safetensors"));
  const sharded = top.some(({ path }) => path === INDEX_NAME);
  const shards = all.filter(({ path }) => /-\d+-of-\d+\.safetensors$/.test(path));
  if (sharded && shards.length > 0) return shards;
  const single = all.filter(({ path }) => path === "model.safetensors");
  return single.length > 0 ? single : all;
}

function theFile(files: readonly HubFile[], choice: FileChoice, path: string): HubFile {
  const found = files.find((file) => file.path === path);
  if (found !== undefined) return found;
  throw new EngineError(
    "INVALID_ARGUMENT",
    `Cannot download ${choice.name}: --file must be one of its files, current value is ${path}; ` +
      `it has ${listed(files.map((file) => file.path))}`,
    { param: "file" },
  );
}

function noWeights(files: readonly HubFile[], { name }: FileChoice): EngineError {
  const ggufs = files.map((file) => file.path).filter((path) => path.endsWith(".gguf"));
  if (ggufs.length > 0) {
    return new EngineError(
      "INVALID_ARGUMENT",
      `Cannot download ${name}: it has GGUF files only, and one must be chosen; pass --file with ` +
        `one of ${listed(ggufs)}`,
      { param: "file" },
    );
  }
  return new EngineError(
    "UNSUPPORTED_MODEL",
    `Cannot download ${name}: it must have weights as .safetensors or .gguf, current value is ` +
      `${listed(files.map((file) => file.path))}; choose another repository of the model, or ` +
      "convert it with transformers: save_pretrained(OUT, safe_serialization=True)",
  );
}

function listed(paths: readonly string[]): string {
  const shown = paths.slice(0, 12).join(", ");
  return paths.length > 12 ? `${shown}, …` : shown;
}
