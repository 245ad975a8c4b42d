/**
 * One stored block as a file: a header that identifies the block, then its bytes.
 *
 *   bytes            field
 *   0                magic
 *   8                version of this layout
 *   12               bytes of the header, H
 *   16               bytes of the payload
 *   20               number of tokens, N
 *   24               priority
 *   28               CRC-32 of the payload
 *   32               tokens, i32 each
 *   32 + 4N          JSON: fingerprint, hashRule, key, parentKey, scope, extra
 *   H - 4            CRC-32 of all bytes before
 *   H                payload
 *
 * Integers are little-endian and unsigned but for the tokens. The checksums detect damage (a power
 * cut, a bad sector, a truncated file), not attacks: only the owner may write to the folder, and
 * an attacker could compute the checksum too. CRC-32 detects all error bursts up to 32
 * bits and all but 2^-32 of the rest, at 5 GB/s on one core; SHA-256 takes three times as long.
 */
import { crc32 } from "node:zlib";
import type { BlockFile } from "#kvcache";

/** Properties shared by all files of one store. */
export interface FileShape {
  /** Of the model and the layout of its keys and values: `modelFingerprint`. */
  readonly fingerprint: string;
  /** How keys were computed. */
  readonly hashRule: string;
  readonly blockTokens: number;
  readonly bytesPerBlock: number;
}

/** A header that was read, and where the payload begins. */
export interface ReadHeader {
  readonly file: BlockFile;
  readonly headerBytes: number;
}

const MAGIC = Buffer.from("PGEE-KV\n", "latin1");
const VERSION = 1;
const VERSION_AT = 8;
const HEADER_BYTES_AT = 12;
const PAYLOAD_BYTES_AT = 16;
const TOKEN_COUNT_AT = 20;
const PRIORITY_AT = 24;
const PAYLOAD_CRC_AT = 28;
const TOKENS_AT = 32;
const CRC_BYTES = 4;
const TOKEN_BYTES = 4;
const PRIORITY_MAX = 100;

/** Longest header: a block whose scope or extra key does not fit is not stored. */
export const HEADER_BYTES_MAX = 64 * 1024;
/** Shortest header, and enough to read a header's length. */
export const HEADER_BYTES_MIN = TOKENS_AT + CRC_BYTES;

const KEY = /^[0-9a-f]{16,64}(?:-g\d{1,3})?$/;

/** Whether a text can be a key, and so a file's name: a digest, and a group of layers. */
export function isKey(text: string): boolean {
  return KEY.test(text);
}

/** The checksum that goes with a payload's header. */
export function payloadSum(payload: Uint8Array): number {
  return crc32(payload);
}

/** The header of `file`; null where it would be longer than `HEADER_BYTES_MAX`. */
export function encodeHeader(file: BlockFile, shape: FileShape, sum: number): Buffer | null {
  const { fingerprint, hashRule } = shape;
  const { key, parentKey, scope, extra, tokens, priority } = file;
  const names = JSON.stringify({ fingerprint, hashRule, key, parentKey, scope, extra });
  const namesAt = TOKENS_AT + tokens.length * TOKEN_BYTES;
  const headerBytes = namesAt + Buffer.byteLength(names) + CRC_BYTES;
  if (headerBytes > HEADER_BYTES_MAX) return null;
  const header = Buffer.alloc(headerBytes);
  MAGIC.copy(header);
  header.writeUInt32LE(VERSION, VERSION_AT);
  header.writeUInt32LE(headerBytes, HEADER_BYTES_AT);
  header.writeUInt32LE(shape.bytesPerBlock, PAYLOAD_BYTES_AT);
  header.writeUInt32LE(tokens.length, TOKEN_COUNT_AT);
  header.writeUInt32LE(priority, PRIORITY_AT);
  header.writeUInt32LE(sum, PAYLOAD_CRC_AT);
  for (const [index, token] of tokens.entries()) {
    header.writeInt32LE(token, TOKENS_AT + index * TOKEN_BYTES);
  }
  header.write(names, namesAt, "utf8");
  header.writeUInt32LE(crc32(header.subarray(0, headerBytes - CRC_BYTES)), headerBytes - CRC_BYTES);
  return header;
}

