/** Opens a GGUF file as the equivalent transformers checkpoint. */
import { EngineError } from "#base";
import type { Checkpoint } from "./checkpoint.ts";
import type { FileBytes } from "./file-bytes.ts";
import { ggufConfig } from "./gguf-config.ts";
import { type GgufHeader, readGgufHeader } from "./gguf-header.ts";
import type { GgufMetadata } from "./gguf-metadata.ts";
import { ggufTensors } from "./gguf-tensors.ts";
import { ggufTokenizer } from "./gguf-tokenizer.ts";
import { endTokenIds, readGgufVocabulary } from "./gguf-vocabulary.ts";
import type { JsonObject } from "./json-text.ts";
import { lazyValue } from "./lazy-value.ts";
import { openFileBytes } from "./mapped-file.ts";

/** Opens a GGUF file. Throws CHECKPOINT_INVALID, UNSUPPORTED_MODEL or MODEL_NOT_FOUND. */
export function openGguf(path: string): Checkpoint {
  const file = openFileBytes(path);
  try {
    return ggufCheckpoint(file);
  } catch (error) {
    file.close();
    throw error;
  }
}

/** The same for an opened file. The checkpoint owns `file` from here on. */
export function ggufCheckpoint(file: FileBytes): Checkpoint {
  const header = readGgufHeader(file);
  refuseShards(header.metadata);
  const { config, ...shape } = ggufConfig(file, header);
  const tensors = ggufTensors(file, header, shape);
  // Rebuilding a vocabulary of 150,000 tokens takes a while, and not every thread needs it.
  const tokenizer = lazyValue(() => ggufTokenizer(header.metadata));
  return {
    path: file.path,
    format: "gguf",
    config,
    generationConfig: generationConfig(header.metadata),
    tensors,
    integers: new Map(),
    get tokenizer() {
      return tokenizer().files;
    },
    sentence: null,
    totalBytes: storedBytes(header),
    get warnings() {
      const { warning } = tokenizer();
      return warning === null ? [] : [warning];
    },
    close: () => file.close(),
  };
}

function storedBytes(header: GgufHeader): number {
  let total = 0;
  for (const tensor of header.tensors.values()) total += tensor.sizeBytes;
  return total;
}

function refuseShards(metadata: GgufMetadata): void {
  const shards = metadata.findCount("split.count") ?? 1;
  if (shards <= 1) return;
  throw new EngineError(
    "UNSUPPORTED_MODEL",
    `Cannot load ${metadata.path}: split.count must be 1, current value is ${shards}; merge the ` +
      "files with llama.cpp: llama-gguf-split --merge FIRST.gguf MERGED.gguf",
    { param: "split.count" },
  );
}

/** Null for a file without a vocabulary. */
function generationConfig(metadata: GgufMetadata): JsonObject | null {
  const vocabulary = readGgufVocabulary(metadata);
  if (vocabulary === null) return null;
  const token = (name: string) => metadata.findCount(`tokenizer.ggml.${name}_token_id`);
  return {
    bos_token_id: token("bos"),
    eos_token_id: endTokenIds(metadata, vocabulary),
    pad_token_id: token("padding"),
  };
}
