/** What one engine asks of another: blocks of a prompt. */
import { z } from "zod";
import { EngineError } from "#base";

/** Bytes of the description before the token ids. */
const HEAD_BYTES_MAX = 8192;
const SALT_LENGTH_MAX = 4096;

const Head = z.strictObject({
  /** Both engines' `ModelInfo.fingerprint`: weights, arithmetic and format of blocks. */
  fingerprint: z.string().max(256),
  blockTokens: z.int().positive(),
  bytesPerBlock: z.int().positive(),
  cacheSalt: z.string().max(SALT_LENGTH_MAX).nullable(),
  /** The first block that is wanted, and how many are. */
  from: z.int().nonnegative(),
  blocks: z.int().positive(),
  /** Compute what is not stored; off: only what is stored is wanted. */
  compute: z.boolean(),
  priority: z.int(),
  deadlineMs: z.int().positive(),
});

/** A question for blocks of a prompt. */
export interface BlockAsk extends z.output<typeof Head> {
  readonly tokens: Int32Array<ArrayBuffer>;
}

const Answer = z.union([
  z.strictObject({
    /** Null: nothing of what was asked for is stored. */
    offer: z.string().max(256).nullable(),
    /** Blocks that come, from the first one that was asked for on. */
    blocks: z.int().nonnegative(),
    /** Of the prompt's leading blocks, those that were stored when it was asked. */
    storedBlocks: z.int().nonnegative(),
  }),
  z.strictObject({ error: z.string().max(4096) }),
]);

/** What an engine answers. */
export type BlockAnswer = z.output<typeof Answer>;

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
  const head = Head.safeParse(jsonOf(bytes.subarray(LENGTH_BYTES, start)));
  if (!head.success) throw unreadable(z.prettifyError(head.error));
  const tokens = new Int32Array(count);
  for (let place = 0; place < count; place++) {
    const id = bytes.readInt32LE(start + 4 * place);
    if (id < 0 || id >= vocabularySize) throw unreadable(`token id ${id} is in no vocabulary`);
    tokens[place] = id;
  }
  return { ...head.data, tokens };
}

export function encodeAnswer(answer: BlockAnswer): Uint8Array {
  return Buffer.from(JSON.stringify(answer));
}

/** Parses a peer's answer. Throws INVALID_ARGUMENT. */
export function decodeAnswer(message: Uint8Array): BlockAnswer {
  if (message.length > HEAD_BYTES_MAX) throw unreadable("it is too long");
  const answer = Answer.safeParse(jsonOf(message));
  if (!answer.success) throw unreadable(z.prettifyError(answer.error));
  return answer.data;
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
