/** A GGUF file of a small Llama whose matrices have one of GGUF's types. */

const TYPES = {
  F32: { id: 0, elements: 1, bytes: 4 },
  Q8_0: { id: 8, elements: 32, bytes: 34 },
  Q4_K: { id: 12, elements: 256, bytes: 144 },
};
/** Rows of Q4_K are whole blocks of 256. */
const HIDDEN = 256;
const VOCABULARY = ["<unk>", "<s>", "</s>", "a", "b", "ab", "▁", "▁a"];
const ALIGNMENT = 32;
const SMALL_F16 = 0x1400;

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
export function ggufFile(typeName) {
  const tensors = [
    ...MATRICES.map(([name, ...shape]) => ({ name, shape, ...blocksOf(TYPES[typeName], shape) })),
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

/** Small scales, so that whatever the quantised values are, activations stay finite. */
function blocksOf(type, shape) {
  const count = (shape[0] * shape[1]) / type.elements;
  const bytes = Buffer.alloc(count * type.bytes);
  for (let block = 0; block < count; block++) {
    const at = block * type.bytes;
    if (type.id === 0) bytes.writeFloatLE(((block % 7) - 3) / 64, at);
    else bytes.fill(block & 0x7f, at).writeUInt16LE(SMALL_F16, at);
    if (type.id === 12) bytes.writeUInt16LE(SMALL_F16, at + 2);
  }
  return { type: type.id, bytes };
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
