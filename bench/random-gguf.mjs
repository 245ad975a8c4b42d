/**
 * Random models of a given shape as GGUF files. Types f32, f16, bf16 and q8_0: the same seed gives
 * the same weights, rounded as the type demands. Types of fewer bits, and mixtures of them
 * (q4_k_m, q5_k_m): random blocks whose values have the same standard deviation.
 */
import { BLOCK_TYPES, matrixType, randomBlocks } from "./gguf-blocks.mjs";
import { writeGguf } from "./gguf-writer.mjs";
import { f16 } from "./half.mjs";

const Q8_BLOCK = 32;

function tensorsOf(shape, fileType, deviation) {
  const { hidden, layers, feedForward, vocabulary, qkvBias } = shape;
  const query = shape.heads * shape.headDim;
  const keyValue = shape.kvHeads * shape.headDim;
  const tensors = [];
  const matrix = (name, rows, columns, spread = 0.7 * columns ** -0.5) => {
    const own = { name, shape: [rows, columns] };
    const type = matrixType(fileType, { ...own, layers });
    tensors.push({ ...own, type, deviation: deviation ?? spread });
  };
  const vector = (name, size, mean) =>
    tensors.push({ name, shape: [size], type: "f32", mean, deviation: 0.03 });
  matrix("token_embd.weight", vocabulary, hidden, hidden ** -0.5);
  const norm = { name: "output_norm.weight", shape: [hidden], type: "f32" };
  tensors.push({ ...norm, mean: 1, deviation: 0.05 });
  for (let layer = 0; layer < layers; layer++) {
    const prefix = `blk.${layer}.`;
    vector(`${prefix}attn_norm.weight`, hidden, 1);
    matrix(`${prefix}attn_q.weight`, query, hidden);
    matrix(`${prefix}attn_k.weight`, keyValue, hidden);
    matrix(`${prefix}attn_v.weight`, keyValue, hidden);
    matrix(`${prefix}attn_output.weight`, hidden, query);
    if (qkvBias) {
      vector(`${prefix}attn_q.bias`, query, 0);
      vector(`${prefix}attn_k.bias`, keyValue, 0);
      vector(`${prefix}attn_v.bias`, keyValue, 0);
    }
    vector(`${prefix}ffn_norm.weight`, hidden, 1);
    matrix(`${prefix}ffn_gate.weight`, feedForward, hidden);
    matrix(`${prefix}ffn_up.weight`, feedForward, hidden);
    matrix(`${prefix}ffn_down.weight`, hidden, feedForward);
  }
  return tensors;
}

/** A vocabulary that any loader accepts: the 256 byte tokens, then placeholders. */
function vocabularyOf(size) {
  const bytes = [];
  let next = 256;
  for (let byte = 0; byte < 256; byte++) {
    const shown = (byte >= 33 && byte <= 126) || (byte >= 161 && byte !== 173);
    bytes.push(String.fromCodePoint(shown ? byte : next++));
  }
  const tokens = [...bytes, "<|endoftext|>"];
  while (tokens.length < size) tokens.push(`<|unused${tokens.length}|>`);
  return tokens;
}

function metadataOf(shape, name) {
  const { architecture: arch } = shape;
  const tokens = vocabularyOf(shape.vocabulary);
  const entry = (key, type, value) => ({ key, type, value });
  return [
    entry("general.architecture", "string", arch),
    entry("general.name", "string", name),
    entry("general.alignment", "u32", 32),
    entry(`${arch}.context_length`, "u32", 8192),
    entry(`${arch}.embedding_length`, "u32", shape.hidden),
    entry(`${arch}.block_count`, "u32", shape.layers),
    entry(`${arch}.feed_forward_length`, "u32", shape.feedForward),
    entry(`${arch}.attention.head_count`, "u32", shape.heads),
    entry(`${arch}.attention.head_count_kv`, "u32", shape.kvHeads),
    entry(`${arch}.attention.layer_norm_rms_epsilon`, "f32", shape.epsilon),
    entry(`${arch}.rope.freq_base`, "f32", shape.theta),
    entry(`${arch}.rope.dimension_count`, "u32", shape.headDim),
    entry(`${arch}.vocab_size`, "u32", shape.vocabulary),
    entry("tokenizer.ggml.model", "string", "gpt2"),
    entry("tokenizer.ggml.pre", "string", "gpt-2"),
    entry("tokenizer.ggml.tokens", "string", tokens),
    entry(
      "tokenizer.ggml.token_type",
      "i32",
      tokens.map((_, id) => (id < 256 ? 1 : 3)),
    ),
    entry("tokenizer.ggml.merges", "string", [`${tokens[97]} ${tokens[98]}`]),
    entry("tokenizer.ggml.bos_token_id", "u32", 256),
    entry("tokenizer.ggml.eos_token_id", "u32", 256),
    entry("tokenizer.ggml.add_bos_token", "bool", false),
  ];
}

