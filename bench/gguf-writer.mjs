/**
 * Writes GGUF v3: metadata, then aligned tensors, one at a time.
 * Source: the GGUF specification of the ggml project.
 */
import { closeSync, openSync, writeSync } from "node:fs";
import { BLOCK_TYPES } from "./gguf-blocks.mjs";

const ALIGNMENT = 32;
const MAGIC = "GGUF";
const VERSION = 3;
const VALUE_TYPES = { u32: 4, i32: 5, f32: 6, bool: 7, string: 8, array: 9 };
/** ggml type id, elements and bytes of one quantisation block. */
const TENSOR_TYPES = {
  f32: { id: 0, elements: 1, bytes: 4 },
  f16: { id: 1, elements: 1, bytes: 2 },
  bf16: { id: 30, elements: 1, bytes: 2 },
  ...BLOCK_TYPES,
};

/** Collects little-endian fields. */
class Fields {
  #parts = [];

  bytes(buffer) {
    this.#parts.push(buffer);
  }

  u32(value) {
    const buffer = Buffer.alloc(4);
    buffer.writeUInt32LE(value);
    this.bytes(buffer);
  }

  u64(value) {
    const buffer = Buffer.alloc(8);
    buffer.writeBigUInt64LE(BigInt(value));
    this.bytes(buffer);
  }

  string(text) {
    const buffer = Buffer.from(text);
    this.u64(buffer.length);
    this.bytes(buffer);
  }

  value(type, value) {
    if (type === "string") return this.string(value);
    if (type === "bool") return this.bytes(Buffer.from([value ? 1 : 0]));
    const buffer = Buffer.alloc(4);
    if (type === "f32") buffer.writeFloatLE(value);
    else if (type === "i32") buffer.writeInt32LE(value);
    else buffer.writeUInt32LE(value);
    this.bytes(buffer);
  }

  done() {
    return Buffer.concat(this.#parts);
  }
}

/** @param {{ shape: number[], type: string }} tensor */
export function byteLength({ shape, type }) {
  const { elements, bytes } = TENSOR_TYPES[type];
  return (shape.reduce((product, extent) => product * extent, 1) / elements) * bytes;
}

function header(metadata, tensors) {
  const fields = new Fields();
  fields.bytes(Buffer.from(MAGIC));
  fields.u32(VERSION);
  fields.u64(tensors.length);
  fields.u64(metadata.length);
  for (const { key, type, value } of metadata) {
    fields.string(key);
    if (Array.isArray(value)) {
      fields.u32(VALUE_TYPES.array);
      fields.u32(VALUE_TYPES[type]);
      fields.u64(value.length);
      for (const item of value) fields.value(type, item);
    } else {
      fields.u32(VALUE_TYPES[type]);
      fields.value(type, value);
    }
  }
  let offset = 0;
  for (const tensor of tensors) {
    fields.string(tensor.name);
    fields.u32(tensor.shape.length);
    // Fastest dimension first.
    for (const extent of [...tensor.shape].reverse()) fields.u64(extent);
    fields.u32(TENSOR_TYPES[tensor.type].id);
    fields.u64(offset);
    offset += align(byteLength(tensor));
  }
  const bytes = fields.done();
  return Buffer.concat([bytes, Buffer.alloc(align(bytes.length) - bytes.length)]);
}

const align = (size) => Math.ceil(size / ALIGNMENT) * ALIGNMENT;

/**
 * @param {string} path
 * @param {{ key: string, type: string, value: unknown }[]} metadata
 * @param {{ name: string, shape: number[], type: string }[]} tensors rows first
 * @param {(tensor: object) => Buffer} encode called once per tensor, in order
 */
export function writeGguf(path, metadata, tensors, encode) {
  const file = openSync(path, "w");
  try {
    writeAll(file, header(metadata, tensors));
    for (const tensor of tensors) {
      const bytes = encode(tensor);
      writeAll(file, bytes);
      writeAll(file, Buffer.alloc(align(bytes.length) - bytes.length));
    }
  } finally {
    closeSync(file);
  }
}

function writeAll(file, bytes) {
  for (let done = 0; done < bytes.length; ) done += writeSync(file, bytes, done);
}
