/**
 * Quantised blocks of files, exactly: a weight is `scale * number + min`, with integers of 8 bits
 * and f32 scales and minima that 16 columns share (types with one scale for 32 have it twice).
 *
 *   Q4_0 Q5_0 Q8_0    d * (q - zero), d f16
 *   Q4_1 Q5_1         d * q + m, both f16
 *   Q2_K Q4_K Q5_K    d * sc * q - dmin * m, sc and m of 4 or 6 bits, for 16 or 32 columns
 *   Q3_K Q6_K         d * sc * (q - zero), sc signed, for 16 columns
 *   IQ4_NL IQ4_XS     d * v[q], d * sc * v[q], a table of 16 values
 *   MXFP4             2^(e - 128) * v[q], twice the values of FP4
 *
 * Source: ggml's block_* structures.
 */
import { BLOCK_TYPES, type BlockType, f32FromF16 } from "#tensor";

/** Columns that share a scale here. */
export const SCALE_COLUMNS = 16;

/** Part of a matrix: columns [0, numbers.length) of one row. */
export interface BlockRow {
  readonly numbers: Int8Array;
  /** One for every 16 columns. */
  readonly scales: Float32Array;
  readonly mins: Float32Array;
}

const NONLINEAR = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];
const FP4 = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/** Takes one block apart, into columns `to` and on. */
type Decoder = (block: DataView, out: BlockRow, to: number) => void;

/** Numbers of the block's columns, and their scales. */
function fill(
  { numbers, scales, mins }: BlockRow,
  to: number,
  columns: number,
  of: {
    number(column: number): number;
    scale(sixteen: number): number;
    min?(sixteen: number): number;
  },
): void {
  for (let column = 0; column < columns; column++) numbers[to + column] = of.number(column);
  for (let i = 0; i < columns / SCALE_COLUMNS; i++) {
    scales[to / SCALE_COLUMNS + i] = of.scale(i);
    mins[to / SCALE_COLUMNS + i] = of.min?.(i) ?? 0;
  }
}

/** Nibble of a column among 32: low ones of 16 bytes first. */
function nibble(block: DataView, start: number, column: number): number {
  return (block.getUint8(start + (column % 16)) >> (column < 16 ? 0 : 4)) & 15;
}

/** Nibble of a column among 256: 32 bytes have 64 columns, low nibbles first. */
function longNibble(block: DataView, start: number, column: number): number {
  const byte = block.getUint8(start + 32 * (column >> 6) + (column % 32));
  return (byte >> ((column >> 5) & 1 ? 4 : 0)) & 15;
}

/** Two bits of a column among 256: 32 bytes have 128 columns, lowest bits first. */
function bitPair(block: DataView, start: number, column: number): number {
  const byte = block.getUint8(start + 32 * (column >> 7) + (column % 32));
  return (byte >> (2 * ((column >> 5) & 3))) & 3;
}

function bitOf(block: DataView, start: number, bit: number): number {
  return (block.getUint8(start + (bit >> 3)) >> (bit & 7)) & 1;
}

const halfAt = (block: DataView, at: number): number => f32FromF16(block.getUint16(at, true));

/** 32 columns of 4 or 5 bits: d (m) (32 bits above) nibbles. */
function smallBlock(bits: 4 | 5, hasMin: boolean, meaning: (number: number) => number): Decoder {
  return (block, out, to) => {
    const above = hasMin ? 4 : 2;
    const nibbles = bits === 5 ? above + 4 : above;
    fill(out, to, 32, {
      number: (column) => {
        const high = bits === 5 ? bitOf(block, above, column) << 4 : 0;
        return meaning(nibble(block, nibbles, column) | high);
      },
      scale: () => halfAt(block, 0),
      min: () => (hasMin ? halfAt(block, 2) : 0),
    });
  };
}

/** The 6-bit scale (`which` 0) or minimum (1) of one of 8 groups in 12 bytes. */
function sixBits(block: DataView, start: number, group: number, which: 0 | 1): number {
  const byte = (index: number) => block.getUint8(start + index);
  if (group < 4) return byte(group + 4 * which) & 63;
  const low = (byte(group + 4) >> (4 * which)) & 15;
  return low | ((byte(group - 4 + 4 * which) >> 6) << 4);
}

