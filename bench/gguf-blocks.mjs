/**
 * Random blocks of GGUF's quantised types: quanta are random bits, scales are chosen so that values
 * have a given standard deviation and a mean near 0. No quantiser made them; what a model of them
 * computes is as good as any for speed, and for comparing two readers of the same file.
 */
import { f16 } from "./half.mjs";

/** Number of a type, elements and bytes of its blocks. */
export const BLOCK_TYPES = {
  q4_0: { id: 2, elements: 32, bytes: 18 },
  q4_1: { id: 3, elements: 32, bytes: 20 },
  q5_0: { id: 6, elements: 32, bytes: 22 },
  q5_1: { id: 7, elements: 32, bytes: 24 },
  q8_0: { id: 8, elements: 32, bytes: 34 },
  q2_k: { id: 10, elements: 256, bytes: 84 },
  q3_k: { id: 11, elements: 256, bytes: 110 },
  q4_k: { id: 12, elements: 256, bytes: 144 },
  q5_k: { id: 13, elements: 256, bytes: 176 },
  q6_k: { id: 14, elements: 256, bytes: 210 },
  iq4_nl: { id: 20, elements: 32, bytes: 18 },
  iq4_xs: { id: 23, elements: 256, bytes: 136 },
  mxfp4: { id: 39, elements: 32, bytes: 17 },
};

/** The larger types that llama.cpp takes for rows that are no multiple of 256. */
const FOR_SHORT_ROWS = {
  ...{ q2_k: "q4_0", q3_k: "q4_0", q4_k: "q5_0", q5_k: "q5_1", q6_k: "q8_0", iq4_xs: "iq4_nl" },
};

/** Mixtures of llama.cpp: the type of most matrices. Those that matter more have Q6_K. */
const MIXTURES = { q4_k_m: "q4_k", q5_k_m: "q5_k" };

/** Types of files with blocks: those of all their matrices, and mixtures. */
export const BLOCK_FILE_TYPES = [...Object.keys(BLOCK_TYPES), ...Object.keys(MIXTURES)];

/**
 * The type of a matrix in a file of `type`, which may be a mixture. Without an output matrix the
 * embeddings are the output.
 * @param {{ name: string, shape: number[], layers: number }} matrix
 */
export function matrixType(type, { name, shape, layers }) {
  const most = MIXTURES[type];
  const columns = shape.at(-1);
  if (most === undefined) return typeForRows(type, columns);
  const [, layer, part] = /^blk\.(\d+)\.(attn_v|ffn_down)\./.exec(name) ?? [];
  const matters = part === undefined ? name === "token_embd.weight" : hasMoreBits(+layer, layers);
  return typeForRows(matters ? "q6_k" : most, columns);
}

/** The first and last eighth of the layers, and each third of the others. */
function hasMoreBits(layer, layers) {
  const eighth = Math.floor(layers / 8);
  const last = Math.floor((7 * layers) / 8);
  return layer < eighth || layer >= last || (layer - eighth) % 3 === 2;
}

/** The type of a matrix with rows of `columns` elements in a file of `type`. */
function typeForRows(type, columns) {
  const elements = BLOCK_TYPES[type]?.elements ?? 1;
  if (columns % elements === 0) return type;
  const other = FOR_SHORT_ROWS[type];
  if (other === undefined || columns % 32 !== 0) {
    throw new Error(`rows of ${columns} elements are no whole blocks of ${type}`);
  }
  return other;
}

/** Standard deviations of quanta whose bits are random, in units of the block's scale. */
const SPREAD = {
  // Uniform over n steps: sqrt((n * n - 1) / 12), about the mean that a random sign makes 0.
  ...{ q4_0: 4.64, q4_1: 4.61, q5_0: 9.25, q5_1: 9.23, q8_0: 73.9, iq4_nl: 67.4, mxfp4: 5.85 },
  // The same times the root mean square of random scales.
  ...{ q2_k: 1.118 * 11.7, q3_k: 2.35 * 18.5, q4_k: 4.61 * 48.4, q5_k: 9.23 * 48.4 },
  ...{ q6_k: 18.5 * 73.9, iq4_xs: 67.4 * 18.5 },
};

