/** A GGUF file of a small Llama whose matrices have one of GGUF's types. */
import { BLOCK_TYPES, randomBlocks } from "../../bench/gguf-blocks.mjs";
import { Dice } from "./dice.mjs";

/** What a file's matrices can be. */
export const GGUF_TYPES = ["f32", ...Object.keys(BLOCK_TYPES)];
/** Rows of the K types are whole blocks of 256. */
const HIDDEN = 256;
const VOCABULARY = ["<unk>", "<s>", "</s>", "a", "b", "ab", "▁", "▁a"];
const ALIGNMENT = 32;
/** So small that activations stay finite. */
const DEVIATION = 0.02;

const METADATA = [
  ["general.architecture", "string", "llama"],
  ["general.alignment", "u32", ALIGNMENT],
  ["llama.embedding_length", "u32", HIDDEN],
  ["llama.block_count", "u32", 1],
  ["llama.attention.head_count", "u32", 8],
  ["llama.attention.head_count_kv", "u32", 4],
  ["llama.feed_forward_length", "u32", HIDDEN],
  ["llama.context_length", "u32", 64],
  ["llama.rope.freq_base", "f32", 10_000],
  ["llama.attention.layer_norm_rms_epsilon", "f32", 1e-5],
  ["tokenizer.ggml.model", "string", "llama"],
  ["tokenizer.ggml.tokens", "strings", VOCABULARY],
  ["tokenizer.ggml.scores", "f32s", VOCABULARY.map((_, index) => -index)],
  ["tokenizer.ggml.token_type", "i32s", [2, 3, 3, 1, 1, 1, 1, 1]],
  ["tokenizer.ggml.bos_token_id", "u32", 1],
  ["tokenizer.ggml.eos_token_id", "u32", 2],
  ["tokenizer.chat_template", "string", "{{ messages[0]['content'] }}"],
];

const MATRICES = [
  ["token_embd.weight", VOCABULARY.length, HIDDEN],
  ["blk.0.attn_q.weight", HIDDEN, HIDDEN],
  ["blk.0.attn_k.weight", HIDDEN / 2, HIDDEN],
  ["blk.0.attn_v.weight", HIDDEN / 2, HIDDEN],
  ["blk.0.attn_output.weight", HIDDEN, HIDDEN],
  ["blk.0.ffn_gate.weight", HIDDEN, HIDDEN],
  ["blk.0.ffn_up.weight", HIDDEN, HIDDEN],
  ["blk.0.ffn_down.weight", HIDDEN, HIDDEN],
];
const VECTORS = ["output_norm.weight", "blk.0.attn_norm.weight", "blk.0.ffn_norm.weight"];

/** The file's bytes: version 3, little endian. */
export function ggufFile(type) {
  const tensors = [
    ...MATRICES.map(([name, ...shape]) => ({ name, shape, ...blocksOf(type, shape) })),
    ...VECTORS.map((name) => ({ name, shape: [HIDDEN], type: 0, bytes: ones(HIDDEN) })),
  ];
  const head = [Buffer.from("GGUF"), u32(3), u64(tensors.length), u64(METADATA.length)];
  for (const [key, kind, value] of METADATA) head.push(text(key), WRITERS[kind](value));
  let offset = 0;
  for (const { name, shape, type, bytes } of tensors) {
    const extents = shape.toReversed().map(u64);
    head.push(text(name), u32(shape.length), ...extents, u32(type), u64(offset));
    offset += padded(bytes).length;
  }
  return Buffer.concat([padded(Buffer.concat(head)), ...tensors.map(({ bytes }) => padded(bytes))]);
}

function blocksOf(type, shape) {
  const count = shape[0] * shape[1];
  if (type === "f32") {
    const values = Float32Array.from({ length: count }, (_, at) => ((at % 7) - 3) / 64);
    return { type: 0, bytes: Buffer.from(values.buffer) };
  }
  const dice = new Dice(1, count);
  const random = () => dice.below(2 ** 32) / 2 ** 32;
  const bytes = randomBlocks({ type, count, deviation: DEVIATION, random });
  return { type: BLOCK_TYPES[type].id, bytes };
}

function ones(count) {
  return Buffer.from(new Float32Array(count).fill(1).buffer);
}

function padded(bytes) {
  return Buffer.concat([bytes, Buffer.alloc((ALIGNMENT - (bytes.length % ALIGNMENT)) % ALIGNMENT)]);
}

const WRITERS = {
  u32: (value) => Buffer.concat([u32(4), u32(value)]),
  f32: (value) => Buffer.concat([u32(6), f32(value)]),
  string: (value) => Buffer.concat([u32(8), text(value)]),
  strings: (values) => list(8, values.map(text)),
  i32s: (values) => list(5, values.map(u32)),
  f32s: (values) => list(6, values.map(f32)),
};

function list(type, items) {
  return Buffer.concat([u32(9), u32(type), u64(items.length), ...items]);
}

function text(content) {
  const bytes = Buffer.from(content);
  return Buffer.concat([u64(bytes.length), bytes]);
}

function u32(value) {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

function f32(value) {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(value);
  return bytes;
}

function u64(value) {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}
