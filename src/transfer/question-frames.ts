/** What questions and answers look like on a connection: see questions.ts. */

export const MAGIC = Buffer.from("PGQ2");
export const LENGTH_BYTES = 4;
/** Ten times the ids of the longest contexts that are served. */
export const QUESTION_BYTES_MAX = 16 * 2 ** 20;
export const ANSWER_BYTES_MAX = 2 ** 20;

/** In place of a nonce and its proof, which are as long: nothing is answered in clear. */
export const ENCRYPTED: Buffer = Buffer.alloc(64, "this peer encrypts; ");

export function framed(bytes: Uint8Array): Buffer {
  const length = Buffer.alloc(LENGTH_BYTES);
  length.writeUInt32LE(bytes.length);
  return Buffer.concat([length, bytes]);
}
