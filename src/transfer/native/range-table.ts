/** Ranges of memory as words for the native library. */
import type { TransferLibrary } from "./library.ts";

/** Address of each buffer's first byte: buffers do not move. */
const addresses = new WeakMap<ArrayBufferLike, bigint>();

/** The address of a range's first byte. */
export function addressOf(library: TransferLibrary, range: Uint8Array): bigint {
  const known = addresses.get(range.buffer);
  if (known !== undefined) return known + BigInt(range.byteOffset);
  const address = library.address(new Uint8Array(range.buffer));
  addresses.set(range.buffer, address);
  return address + BigInt(range.byteOffset);
}

/** (address, bytes) of each range. */
export function wordsOf(library: TransferLibrary, ranges: readonly Uint8Array[]): bigint[] {
  const words: bigint[] = [];
  for (const range of ranges) {
    if (range.byteLength > 0) words.push(addressOf(library, range), BigInt(range.byteLength));
  }
  return words;
}

/** (from, to, bytes) wherever either side's ranges are cut. Both are lists of (address, bytes). */
export function copyRows(from: readonly bigint[], into: readonly bigint[]): bigint[] {
  const rows: bigint[] = [];
  let source = 0;
  let target = 0;
  let taken = 0n;
  let filled = 0n;
  while (source < from.length && target < into.length) {
    const left = from[source + 1]! - taken;
    const room = into[target + 1]! - filled;
    // biome-ignore lint/complexity/useMathMinMax: Math.min takes no bigints
    const bytes = left < room ? left : room;
    rows.push(from[source]! + taken, into[target]! + filled, bytes);
    taken += bytes;
    filled += bytes;
    if (bytes === left) {
      source += 2;
      taken = 0n;
    }
    if (bytes === room) {
      target += 2;
      filled = 0n;
    }
  }
  return rows;
}

/** One piece of a table for `send` and `expect`. */
export function pieceWords(read: number, piece: number, ranges: readonly bigint[]): bigint[] {
  return [BigInt(read), BigInt(piece), BigInt(ranges.length / 2), ...ranges];
}