/** Numbers in [0, 1), seeded by the tensor's name. */
function randomOf(tensor, seed) {
  let state = (0x811c9dc5 ^ seed) >>> 0;
  for (const byte of Buffer.from(tensor.name)) state = Math.imul(state ^ byte, 0x01000193) >>> 0;
  return () => {
    state = (state + 0x9e3779b9) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 16), 0x85ebca6b);
    mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
    return ((mixed ^ (mixed >>> 16)) >>> 0) / 2 ** 32;
  };
}

const countOf = ({ shape }) => shape.reduce((product, extent) => product * extent, 1);

/** Nearly normal, a sum of uniforms. */
function randomValues(tensor, seed) {
  const next = randomOf(tensor, seed);
  const { mean = 0, deviation } = tensor;
  const scale = deviation * Math.sqrt(6);
  const values = new Float32Array(countOf(tensor));
  for (let place = 0; place < values.length; place++) {
    values[place] = mean + (next() + next() - 1) * scale;
  }
  return values;
}

/** The tensor's bytes. Behind `repeatAfter` elements they begin again. */
function bytesOf(tensor, seed, repeatAfter) {
  const { type, deviation } = tensor;
  const count = countOf(tensor);
  if (count > repeatAfter) {
    const piece = bytesOf({ ...tensor, shape: [repeatAfter] }, seed, repeatAfter);
    return Buffer.alloc((piece.length / repeatAfter) * count, piece);
  }
  if (type !== "q8_0" && type in BLOCK_TYPES) {
    return randomBlocks({ type, count, deviation, random: randomOf(tensor, seed) });
  }
  return encode(randomValues(tensor, seed), type);
}

function encode(values, type) {
  if (type === "f32") return Buffer.from(values.buffer);
  if (type === "f16") {
    const halves = new Uint16Array(values.length);
    for (let place = 0; place < values.length; place++) halves[place] = f16(values[place]);
    return Buffer.from(halves.buffer);
  }
  if (type === "bf16") {
    const bits = new Uint32Array(values.buffer);
    // Round to nearest; no value is near the largest float.
    return Buffer.from(Uint16Array.from(bits, (word) => (word + 0x8000) >>> 16).buffer);
  }
  const bytes = Buffer.alloc((values.length / Q8_BLOCK) * (Q8_BLOCK + 2));
  for (let block = 0, at = 0; block < values.length; block += Q8_BLOCK, at += Q8_BLOCK + 2) {
    const group = values.subarray(block, block + Q8_BLOCK);
    const scale = group.reduce((most, value) => Math.max(most, Math.abs(value)), 0) / 127;
    bytes.writeUInt16LE(f16(scale), at);
    group.forEach((value, offset) => {
      bytes.writeInt8(scale === 0 ? 0 : Math.round(value / scale), at + 2 + offset);
    });
  }
  return bytes;
}

/**
 * Writes one file per type. `deviation`: the standard deviation of all matrices; by default that
 * which keeps activations of one size.
 * `repeatAfter`: how many elements of a tensor are drawn, a multiple of 256; by default all, which
 * takes minutes where the model is large.
 * @param {object} shape
 * @param {string} name
 * @param {Record<string, string>} paths by type
 * @param {{ seed?: number, deviation?: number, repeatAfter?: number }} options
 */
export function writeRandomModel(shape, name, paths, options = {}) {
  const { seed = 1, deviation, repeatAfter = Number.POSITIVE_INFINITY } = options;
  for (const [type, path] of Object.entries(paths)) {
    const tensors = tensorsOf(shape, type, deviation);
    writeGguf(path, metadataOf(shape, name), tensors, (tensor) =>
      bytesOf(tensor, seed, repeatAfter),
    );
  }
}
