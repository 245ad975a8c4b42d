/** What one engine asks of another: blocks of a prompt. */
import { EngineError, isPlainObject } from "#base";
import type { StageOffer } from "#engine/protocol";
import type { TransferLevel } from "#kvcache";
import type { PeerAddress } from "./peer-port.ts";

/** Bytes of the description before the token ids. */
const HEAD_BYTES_MAX = 8192;
const SALT_LENGTH_MAX = 4096;
const SCOPE_LENGTH_MAX = 256;
const HOST_LENGTH_MAX = 253;

/** A question for blocks of a prompt. */
export interface BlockAsk {
  /** Both engines' `ModelInfo.fingerprint`: weights, arithmetic and format of blocks. */
  readonly fingerprint: string;
  readonly blockTokens: number;
  readonly bytesPerBlock: number;
  readonly cacheSalt: string | null;
  /** `Device.sharingScope` of who has room for them on its device; null: in host memory. */
  readonly sharingScope: string | null;
  /** The first block that is wanted, and how many are. */
  readonly from: number;
  readonly blocks: number;
  /** Compute what is not stored; off: only what is stored is wanted. */
  readonly compute: boolean;
  /** No request waits for them: they take little of the giver's host memory on their way. */
  readonly spare: boolean;
  readonly priority: number;
  readonly deadlineMs: number;
  /** Who has more of the prompt: it is fetched there first; null: no engine. */
  readonly prefix: PeerAddress | null;
  readonly tokens: Int32Array<ArrayBuffer>;
}

/** What an engine answers. */
export type BlockAnswer = BlocksToCome | { readonly error: string };

export interface BlocksToCome {
  /** Null: nothing of what was asked for is stored. */
  readonly offer: string | null;
  /** Where blocks leave: the device only if its scope is the one that was asked for. */
  readonly level: TransferLevel;
  /** Where it is read, on the machine that was asked. */
  readonly port: number;
  /** Blocks that come, from the first one that was asked for on. */
  readonly blocks: number;
  /** Of the prompt's leading blocks, those that were stored when it was asked. */
  readonly storedBlocks: number;
  /** The ends of each block that further stages offer, in order. Absent: whole blocks come. */
  readonly parts?: readonly StageOffer[];
}

type Check = (value: unknown) => boolean;

const isText =
  (most: number): Check =>
  (value) =>
    typeof value === "string" && value.length <= most;
const isWhole =
  (least: number, most = Number.MAX_SAFE_INTEGER): Check =>
  (value) =>
    Number.isSafeInteger(value) && Number(value) >= least && Number(value) <= most;
const isFlag: Check = (value) => typeof value === "boolean";
const orNull =
  (check: Check): Check =>
  (value) =>
    value === null || check(value);

const isAddress: Check = (value) =>
  hasFields<PeerAddress>(value, { host: isText(HOST_LENGTH_MAX), port: isWhole(1, 65_535) });

const HEAD: Readonly<Record<Exclude<keyof BlockAsk, "tokens">, Check>> = {
  fingerprint: isText(256),
  blockTokens: isWhole(1),
  bytesPerBlock: isWhole(1),
  cacheSalt: orNull(isText(SALT_LENGTH_MAX)),
  sharingScope: orNull(isText(SCOPE_LENGTH_MAX)),
  from: isWhole(0),
  blocks: isWhole(1),
  compute: isFlag,
  spare: isFlag,
  priority: isWhole(Number.MIN_SAFE_INTEGER),
  deadlineMs: isWhole(1, 2 ** 31 - 1),
  prefix: orNull(isAddress),
};

/** As many as there are stages behind a first one, at most. */
const PARTS_MAX = 63;

const PART: Readonly<Record<keyof StageOffer, Check>> = {
  offer: isText(256),
  port: isWhole(1, 65_535),
  bytes: isWhole(1),
};

const areParts: Check = (value) =>
  Array.isArray(value) &&
  value.length >= 1 &&
  value.length <= PARTS_MAX &&
  value.every((part) => hasFields<StageOffer>(part, PART));

const TO_COME: Readonly<Record<Exclude<keyof BlocksToCome, "parts">, Check>> = {
  offer: orNull(isText(256)),
  level: (value) => value === "device" || value === "host",
  port: isWhole(0, 65_535),
  blocks: isWhole(0),
  storedBlocks: isWhole(0),
};

const REFUSAL: Readonly<Record<"error", Check>> = { error: isText(4096) };

/** Whether a value has these fields, and no others. */
function hasFields<Fields extends object>(
  value: unknown,
  checks: Readonly<Partial<Record<keyof Fields, Check>>>,
): value is Fields {
  if (!isPlainObject(value)) return false;
  const names = Object.keys(checks) as (keyof Fields & string)[]; // a record's own keys
  if (Object.keys(value).length !== names.length) return false;
  return names.every((name) => Object.hasOwn(value, name) && checks[name]?.(value[name]) === true);
}

