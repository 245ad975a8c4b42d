/** The files of sentence-transformers beside a model: settings of its vectors. */
import { join } from "node:path";
import { invalidFile } from "./invalid-file.ts";
import { type JsonObject, readJsonObject, readTextFile } from "./json-text.ts";

/** A module in the pipeline from text to vector, as modules.json lists it. */
export interface SentenceModule {
  /** The Python class, e.g. `sentence_transformers.models.Pooling`. */
  readonly type: string;
  /** The folder of its own files; empty: the model's. */
  readonly path: string;
  /** config.json in that folder; null for a module without one, and for the model itself. */
  readonly config: JsonObject | null;
}

/** The files of sentence-transformers that a model has. */
export interface SentenceFiles {
  /** modules.json, in order. Null: the folder is a plain model's. */
  readonly modules: readonly SentenceModule[] | null;
  /** sentence_bert_config.json. */
  readonly text: JsonObject | null;
  /** config_sentence_transformers.json. */
  readonly settings: JsonObject | null;
  /** `model_max_length` of tokenizer_config.json. */
  readonly tokenizerTokensMax: number | null;
}

/** A module's folder. It is joined to a path, so it must not lead out of the model. */
const MODULE_PATH = /^[\w-]+$/;

/** Reads them. Throws CHECKPOINT_INVALID, which names the file and the field, and IO. */
export function readSentenceFiles(directory: string): SentenceFiles {
  const tokenizer = readJsonObject(join(directory, "tokenizer_config.json"));
  const tokensMax = tokenizer?.model_max_length;
  return {
    modules: readModules(directory),
    text: readSentenceText(directory),
    settings: readJsonObject(join(directory, "config_sentence_transformers.json")),
    tokenizerTokensMax: typeof tokensMax === "number" ? tokensMax : null,
  };
}

/** sentence_bert_config.json: settings of tokenization. Null if there is none. */
export function readSentenceText(directory: string): JsonObject | null {
  return readJsonObject(join(directory, "sentence_bert_config.json"));
}

function readModules(directory: string): readonly SentenceModule[] | null {
  const path = join(directory, "modules.json");
  const text = readTextFile(path);
  if (text === null) return null;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw invalidFile({ path, field: "content", must: "must be valid JSON", actual: text, cause });
  }
  if (!Array.isArray(value)) {
    throw invalidFile({ path, field: "content", must: "must be a list", actual: typeof value });
  }
  return value.map((module: unknown, place) => moduleOf(module, { directory, path, place }));
}

function moduleOf(
  module: unknown,
  at: { readonly directory: string; readonly path: string; readonly place: number },
): SentenceModule {
  const { directory, path, place } = at;
  const get = (field: string): unknown =>
    typeof module === "object" && module !== null ? Reflect.get(module, field) : undefined;
  const [type, folder = ""] = [get("type"), get("path")];
  if (typeof type !== "string") {
    const field = `${place}.type`;
    throw invalidFile({ path, field, must: "must be a class's name", actual: type });
  }
  if (typeof folder !== "string" || !(folder === "" || MODULE_PATH.test(folder))) {
    const field = `${place}.path`;
    throw invalidFile({ path, field, must: "must be a folder's name", actual: folder });
  }
  const config = folder === "" ? null : readJsonObject(join(directory, folder, "config.json"));
  return { type, path: folder, config };
}
