/**
 * Types of quantised blocks, as GGUF files store matrices: a block is so many consecutive columns
 * of a row, in so many bytes. Rows are whole blocks. Source: ggml's block formats.
 */
export const BLOCK_TYPES = [
  { name: "Q4_0", columns: 32, bytes: 18 },
  { name: "Q4_1", columns: 32, bytes: 20 },
  { name: "Q5_0", columns: 32, bytes: 22 },
  { name: "Q5_1", columns: 32, bytes: 24 },
  { name: "Q8_0", columns: 32, bytes: 34 },
  { name: "Q2_K", columns: 256, bytes: 84 },
  { name: "Q3_K", columns: 256, bytes: 110 },
  { name: "Q4_K", columns: 256, bytes: 144 },
  { name: "Q5_K", columns: 256, bytes: 176 },
  { name: "Q6_K", columns: 256, bytes: 210 },
  { name: "IQ4_NL", columns: 32, bytes: 18 },
  { name: "IQ4_XS", columns: 256, bytes: 136 },
  { name: "MXFP4", columns: 32, bytes: 17 },
] as const;

/** The name of a type, as files have it. */
export type BlockType = (typeof BLOCK_TYPES)[number]["name"];

/** The bytes of `rows` rows of `columns` in blocks of `type`; null if rows are no whole blocks. */
export function blocksBytes(type: BlockType, rows: number, columns: number): number | null {
  const found = BLOCK_TYPES.find(({ name }) => name === type);
  if (found === undefined || columns % found.columns !== 0) return null;
  return rows * (columns / found.columns) * found.bytes;
}
