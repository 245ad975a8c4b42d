/**
 * checkpoint: model files in, plain JSON and named weights out.
 *
 * A checkpoint is opened without reading its weights: files are mapped, headers checked, and each
 * weight is read on demand. GGUF files look like Hugging Face's from outside: same
 * names, same layout, same config.json, same tokenizer.json.
 *
 *   open-checkpoint.ts      a path in, a checkpoint out
 *   checkpoint.ts           the interface of a checkpoint
 *   named-weight.ts         the interface of a weight
 *   hf-checkpoint.ts        directories in Hugging Face layout
 *   weight-files.ts         one safetensors file, or shards with an index
 *   safetensors*.ts         the format, read and written
 *   quantization-*.ts       config.json's word on 4 and 8 bits: awq-*, gptq-* and compressed-*.ts
 *                           find the parts of a module (quantized-module.ts), which become weights
 *                           in quantized-weights.ts, by the definition in quantized-matrix.ts
 *   weight-quantization.ts  the ways of quantising that are read
 *   gguf-*.ts               the format, and its conversion to transformers' terms;
 *                           sentencepiece-merges.ts: merges of vocabularies with scores
 *   tokenizer-files.ts      tokenizer.json and related files, read on demand
 *   sentence-files.ts       files of sentence-transformers beside a model
 *   mapped-file.ts          files as memory, by mmap (system-memory-map.ts) or by reads;
 *                           file-bytes.ts, byte-cursor.ts parts of them
 *   json-*.ts               JSON that may be broken, or repeat a name
 *   weights-identity.ts     tells weight files apart without reading them whole
 *   invalid-file.ts         the error of a broken file
 *   hub*.ts                 downloads, the cache folder, names of models to paths
 *   short-names.ts          short names of repositories; bundled-models.ts: of our own models
 *
 * Invariant: no value of a file is trusted; a count is checked against the bytes left before
 * anything is allocated, and a broken file is an EngineError that names the file and the field.
 * Invariant: no weight is copied unless it must be dequantised or reordered.
 * Invariant: depends on no model and no device.
 *
 * @module
 */
export { bundledPath } from "./bundled-models.ts";
export type { Checkpoint, TokenizerFiles } from "./checkpoint.ts";
export { type PullOptions, type PullProgress, pullModel } from "./hub.ts";
export {
  type CachedModel,
  type CacheOptions,
  listCachedModels,
  missingRepository,
  resolveModel,
} from "./hub-cache.ts";
export { type LinkOptions, linkModel } from "./hub-link.ts";
export type { NamedIntegers, NamedWeight, PackedBlocks, WeightDType } from "./named-weight.ts";
export { openCheckpoint } from "./open-checkpoint.ts";
export { type TensorToWrite, writeSafetensors } from "./safetensors-writer.ts";
export type { SentenceFiles, SentenceModule } from "./sentence-files.ts";
export { longName, shortNames } from "./short-names.ts";
export { weightsIdentity } from "./weights-identity.ts";
