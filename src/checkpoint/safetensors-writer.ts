import { closeSync, openSync, writeSync } from "node:fs";
import { assert, EngineError, messageOf } from "#base";
import { bytesOf, elementCount, type Shape } from "#tensor";
import type { WeightDType } from "./named-weight.ts";

/** A tensor to be written. `bytes` holds little-endian elements, densely. */
export interface TensorToWrite {
  readonly name: string;
  readonly dtype: WeightDType;
  readonly shape: Shape;
  readonly bytes: Uint8Array;
}

/**
 * Writes a safetensors file, tensors in the order given. The header is padded so that the data
 * begins at a multiple of 8. Throws IO.
 */
export function writeSafetensors(
  path: string,
  tensors: readonly TensorToWrite[],
  metadata: Readonly<Record<string, string>> = {},
): void {
  const header = headerOf(tensors, metadata);
  try {
    const descriptor = openSync(path, "w");
    try {
      writeAll(descriptor, header);
      for (const tensor of tensors) writeAll(descriptor, tensor.bytes);
    } finally {
      closeSync(descriptor);
    }
  } catch (cause) {
    const message = `Cannot write ${path}: it must be writable, ${messageOf(cause)}`;
    throw new EngineError("IO", message, { cause });
  }
}

function headerOf(
  tensors: readonly TensorToWrite[],
  metadata: Readonly<Record<string, string>>,
): Uint8Array {
  const entries = new Map<string, unknown>();
  if (Object.keys(metadata).length > 0) entries.set("__metadata__", metadata);
  let at = 0;
  for (const { name, dtype, shape, bytes } of tensors) {
    const wanted = elementCount(shape) * bytesOf(dtype);
    assert(bytes.length === wanted, `${name} has ${bytes.length} bytes instead of ${wanted}`);
    assert(!entries.has(name), `two tensors are called ${name}`);
    const end = at + bytes.length;
    entries.set(name, { dtype: dtype.toUpperCase(), shape, data_offsets: [at, end] });
    at = end;
  }
  const json = new TextEncoder().encode(JSON.stringify(Object.fromEntries(entries)));
  const paddedBytes = Math.ceil(json.length / 8) * 8;
  const header = new Uint8Array(8 + paddedBytes).fill(0x20);
  new DataView(header.buffer).setBigUint64(0, BigInt(paddedBytes), true);
  header.set(json, 8);
  return header;
}

function writeAll(descriptor: number, bytes: Uint8Array): void {
  for (let done = 0; done < bytes.length; ) {
    done += writeSync(descriptor, bytes, done, Math.min(2 ** 30, bytes.length - done));
  }
}
