/** Models in Hugging Face layout: config.json, safetensors, and tokenizer files in a directory. */
import { readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { EngineError } from "#base";
import { bytesOf, elementCount } from "#tensor";
import type { Checkpoint } from "./checkpoint.ts";
import { type JsonObject, readJsonObject } from "./json-text.ts";
import { lazyValue } from "./lazy-value.ts";
import type { NamedWeight } from "./named-weight.ts";
import { readSentenceFiles } from "./sentence-files.ts";
import { hasTokenizer, readTokenizerFiles } from "./tokenizer-files.ts";
import {
  closeAll,
  hasSafetensors,
  type OpenWeights,
  openDirectoryWeights,
  openWeights,
} from "./weight-files.ts";

/** Opens a directory. Throws CHECKPOINT_INVALID, UNSUPPORTED_MODEL or MODEL_NOT_FOUND. */
export function openHfDirectory(directory: string): Checkpoint {
  const config = configOf(directory);
  if (!hasSafetensors(directory)) throw noWeights(directory);
  return checkpointOf({ path: directory, directory, config }, openDirectoryWeights(directory));
}

/** Opens a directory's config.json, or any file with one, and a tokenizer beside it: no weights. */
export function openConfig(path: string): Checkpoint {
  const isFile = path.endsWith(".json");
  const directory = isFile ? dirname(path) : path;
  const config = isFile ? readConfig(path, directory) : configOf(directory);
  return checkpointOf({ path, directory, config }, NO_WEIGHTS);
}

/** Opens one safetensors file; config and tokenizer are read beside it. */
export function openSafetensorsFile(path: string): Checkpoint {
  const directory = dirname(path);
  const config = configOf(directory);
  return checkpointOf({ path, directory, config }, openWeights([path]));
}

const NO_WEIGHTS: OpenWeights = { tensors: new Map(), integers: new Map(), files: [] };

interface Place {
  readonly path: string;
  readonly directory: string;
  readonly config: JsonObject;
}

function checkpointOf(place: Place, weights: OpenWeights): Checkpoint {
  const generationConfig = generationConfigOf(place.directory, weights);
  // A tokenizer.json of 30 MB takes a while to parse, and not every thread needs it.
  const tokenizer = lazyValue(() => readTokenizerFiles(place.directory));
  const sentence = lazyValue(() => readSentenceFiles(place.directory));
  return {
    path: place.path,
    format: "safetensors",
    config: place.config,
    generationConfig,
    tensors: weights.tensors,
    integers: weights.integers,
    get tokenizer() {
      return tokenizer();
    },
    get sentence() {
      return sentence();
    },
    totalBytes: storedBytes(weights.tensors),
    warnings: hasTokenizer(place.directory) ? [] : [noTokenizer(place.directory)],
    close: () => closeAll(weights.files),
  };
}

function generationConfigOf(directory: string, weights: OpenWeights): JsonObject | null {
  try {
    return readJsonObject(join(directory, "generation_config.json"));
  } catch (error) {
    closeAll(weights.files);
    throw error;
  }
}

function configOf(directory: string): JsonObject {
  return readConfig(join(directory, "config.json"), directory);
}

function readConfig(path: string, directory: string): JsonObject {
  const config = readJsonObject(path);
  if (config === null) {
    throw new EngineError(
      "MODEL_NOT_FOUND",
      `Cannot load ${directory}: a model directory must have a config.json, current value is ` +
        "missing; pass a directory in Hugging Face layout or a .gguf file",
    );
  }
  const quantization = config.quantization_config;
  if (quantization === undefined || quantization === null) return config;
  if (quantizesCacheOnly(quantization)) return config;
  throw new EngineError(
    "UNSUPPORTED_MODEL",
    `Cannot load ${path}: quantization_config must be absent, current value is ` +
      `${JSON.stringify(quantization).slice(0, 100)}; use the unquantised checkpoint ` +
      "(--quantization int8 quantises it at load) or a GGUF",
    { param: "quantization_config" },
  );
}

/**
 * Whether only the KV cache is quantised: llm-compressor with a scheme for the cache and no other.
 */
function quantizesCacheOnly(quantization: unknown): boolean {
  if (typeof quantization !== "object" || quantization === null) return false;
  const fields = new Map<string, unknown>(Object.entries(quantization));
  const groups = fields.get("config_groups");
  const ofCache = fields.get("kv_cache_scheme");
  const none = typeof groups === "object" && groups !== null && Object.keys(groups).length === 0;
  return none && typeof ofCache === "object" && ofCache !== null;
}

function noWeights(directory: string): EngineError {
  const pickled = readdirSync(directory).find((name) => /\.(bin|pt|pth)$/.test(name));
  if (pickled !== undefined) {
    return new EngineError(
      "UNSUPPORTED_MODEL",
      `Cannot load ${directory}: weights must be safetensors or GGUF, current value is ` +
        `${pickled}, a pickle, which can run code when it is read; convert it with transformers: ` +
        "AutoModelForCausalLM.from_pretrained(DIR).save_pretrained(OUT, safe_serialization=True)",
    );
  }
  return new EngineError(
    "MODEL_NOT_FOUND",
    `Cannot load ${directory}: a model directory must have model.safetensors or ` +
      "model.safetensors.index.json, current value is neither; download the model again, " +
      "or measure its speed with --random-weights",
  );
}

function noTokenizer(directory: string): string {
  return `${directory} has no tokenizer.json: prompts must be token ids`;
}

function storedBytes(tensors: ReadonlyMap<string, NamedWeight>): number {
  let total = 0;
  for (const { dtype, shape } of tensors.values()) {
    total += elementCount(shape) * bytesOf(dtype);
  }
  return total;
}
