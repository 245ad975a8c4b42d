/**
 * The minimal work of a decoder: bytes to read and operations to execute. Divided by a device's
 * ceilings, they are the limits with which measurements are compared.
 */

/** Sizes of a dense decoder with gated feed-forwards, such as Llama. */
export interface ModelShape {
  readonly hidden: number;
  readonly layers: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly feedForward: number;
  readonly vocabulary: number;
  /** Rows of query, key and value together. */
  readonly qkvRows: number;
}

/** Bytes that cross the memory bus, and floating-point operations. */
export interface Work {
  readonly bytes: number;
  readonly flops: number;
}

/** Speeds that a device cannot exceed: 10^9 bytes and 10^12 operations a second. */
export interface Ceilings {
  readonly copyGBs: number;
  readonly bf16TFLOPs: number;
}

const bf16Bytes = 2;

/** Families whose layers `layerElements` describes. */
const gatedFamilies = ["llama", "mistral", "qwen2", "qwen3", "phi3"];

/** The sizes in a config.json; null for a model of another kind. */
export function readShape(config: Readonly<Record<string, unknown>>): ModelShape | null {
  if (!gatedFamilies.includes(String(config.model_type))) return null;
  const size = (name: string, otherwise = 0): number => {
    const value = config[name];
    return typeof value === "number" && value > 0 ? value : otherwise;
  };
  const hidden = size("hidden_size");
  const heads = size("num_attention_heads");
  const kvHeads = size("num_key_value_heads", heads);
  const headDim = size("head_dim", hidden / heads);
  const shape = {
    layers: size("num_hidden_layers"),
    feedForward: size("intermediate_size"),
    vocabulary: size("vocab_size"),
    qkvRows: (heads + 2 * kvHeads) * headDim,
    ...{ hidden, heads, kvHeads, headDim },
  };
  return Object.values(shape).every((value) => value > 0) ? shape : null;
}

/** Elements of the weight matrices of one layer. */
function layerElements({ hidden, heads, headDim, qkvRows, feedForward }: ModelShape): number {
  return hidden * (qkvRows + heads * headDim + 3 * feedForward);
}

/** Elements of all weight matrices of a decode step: layers and head. */
function weightElements(shape: ModelShape): number {
  return shape.layers * layerElements(shape) + shape.vocabulary * shape.hidden;
}

/** Keys and values of one token in all layers, in bf16. */
function kvTokenBytes({ layers, kvHeads, headDim }: ModelShape): number {
  return layers * 2 * kvHeads * headDim * bf16Bytes;
}

/** Operations of a layer's attention, for the last `count` of a sequence's `context` tokens. */
export function attentionFLOPs(
  { heads, headDim }: Pick<ModelShape, "heads" | "headDim">,
  context: number,
  count: number,
): number {
  const pairs = count * context - (count * (count - 1)) / 2;
  return 4 * heads * headDim * pairs;
}

/**
 * A step that decodes `batch` sequences of `context` tokens: all weights except the embedding
 * table, and keys and values of every sequence, are read once.
 */
export function decodeWork(shape: ModelShape, batch: number, context: number): Work {
  const elements = weightElements(shape);
  const attention = shape.layers * attentionFLOPs(shape, context, 1);
  return {
    bytes: bf16Bytes * elements + batch * context * kvTokenBytes(shape),
    flops: batch * (2 * elements + attention),
  };
}

/** Prefill of a prompt of `tokens`; the head is needed only for its last token. */
export function prefillWork(shape: ModelShape, tokens: number): Work {
  const { hidden, layers, vocabulary } = shape;
  const products = 2 * (tokens * layers * layerElements(shape) + vocabulary * hidden);
  return {
    bytes: bf16Bytes * weightElements(shape) + tokens * kvTokenBytes(shape),
    flops: products + layers * attentionFLOPs(shape, tokens, tokens),
  };
}

/** Milliseconds of `work` if reading and computing overlap completely. */
export function limitMs({ bytes, flops }: Work, { copyGBs, bf16TFLOPs }: Ceilings): number {
  return Math.max(bytes / copyGBs / 1e6, flops / bf16TFLOPs / 1e9);
}

/** Sizes of a batch of equal requests. */
export interface RequestSizes {
  readonly prompts: number;
  readonly inputLength: number;
  readonly outputLength: number;
}

/**
 * Lower bound in seconds for equal requests: the operations of all prompts, whose weights are read
 * for many tokens at once, and a decode step for every token except the first, at half of the
 * growing context.
 */
export function requestsLimitSeconds(
  shape: ModelShape,
  { prompts, inputLength, outputLength }: RequestSizes,
  ceilings: Ceilings,
): number {
  const { bytes, flops } = prefillWork(shape, inputLength);
  const prompting = limitMs({ bytes, flops: prompts * flops }, ceilings);
  const step = limitMs(decodeWork(shape, prompts, inputLength + outputLength / 2), ceilings);
  return (prompting + (outputLength - 1) * step) / 1000;
}
