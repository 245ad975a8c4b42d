/**
 * How two processes show each other that they know the same secret, without saying it: each answers
 * the other's random bytes with an HMAC-SHA256 of both.
 */
import { createHash, createHmac, randomBytes, timingSafeEqual } from "node:crypto";

export const NONCE_BYTES = 32;
export const PROOF_BYTES = 32;
export const KEY_ID_BYTES = 8;

/** Which of two sides proves it: a proof cannot be sent back to who made it. */
export type Side = "asks" | "answers";

export function newNonce(): Buffer {
  return randomBytes(NONCE_BYTES);
}

/** Tells which of several secrets is meant. */
export function keyId(secret: string): Buffer {
  return createHash("sha256").update(`key\n${secret}`).digest().subarray(0, KEY_ID_BYTES);
}

/** `asked` and `answered`: the nonces of the side that connected and of the one that listens. */
export function proofOf(side: Side, secret: string, asked: Buffer, answered: Buffer): Buffer {
  return createHmac("sha256", secret).update(side).update(asked).update(answered).digest();
}

export function isProof(given: Buffer, expected: Buffer): boolean {
  return given.length === expected.length && timingSafeEqual(given, expected);
}
