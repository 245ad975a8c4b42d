/** Sizes in bytes as text: `1073741824`, `1GiB`, `1.5 GB`. */

/** Bytes of a unit, by its name in lower case. */
const UNIT_BYTES: ReadonlyMap<string, number> = new Map([
  ["b", 1],
  ["kb", 1e3],
  ["mb", 1e6],
  ["gb", 1e9],
  ["tb", 1e12],
  ["kib", 2 ** 10],
  ["mib", 2 ** 20],
  ["gib", 2 ** 30],
  ["tib", 2 ** 40],
]);

/** The form that flags and files want. */
export const SIZE_WANTED = "a number of bytes, or one with a unit, such as 512MiB, 1GiB or 2GB";

const SIZE = /^\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*$/i;

/** Bytes of a text, rounded down where a unit makes a fraction of one; null: it is no size. */
export function bytesOfText(text: string): number | null {
  const plain = Number(text);
  if (text.trim() !== "" && Number.isFinite(plain)) return plain;
  const [, amount, unit = ""] = SIZE.exec(text) ?? [];
  const bytes = UNIT_BYTES.get(unit.toLowerCase());
  return bytes === undefined ? null : Math.floor(Number(amount) * bytes);
}

/** What is wrong with a text that is no size. */
export function sizeProblem(text: string): string {
  const [, amount, prefix] = /^\s*(\d+(?:\.\d+)?)\s*([kmgt])\s*$/i.exec(text) ?? [];
  if (prefix === undefined) return `Wanted ${SIZE_WANTED}.`;
  const short = `${amount}${prefix.toUpperCase()}`;
  return `Wanted ${SIZE_WANTED}: ${short} could be ${short}B or ${short}iB.`;
}

/** The shortest exact text of a number of bytes. */
export function sizeText(bytes: number): string {
  for (const [unit, size] of [
    ["TiB", 2 ** 40],
    ["GiB", 2 ** 30],
    ["MiB", 2 ** 20],
    ["KiB", 2 ** 10],
  ] as const) {
    if (bytes >= size && bytes % size === 0) return `${bytes / size}${unit}`;
  }
  return String(bytes);
}

/** Whether a flag of this name, without dashes, takes bytes. */
export function isSizeFlag(flag: string): boolean {
  return /(^|-)bytes(-max|-min)?$/.test(flag);
}
