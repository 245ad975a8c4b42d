/** Ranges of memory for the native library. */
import type { TransferLibrary } from "./library.ts";
import type { WordTable } from "./word-table.ts";

/** Address of each buffer's first byte: buffers do not move. */
const addresses = new WeakMap<ArrayBufferLike, number>();

/** The address of a range's first byte. */
export function addressOf(library: TransferLibrary, range: Uint8Array): number {
  const { buffer, byteOffset } = range;
  const known = addresses.get(buffer);
  if (known !== undefined) return known + byteOffset;
  const address = library.address(new Uint8Array(buffer));
  addresses.set(buffer, address);
  return address + byteOffset;
}

/** (address, bytes) of each range. */
export function wordsOf(library: TransferLibrary, ranges: readonly Uint8Array[]): number[] {
  const words: number[] = [];
  for (const range of ranges) {
    if (range.byteLength > 0) words.push(addressOf(library, range), range.byteLength);
  }
  return words;
}

/** Calls `row` wherever either side's ranges are cut. Both are lists of (address, bytes). */
export function forEachRow(
  from: readonly number[],
  into: readonly number[],
  row: (from: number, to: number, bytes: number) => void,
): void {
  let source = 0;
  let target = 0;
  let taken = 0;
  let filled = 0;
  while (source < from.length && target < into.length) {
    const left = from[source + 1]! - taken;
    const room = into[target + 1]! - filled;
    const bytes = Math.min(left, room);
    row(from[source]! + taken, into[target]! + filled, bytes);
    taken += bytes;
    filled += bytes;
    if (bytes === left) {
      source += 2;
      taken = 0;
    }
    if (bytes === room) {
      target += 2;
      filled = 0;
    }
  }
}

/** A piece for `send` and `expect`. */
export interface NativePiece {
  readonly read: number;
  readonly piece: number;
  readonly ranges: readonly Uint8Array[];
}

/** Adds one to the table of such a call. */
export function addPiece(table: WordTable, library: TransferLibrary, added: NativePiece): void {
  const { read, piece, ranges } = added;
  table.add(read);
  table.add(piece);
  const count = table.length;
  table.add(0);
  let used = 0;
  for (const range of ranges) {
    if (range.byteLength === 0) continue;
    table.add(addressOf(library, range));
    table.add(range.byteLength);
    used++;
  }
  table.set(count, used);
}
