/** 64-bit names of blocks as pairs of 32-bit numbers. */
import type { BlockNames } from "#cluster/protocol";

/** Multipliers whose products are far apart for small numbers. */
const GROUP_LOW = 0x9e37_79b9;
const GROUP_HIGH = 0x85eb_ca6b;

/**
 * Names for hashes of a group of layers. Engines give equal tokens one hash in all groups; the
 * names differ. Group 0 has the hashes themselves. Signed hashes become unsigned.
 */
export function blockNames(hashes: readonly bigint[], group = 0): BlockNames {
  const names = new Uint32Array(hashes.length * 2);
  hashes.forEach((hash, place) => {
    setName(names, place, hash, group);
  });
  return names;
}

/** Names for hashes that are pairs of numbers already. */
export function groupedNames(hashes: Uint32Array, group: number): BlockNames {
  if (group === 0) return hashes;
  const [low, high] = [Math.imul(group, GROUP_LOW), Math.imul(group, GROUP_HIGH)];
  return hashes.map((half, place) => half ^ (place % 2 === 0 ? low : high));
}

/** Writes one name at a place. */
export function setName(names: BlockNames, place: number, hash: bigint, group = 0): void {
  // A typed array takes the low 32 bits of what it is given.
  names[place * 2] = Number(BigInt.asUintN(32, hash)) ^ Math.imul(group, GROUP_LOW);
  names[place * 2 + 1] = Number(BigInt.asUintN(32, hash >> 32n)) ^ Math.imul(group, GROUP_HIGH);
}
