/** Blocks for the benchmarks of the disk tier: what is in one follows from its number. */
import { createHash } from "node:crypto";
import { systemClock, systemTimer } from "../dist/base/index.js";
import { DiskStore } from "../dist/engine/tiers/disk-store.js";

export const BLOCK_TOKENS = 16;
/** Blocks of one history; the next ones begin at the root again. */
const HISTORY = 64;

const keyOf = (index) => createHash("sha256").update(String(index)).digest("hex");

/** What the file of the `index`-th block says. */
export function blockFile(index) {
  return {
    key: keyOf(index),
    parentKey: index % HISTORY === 0 ? null : keyOf(index - 1),
    scope: "",
    extra: "",
    tokens: Int32Array.from({ length: BLOCK_TOKENS }, (_, at) => index * BLOCK_TOKENS + at),
    priority: 35,
  };
}

/** Number of a block from its file. */
export const indexOf = (file) => file.tokens[0] / BLOCK_TOKENS;

/** Fills `into` with the bytes of the `index`-th block: a generator that starts at its number. */
export function fillPayload(into, index) {
  const words = new Uint32Array(into.buffer, into.byteOffset, into.byteLength >> 2);
  let state = (index * 2654435761 + 1) >>> 0;
  for (let at = 0; at < words.length; at++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    words[at] = state;
  }
  return into;
}

/** Opens a store; its warnings go to `warn`. */
export function openStore(dir, bytesPerBlock, warn, capacityBlocks = 1_000_000) {
  return DiskStore.open({
    dir,
    fingerprint: "0123456789abcdef0123456789abcdef",
    hashRule: "sha256_cbor",
    blockTokens: BLOCK_TOKENS,
    bytesPerBlock,
    capacityBlocks,
    clock: systemClock,
    timer: systemTimer,
    warn,
  });
}
