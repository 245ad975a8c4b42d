/** Models in Hugging Face layout: config.json, safetensors, and tokenizer files in a directory. */
import { readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { EngineError } from "#base";
import { bytesOf, elementCount } from "#tensor";
import type { Checkpoint } from "./checkpoint.ts";
import { type JsonObject, readJsonObject } from "./json-text.ts";
import { lazyValue } from "./lazy-value.ts";
import { weightQuantization } from "./quantization-config.ts";
import { type WholeWeights, wholeWeights } from "./quantized-weights.ts";
import { readSentenceFiles } from "./sentence-files.ts";
import { hasTokenizer, readTokenizerFiles } from "./tokenizer-files.ts";
import {
  closeAll,
  hasSafetensors,
  type OpenWeights,
  openDirectoryWeights,
  openWeights,
} from "./weight-files.ts";
import type { WeightQuantization } from "./weight-quantization.ts";

/** Opens a directory. Throws CHECKPOINT_INVALID, UNSUPPORTED_MODEL or MODEL_NOT_FOUND. */
export function openHfDirectory(directory: string): Checkpoint {
  const place = placeOf(directory, directory);
  if (!hasSafetensors(directory)) throw noWeights(directory);
  return checkpointOf(place, openDirectoryWeights(directory));
}

/** Opens a directory's config.json, or any file with one, and a tokenizer beside it: no weights. */
export function openConfig(path: string): Checkpoint {
  const isFile = path.endsWith(".json");
  const directory = isFile ? dirname(path) : path;
  const place = placeOf(path, directory, isFile ? path : undefined);
  // What the files would hold does not matter: there are none.
  return checkpointOf({ ...place, quantization: null }, NO_WEIGHTS);
}

/** Opens one safetensors file; config and tokenizer are read beside it. */
export function openSafetensorsFile(path: string): Checkpoint {
  return checkpointOf(placeOf(path, dirname(path)), openWeights([path]));
}

const NO_WEIGHTS: OpenWeights = { tensors: new Map(), integers: new Map(), files: [] };

interface Place {
  readonly path: string;
  readonly directory: string;
  readonly config: JsonObject;
  /** Null: weights are floats. */
  readonly quantization: WeightQuantization | null;
}

function placeOf(
  path: string,
  directory: string,
  configPath = join(directory, "config.json"),
): Place {
  const config = readConfig(configPath, directory);
  return { path, directory, config, quantization: weightQuantization(configPath, config) };
}

function checkpointOf(place: Place, files: OpenWeights): Checkpoint {
  const { weights, generationConfig } = closingOnError(files, () => ({
    weights: gathered(place, files),
    generationConfig: readJsonObject(join(place.directory, "generation_config.json")),
  }));
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
    totalBytes: storedBytes(weights),
    warnings: hasTokenizer(place.directory) ? [] : [noTokenizer(place.directory)],
    close: () => closeAll(files.files),
  };
}

/** The weights as matrices of floats, however they are stored. */
function gathered({ path, quantization }: Place, files: OpenWeights): WholeWeights {
  if (quantization === null) return { ...files, quantizedBytes: 0 };
  return wholeWeights({ path, ...files }, quantization);
}

function closingOnError<Result>(files: OpenWeights, read: () => Result): Result {
  try {
    return read();
  } catch (error) {
    closeAll(files.files);
    throw error;
  }
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
  return config;
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
      "or measure its speed with randomWeights (--random-weights)",
  );
}

function noTokenizer(directory: string): string {
  return `${directory} has no tokenizer.json: prompts must be token ids`;
}

function storedBytes({ tensors, quantizedBytes }: WholeWeights): number {
  let total = quantizedBytes;
  for (const { dtype, storedAs, shape } of tensors.values()) {
    if (storedAs === undefined) total += elementCount(shape) * bytesOf(dtype);
  }
  return total;
}
