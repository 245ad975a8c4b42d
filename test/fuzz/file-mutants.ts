/** Mutants of model files in memory, and what may become of them. */
import { expect } from "vitest";
import { EngineError, philox, seedFrom } from "#base";
import type { MemoryFile } from "../checkpoint/memory-file.ts";

/** Mutants of each format. More: PERIGEE_FUZZ=1000000. */
export const MUTANTS = Number(process.env.PERIGEE_FUZZ ?? 10_000);
/** Values that break readers which trust them. */
const EXTREMES = [
  0n,
  1n,
  0x7fffffffn,
  0xffffffffn,
  2n ** 53n,
  2n ** 62n,
  2n ** 63n,
  2n ** 64n - 1n,
];

/** A stream of 32-bit draws. */
export function drawsOf(seed: number): (below: number) => number {
  let counter = 0;
  return (below) => {
    const [word] = philox([counter++, 0, 0, 0], seedFrom(seed));
    return word % below;
  };
}

/** One to four changes within the head: flipped bits, extremes, cuts, copies, other digits. */
export function mutate(
  source: Uint8Array,
  headBytes: number,
  draw: (below: number) => number,
): Uint8Array {
  let bytes = source.slice();
  for (let change = draw(4) + 1; change > 0; change--) {
    const at = draw(headBytes);
    const kind = draw(6);
    if (kind === 0) bytes[at] = (bytes[at] ?? 0) ^ (1 << draw(8));
    else if (kind === 1) bytes[at] = draw(256);
    else if (kind === 2) writeExtreme(bytes, at, draw);
    else if (kind === 3) bytes.copyWithin(at, draw(headBytes), draw(headBytes));
    else if (kind === 4) bytes[at] = 0x30 + draw(10);
    else if (draw(8) === 0) bytes = bytes.slice(0, draw(bytes.length));
    if (bytes.length < headBytes) break;
  }
  return bytes;
}

function writeExtreme(bytes: Uint8Array, at: number, draw: (below: number) => number): void {
  const value = EXTREMES[draw(EXTREMES.length)] ?? 0n;
  if (at + 8 <= bytes.length) new DataView(bytes.buffer).setBigUint64(at, value, true);
}

/** Opens and reads a mutant. True if it loaded; throws what is no answer to a broken file. */
export function survives(file: MemoryFile, open: (file: MemoryFile) => void): boolean {
  try {
    open(file);
    return true;
  } catch (error) {
    const answered =
      error instanceof EngineError &&
      (error.code === "CHECKPOINT_INVALID" || error.code === "UNSUPPORTED_MODEL");
    if (!answered) throw error;
    expect(error.message).toContain(file.path);
    return false;
  }
}