/**
 * Length of the header that begins with `start`, at least `HEADER_BYTES_MIN` bytes. Null: no header
 * of this format, or its length exceeds `HEADER_BYTES_MAX`.
 */
export function headerBytesOf(start: Buffer): number | null {
  if (start.length < HEADER_BYTES_MIN || !start.subarray(0, MAGIC.length).equals(MAGIC))
    return null;
  const bytes = start.readUInt32LE(HEADER_BYTES_AT);
  return bytes >= HEADER_BYTES_MIN && bytes <= HEADER_BYTES_MAX ? bytes : null;
}

/**
 * Decodes `bytes`, exactly one whole header, of a file of `fileBytes`. A string describes what is
 * wrong with it.
 */
export function decodeHeader(
  bytes: Buffer,
  fileBytes: number,
  shape: FileShape,
): ReadHeader | string {
  if (headerBytesOf(bytes) !== bytes.length) return "it has no whole header";
  const sumAt = bytes.length - CRC_BYTES;
  if (crc32(bytes.subarray(0, sumAt)) !== bytes.readUInt32LE(sumAt)) {
    return "its header fails the checksum";
  }
  const version = bytes.readUInt32LE(VERSION_AT);
  if (version !== VERSION) return `its format is version ${version}, wanted ${VERSION}`;
  const payloadBytes = bytes.readUInt32LE(PAYLOAD_BYTES_AT);
  const count = bytes.readUInt32LE(TOKEN_COUNT_AT);
  const priority = bytes.readUInt32LE(PRIORITY_AT);
  const namesAt = TOKENS_AT + count * TOKEN_BYTES;
  if (payloadBytes !== shape.bytesPerBlock || fileBytes !== bytes.length + payloadBytes) {
    return `it has ${fileBytes} bytes, wanted ${bytes.length + shape.bytesPerBlock}`;
  }
  if (count < 1 || count > shape.blockTokens || namesAt > sumAt || priority > PRIORITY_MAX) {
    return "its header does not describe a block of this model";
  }
  const names = readNames(bytes.toString("utf8", namesAt, sumAt), shape);
  if (typeof names === "string") return names;
  const tokens = Int32Array.from({ length: count }, (_, index) =>
    bytes.readInt32LE(TOKENS_AT + index * TOKEN_BYTES),
  );
  return { file: { ...names, tokens, priority }, headerBytes: bytes.length };
}

/**
 * Whether `header` and `payload`, as read, are `file`'s block and undamaged; its priority alone may
 * have changed since it was written. A string describes what is wrong.
 */
export function verifyBlock(
  read: { readonly header: Buffer; readonly payload: Uint8Array },
  file: BlockFile,
  shape: FileShape,
): true | string {
  const { header, payload } = read;
  const sum = header.readUInt32LE(PAYLOAD_CRC_AT);
  const priority = header.readUInt32LE(PRIORITY_AT);
  const wanted = encodeHeader({ ...file, priority }, shape, sum);
  if (wanted === null || !wanted.equals(header)) return "its header is not that of the block";
  return payloadSum(payload) === sum ? true : "its contents fail the checksum";
}

type Names = Pick<BlockFile, "key" | "parentKey" | "scope" | "extra">;

/** Parses a header's text. It passed the checksum, but any process may have written it. */
function readNames(text: string, shape: FileShape): Names | string {
  let names: unknown;
  try {
    names = JSON.parse(text);
  } catch {
    return "its header is not JSON";
  }
  if (typeof names !== "object" || names === null) return "its header is not a JSON object";
  const get = (field: string): unknown => Reflect.get(names, field);
  if (get("fingerprint") !== shape.fingerprint) return "it belongs to another model";
  if (get("hashRule") !== shape.hashRule) return "its key follows another hash rule";
  const [key, parentKey, scope, extra] = [get("key"), get("parentKey"), get("scope"), get("extra")];
  if (typeof key !== "string" || !isKey(key)) return "its key is not one";
  if (parentKey !== null && (typeof parentKey !== "string" || !isKey(parentKey))) {
    return "its parent's key is not one";
  }
  if (typeof scope !== "string" || typeof extra !== "string") return "its scope is not a text";
  return { key, parentKey, scope, extra };
}