/** 256 columns of 4 or 5 bits: d dmin, 12 bytes of scales and minima, (bits above), nibbles. */
function longBlock(bits: 4 | 5): Decoder {
  return (block, out, to) => {
    const nibbles = bits === 5 ? 48 : 16;
    fill(out, to, 256, {
      number: (column) => {
        const above = (block.getUint8(16 + (column % 32)) >> (column >> 5)) & 1;
        return longNibble(block, nibbles, column) | (bits === 5 ? above << 4 : 0);
      },
      scale: (i) => halfAt(block, 0) * sixBits(block, 4, i >> 1, 0),
      min: (i) => -halfAt(block, 2) * sixBits(block, 4, i >> 1, 1),
    });
  };
}

/** The signed 6-bit scale of 16 columns of a Q3_K block. */
function q3Scale(block: DataView, sixteen: number): number {
  const low = (block.getUint8(96 + (sixteen % 8)) >> (sixteen < 8 ? 0 : 4)) & 15;
  const high = (block.getUint8(104 + (sixteen % 4)) >> (2 * (sixteen >> 2))) & 3;
  return (low | (high << 4)) - 32;
}

/** The signed 6-bit scale of 32 columns of an IQ4_XS block. */
function xsScale(block: DataView, group: number): number {
  const low = (block.getUint8(4 + (group >> 1)) >> (group & 1 ? 4 : 0)) & 15;
  return (low | (((block.getUint16(2, true) >> (2 * group)) & 3) << 4)) - 32;
}

function powerOf(exponent: number): number {
  return 2 ** (exponent - 128);
}

const DECODERS: Readonly<Record<BlockType, Decoder>> = {
  Q4_0: smallBlock(4, false, (number) => number - 8),
  Q4_1: smallBlock(4, true, (number) => number),
  Q5_0: smallBlock(5, false, (number) => number - 16),
  Q5_1: smallBlock(5, true, (number) => number),
  IQ4_NL: smallBlock(4, false, (number) => NONLINEAR[number] ?? 0),
  Q8_0: (block, out, to) => {
    fill(out, to, 32, {
      number: (column) => block.getInt8(2 + column),
      scale: () => halfAt(block, 0),
    });
  },
  Q2_K: (block, out, to) => {
    fill(out, to, 256, {
      number: (column) => bitPair(block, 16, column),
      scale: (i) => halfAt(block, 80) * (block.getUint8(i) & 15),
      min: (i) => -halfAt(block, 82) * (block.getUint8(i) >> 4),
    });
  },
  Q3_K: (block, out, to) => {
    fill(out, to, 256, {
      number: (column) => {
        const high = (block.getUint8(column % 32) >> (column >> 5)) & 1;
        return (bitPair(block, 32, column) | (high << 2)) - 4;
      },
      scale: (i) => halfAt(block, 108) * q3Scale(block, i),
    });
  },
  Q4_K: longBlock(4),
  Q5_K: longBlock(5),
  Q6_K: (block, out, to) => {
    fill(out, to, 256, {
      number: (column) => {
        const [half, quarter, at] = [column >> 7, (column >> 5) & 3, column % 32];
        const low = block.getUint8(64 * half + 32 * (quarter & 1) + at) >> (quarter < 2 ? 0 : 4);
        const high = (block.getUint8(128 + 32 * half + at) >> (2 * quarter)) & 3;
        return ((low & 15) | (high << 4)) - 32;
      },
      scale: (i) => halfAt(block, 208) * block.getInt8(192 + i),
    });
  },
  IQ4_XS: (block, out, to) => {
    fill(out, to, 256, {
      number: (column) => {
        const start = 8 + 16 * (column >> 5);
        return NONLINEAR[nibble(block, start, column % 32)] ?? 0;
      },
      scale: (i) => halfAt(block, 0) * xsScale(block, i >> 1),
    });
  },
  MXFP4: (block, out, to) => {
    fill(out, to, 32, {
      number: (column) => FP4[nibble(block, 1, column)] ?? 0,
      scale: () => powerOf(block.getUint8(0)),
    });
  },
};

/** Takes apart a row's blocks, `blocks` from byte `start` on, into `out`. */
export function decodeBlocks(
  type: BlockType,
  blocks: Uint8Array,
  start: number,
  out: BlockRow,
): void {
  const size = BLOCK_TYPES.find(({ name }) => name === type) ?? BLOCK_TYPES[0];
  for (let column = 0, at = start; column < out.numbers.length; column += size.columns) {
    DECODERS[type](new DataView(blocks.buffer, blocks.byteOffset + at, size.bytes), out, column);
    at += size.bytes;
  }
}
