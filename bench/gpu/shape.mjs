/**
 * Sizes of a model, and what its work takes at least: bytes that must be read and written, and
 * floating-point operations. What "limit" means in every table of this folder.
 *
 * E hidden · H query heads · K kv heads · D head dim · F feed-forward · V vocabulary · L layers
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** The folder with the config.json of the shape that is measured. */
export const llamaFolder = fileURLToPath(new URL("./llama-3.1-8b", import.meta.url));

const bf16Bytes = 2;

/** The sizes in a Llama's config.json, of a folder or a file. */
export function readShape(path = llamaFolder) {
  const file = path.endsWith(".json") ? path : join(path, "config.json");
  if (!existsSync(file)) throw new Error(`Cannot read ${file}: wanted the config.json of a Llama`);
  const config = JSON.parse(readFileSync(file, "utf8"));
  const heads = config.num_attention_heads;
  const kvHeads = config.num_key_value_heads ?? heads;
  const headDim = config.head_dim ?? config.hidden_size / heads;
  return {
    hidden: config.hidden_size,
    layers: config.num_hidden_layers,
    ...{ heads, kvHeads, headDim },
    feedForward: config.intermediate_size,
    vocabulary: config.vocab_size,
    qkvRows: (heads + 2 * kvHeads) * headDim,
  };
}

/** Elements of the matrices that a token passes in one layer. */
function layerElements({ hidden, heads, headDim, qkvRows, feedForward }) {
  return hidden * (qkvRows + heads * headDim + 3 * feedForward);
}

/** Elements of all matrices that make a token of a token: layers and head. */
function weightElements(shape) {
  return shape.layers * layerElements(shape) + shape.vocabulary * shape.hidden;
}

/** Weights that every decoding step reads, in bf16. */
export function weightBytes(shape) {
  return bf16Bytes * weightElements(shape);
}

/** Keys and values of one token in all layers, in bf16. */
export function kvTokenBytes({ layers, kvHeads, headDim }) {
  return layers * 2 * kvHeads * headDim * bf16Bytes;
}

/** Operations of attention for one sequence whose last `count` of `context` tokens are computed. */
export function attentionFLOPs({ heads, headDim }, context, count) {
  const pairs = count * context - (count * (count - 1)) / 2;
  return 4 * heads * headDim * pairs;
}

/** What a step of decoding `batch` sequences of `context` tokens takes at least. */
export function decodeWork(shape, batch, context) {
  return {
    bytes: weightBytes(shape) + batch * context * kvTokenBytes(shape),
    flops: batch * (2 * weightElements(shape) + shape.layers * attentionFLOPs(shape, context, 1)),
  };
}

/** What a prompt of `tokens` takes at least; the head is needed for its last token alone. */
export function prefillWork(shape, tokens) {
  const { hidden, layers, vocabulary } = shape;
  const products = 2 * tokens * layers * layerElements(shape) + 2 * vocabulary * hidden;
  return {
    bytes: weightBytes(shape) + tokens * kvTokenBytes(shape),
    flops: products + layers * attentionFLOPs(shape, tokens, tokens),
  };
}

/** Milliseconds of `work` where bytes and operations overlap completely. */
export function limitMs({ bytes, flops }, { copyGBs, bf16TFLOPs }) {
  return Math.max(bytes / copyGBs / 1e6, flops / bf16TFLOPs / 1e9);
}
