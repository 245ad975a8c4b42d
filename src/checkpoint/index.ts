/**
 * checkpoint: model files in, plain JSON and named weights out.
 *
 * A checkpoint is opened without reading its weights: files are mapped, headers checked, and each
 * weight becomes bytes when somebody asks. GGUF files look like Hugging Face's from outside: same
 * names, same layout, same config.json, same tokenizer.json.
 *
 *   open-checkpoint.ts      a path in, a checkpoint out
 *   checkpoint.ts           what a checkpoint is
 *   named-weight.ts         what a weight is
 *   hf-checkpoint.ts        directories in Hugging Face layout
 *   weight-files.ts         one safetensors file, or shards with an index
 *   safetensors*.ts         the format, read and written
 *   gguf-*.ts               the format, and the way from its words to transformers'
 *   tokenizer-files.ts      tokenizer.json and its kin, read when asked for
 *   sentence-files.ts       what sentence-transformers wrote beside a model
 *   mapped-file.ts          files as memory; file-bytes.ts, byte-cursor.ts parts of them
 *   json-*.ts               JSON that may be broken, or say a name twice
 *   invalid-file.ts         the error of a broken file
 *   hub*.ts                 downloads, the cache folder, names of models to paths
 *
 * Invariant: nothing in a file is believed; a count is checked against the bytes left before
 * anything is allocated, and a broken file is an EngineError that names the file and the field.
 * Invariant: no weight is copied unless it must be dequantised or reordered.
 * Invariant: knows no model and no device.
 *
 * @module
 */
export type { Checkpoint, TokenizerFiles } from "./checkpoint.ts";
export { type PullOptions, type PullProgress, pullModel } from "./hub.ts";
export {
  type CachedModel,
  type CacheOptions,
  listCachedModels,
  resolveModel,
} from "./hub-cache.ts";
export type { NamedWeight, WeightDType } from "./named-weight.ts";
export { openCheckpoint } from "./open-checkpoint.ts";
export { type TensorToWrite, writeSafetensors } from "./safetensors-writer.ts";
export type { SentenceFiles, SentenceModule } from "./sentence-files.ts";