/** Writes the scales of the block at `at`, whose other bytes are random. */
const SCALED = {
  q4_0: (block) => block.half(0, block.sign() * block.unit),
  q4_1: (block) => centred(block, 7.5),
  q5_0: (block) => block.half(0, block.sign() * block.unit),
  q5_1: (block) => centred(block, 15.5),
  q8_0: (block) => block.half(0, block.unit),
  q2_k(block) {
    block.half(80, block.unit);
    block.half(82, 1.5 * block.unit);
    // A minimum for each scale, so that 0 lies amid the four values; scales of 8 to 15.
    for (let group = 0; group < 16; group++) {
      const scale = 8 | (block.byte(group) & 7);
      block.setByte(group, scale | (scale << 4));
    }
  },
  q3_k: (block) => block.half(108, block.unit),
  q4_k: (block) => withGroups(block, 7.5),
  q5_k: (block) => withGroups(block, 15.5),
  q6_k: (block) => block.half(208, block.unit),
  iq4_nl: (block) => block.half(0, block.sign() * block.unit),
  iq4_xs: (block) => block.half(0, block.unit),
  mxfp4(block) {
    // A mixture of the two powers of two around the unit, with its mean square.
    const low = Math.floor(Math.log2(block.unit));
    const share = ((block.unit / 2 ** low) ** 2 - 1) / 3;
    block.setByte(0, low + 128 + (block.random() < share ? 1 : 0));
  },
};

/** A minimum of as many steps as are below the middle. */
function centred(block, steps) {
  block.half(0, block.unit);
  block.half(2, -steps * block.unit);
}

/** Scales of 32 to 63, and the same numbers as minima, in the twelve bytes of Q4_K and Q5_K. */
function withGroups(block, steps) {
  block.half(0, block.unit);
  block.half(2, steps * block.unit);
  const scales = Array.from({ length: 8 }, (_, group) => 32 | (block.byte(4 + group) & 31));
  for (let group = 0; group < 4; group++) {
    const [low, high] = [scales[group], scales[group + 4]];
    block.setByte(4 + group, low | ((high >> 4) << 6));
    block.setByte(8 + group, low | ((high >> 4) << 6));
    block.setByte(12 + group, (high & 15) | ((high & 15) << 4));
  }
}

/** One block among others, while its scales are written. */
class Block {
  at = 0;
  /** The scale that gives values the wanted deviation. */
  unit;
  random;
  #bytes;

  constructor(bytes, unit, random) {
    this.#bytes = bytes;
    this.unit = unit;
    this.random = random;
  }

  half(place, value) {
    this.#bytes.writeUInt16LE(f16(value), this.at + place);
  }

  byte(place) {
    return this.#bytes[this.at + place];
  }

  setByte(place, value) {
    this.#bytes[this.at + place] = value;
  }

  sign() {
    return this.random() < 0.5 ? -1 : 1;
  }
}

/**
 * Blocks of `count` elements. `random` gives numbers in [0, 1).
 * @param {{ type: string, count: number, deviation: number, random: () => number }} wanted
 */
export function randomBlocks({ type, count, deviation, random }) {
  const { elements, bytes: blockBytes } = BLOCK_TYPES[type];
  const bytes = Buffer.alloc((count / elements) * blockBytes);
  fillRandomly(bytes, random);
  const block = new Block(bytes, deviation / SPREAD[type], random);
  const scale = SCALED[type];
  for (; block.at < bytes.length; block.at += blockBytes) scale(block);
  return bytes;
}

/** Xorshift (G. Marsaglia, 2003), seeded by a draw: a billion bytes in seconds. */
function fillRandomly(bytes, random) {
  let state = Math.floor(random() * 2 ** 32) | 1;
  const words = new Int32Array(Math.ceil(bytes.length / 4));
  for (let at = 0; at < words.length; at++) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    words[at] = state;
  }
  Buffer.from(words.buffer).copy(bytes);
}