const LENGTH_BYTES = 4;

/** The length of the description, the description, and the ids, little-endian. */
export function encodeAsk({ tokens, ...head }: BlockAsk): Uint8Array {
  const text = Buffer.from(JSON.stringify(head));
  const length = Buffer.alloc(LENGTH_BYTES);
  length.writeUInt32LE(text.length);
  const ids = Buffer.alloc(tokens.length * Int32Array.BYTES_PER_ELEMENT);
  for (const [place, id] of tokens.entries()) ids.writeInt32LE(id, 4 * place);
  return Buffer.concat([length, text, ids]);
}

/** Parses a question of a stranger. Throws INVALID_ARGUMENT. */
export function decodeAsk(
  message: Uint8Array,
  { tokensMax, vocabularySize }: { tokensMax: number; vocabularySize: number },
): BlockAsk {
  const bytes = Buffer.from(message.buffer, message.byteOffset, message.byteLength);
  if (bytes.length < LENGTH_BYTES) throw unreadable("it is too short");
  const headBytes = bytes.readUInt32LE(0);
  const start = LENGTH_BYTES + headBytes;
  if (headBytes > HEAD_BYTES_MAX || start > bytes.length) throw unreadable("its head is too long");
  const idBytes = bytes.length - start;
  const count = idBytes / Int32Array.BYTES_PER_ELEMENT;
  if (!Number.isInteger(count)) throw unreadable("it ends within a token id");
  if (count < 1 || count > tokensMax) {
    throw unreadable(`it must have 1 to ${tokensMax} token ids, has ${count}`);
  }
  const head = jsonOf(bytes.subarray(LENGTH_BYTES, start));
  if (!hasFields<Omit<BlockAsk, "tokens">>(head, HEAD)) throw unreadable("its head is not one");
  const tokens = new Int32Array(count);
  for (let place = 0; place < count; place++) {
    const id = bytes.readInt32LE(start + 4 * place);
    if (id < 0 || id >= vocabularySize) throw unreadable(`token id ${id} is in no vocabulary`);
    tokens[place] = id;
  }
  return { ...head, tokens };
}

/** A question how many tokens of a prompt, whose blocks are offered, were cached. */
export function encodeCountAsk(offer: string): Uint8Array {
  const text = Buffer.from(JSON.stringify({ cachedOf: offer }));
  const length = Buffer.alloc(LENGTH_BYTES);
  length.writeUInt32LE(text.length);
  return Buffer.concat([length, text]);
}

const COUNT_ASK: Readonly<Record<"cachedOf", Check>> = { cachedOf: isText(256) };

/** The offer that a stranger's question asks the count of; null: it is no such question. */
export function countedOffer(message: Uint8Array): string | null {
  const bytes = Buffer.from(message.buffer, message.byteOffset, message.byteLength);
  const headBytes = bytes.length - LENGTH_BYTES;
  if (headBytes < 0 || headBytes > HEAD_BYTES_MAX || bytes.readUInt32LE(0) !== headBytes) {
    return null;
  }
  const head = jsonOf(bytes.subarray(LENGTH_BYTES));
  return hasFields<{ cachedOf: string }>(head, COUNT_ASK) ? head.cachedOf : null;
}

const COUNT: Readonly<Record<"cachedTokens", Check>> = { cachedTokens: isWhole(0) };

/** Null: it is not known. */
export function encodeCount(cachedTokens: number | null): Uint8Array {
  return Buffer.from(JSON.stringify(cachedTokens === null ? {} : { cachedTokens }));
}

/** Parses a peer's answer, which may be that of an older engine; null: it does not say. */
export function decodeCount(message: Uint8Array): number | null {
  if (message.length > HEAD_BYTES_MAX) return null;
  const count = jsonOf(message);
  return hasFields<{ cachedTokens: number }>(count, COUNT) ? count.cachedTokens : null;
}

export function encodeAnswer(answer: BlockAnswer): Uint8Array {
  return Buffer.from(JSON.stringify(answer));
}

/** Parses a peer's answer. Throws INVALID_ARGUMENT. */
export function decodeAnswer(message: Uint8Array): BlockAnswer {
  if (message.length > HEAD_BYTES_MAX) throw unreadable("it is too long");
  const answer = jsonOf(message);
  if (hasFields<BlocksToCome>(answer, TO_COME)) return answer;
  if (hasFields<BlocksToCome>(answer, { ...TO_COME, parts: areParts })) return answer;
  if (hasFields<{ error: string }>(answer, REFUSAL)) return answer;
  throw unreadable("it is no answer");
}

function jsonOf(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(bytes).toString("utf8"));
  } catch {
    throw unreadable("its head is not JSON");
  }
}

function unreadable(why: string): EngineError {
  return new EngineError("INVALID_ARGUMENT", `Cannot read another engine's message: ${why}`);
}
