/** Writes GGUF files for tests: version 3, little endian, aligned to 32 bytes. */

export type MetadataEntry =
  | readonly ["u8", number]
  | readonly ["u32", number]
  | readonly ["i32", number]
  | readonly ["f32", number]
  | readonly ["u64", number]
  | readonly ["bool", boolean]
  | readonly ["string", string]
  | readonly ["strings", readonly string[]]
  | readonly ["i32s", readonly number[]]
  | readonly ["f32s", readonly number[]];

export interface TensorEntry {
  readonly name: string;
  /** GGUF's type number: 0 F32, 1 F16, 8 Q8_0, 30 BF16. */
  readonly type: number;
  /** Outermost first, as everywhere in this project. */
  readonly shape: readonly number[];
  readonly bytes: Uint8Array;
}

export interface GgufContent {
  readonly version?: number;
  readonly metadata: Readonly<Record<string, MetadataEntry>>;
  readonly tensors: readonly TensorEntry[];
}

const ALIGNMENT = 32;
const SCALARS = { u8: 0, u32: 4, i32: 5, f32: 6, bool: 7, string: 8, u64: 10 } as const;

export function writeGguf({ version = 3, metadata, tensors }: GgufContent): Uint8Array {
  const parts: Buffer[] = [Buffer.from("GGUF"), u32(version)];
  parts.push(u64(tensors.length), u64(Object.keys(metadata).length));
  for (const [key, entry] of Object.entries(metadata)) parts.push(text(key), value(entry));
  let offset = 0;
  for (const { name, type, shape, bytes } of tensors) {
    const extents = [...shape].reverse().map(u64);
    parts.push(text(name), u32(shape.length), ...extents, u32(type), u64(offset));
    offset = aligned(offset + bytes.length);
  }
  const head = Buffer.concat(parts);
  const file = new Uint8Array(aligned(head.length) + offset);
  file.set(head);
  let at = aligned(head.length);
  for (const { bytes } of tensors) {
    file.set(bytes, at);
    at = aligned(at + bytes.length);
  }
  return file;
}

const NUMBERS = { u8: (byte: number) => Buffer.from([byte]), u32, i32, f32, u64 };

function aligned(size: number): number {
  return Math.ceil(size / ALIGNMENT) * ALIGNMENT;
}

function value(entry: MetadataEntry): Buffer {
  const [kind, content] = entry;
  switch (kind) {
    case "strings":
      return array(SCALARS.string, content.map(text));
    case "i32s":
      return array(SCALARS.i32, content.map(i32));
    case "f32s":
      return array(SCALARS.f32, content.map(f32));
    case "string":
      return Buffer.concat([u32(SCALARS.string), text(content)]);
    case "bool":
      return Buffer.concat([u32(SCALARS.bool), Buffer.from([content ? 1 : 0])]);
    default:
      return Buffer.concat([u32(SCALARS[kind]), NUMBERS[kind](content)]);
  }
}

function array(type: number, items: readonly Buffer[]): Buffer {
  return Buffer.concat([u32(9), u32(type), u64(items.length), ...items]);
}

function text(content: string): Buffer {
  const bytes = Buffer.from(content);
  return Buffer.concat([u64(bytes.length), bytes]);
}

function u32(number: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(number);
  return bytes;
}

function i32(number: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32LE(number);
  return bytes;
}

function f32(number: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(number);
  return bytes;
}

function u64(number: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(number));
  return bytes;
}
