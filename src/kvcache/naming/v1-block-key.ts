/**
 * TensorRT-LLM's `v1_block_key`: 64 bits per block, chained through the parent's. 64-bit numbers
 * are kept as two 32-bit halves, since BigInts would cost a heap object per step and token.
 * Source: the block key hasher of TensorRT-LLM (2025), with its published answers as tests.
 */

/** Part of every mixed value, as in Boost's `hash_combine`: the golden ratio's bits. */
const GOLDEN = 0x9e3779b9;
const MIX_32 = 0x45d9f3b;

/** A 64-bit constant. */
interface Halves {
  readonly high: number;
  readonly low: number;
}

// The finaliser of splitmix64 (Steele, Lea and Flood, 2014).
const SPLITMIX_1: Halves = { high: 0xbf58476d, low: 0x1ce4e5b9 };
const SPLITMIX_2: Halves = { high: 0x94d049bb, low: 0x133111eb };

/** A 64-bit state that words are mixed into. One object serves any number of blocks. */
export class V1BlockKey {
  /** The halves of the state, as signed integers: Node keeps those without a heap number. */
  low = 0;
  high = 0;

  /** Starts a block of `tokens` tokens below a parent's hash; 0, 0 at the root. */
  start(tokens: number, parentLow: number, parentHigh: number): void {
    this.#multiply(parentLow, parentHigh, SPLITMIX_1);
    this.low ^= tokens;
  }

  /** Mixes a token id, or another 32-bit word, in. */
  mix32(word: number): void {
    this.#combine((scramble(word) + GOLDEN) | 0, 0);
  }

  /** Mixes a 64-bit value in. */
  mix64(valueLow: number, valueHigh: number): void {
    const { low, high } = this;
    this.#finalise(valueLow, valueHigh);
    const sum = (this.low >>> 0) + GOLDEN;
    const mixedHigh = this.high + (sum > 0xffffffff ? 1 : 0);
    this.low = low;
    this.high = high;
    this.#combine(sum | 0, mixedHigh | 0);
  }

  /** Mixes the tokens in, each followed by its extra id where there are such. */
  mixTokens(tokens: Int32Array, extraIds: ArrayLike<number> | null): void {
    for (let index = 0; index < tokens.length; index++) {
      this.mix32(tokens[index] ?? 0);
      if (extraIds !== null) this.mix64(extraIds[index] ?? 0, 0);
    }
  }

  /** state ^= mixed + (state << 6) + (state >> 2), of 64 bits. */
  #combine(mixedLow: number, mixedHigh: number): void {
    const { low, high } = this;
    const left = low << 6;
    const leftHigh = (high << 6) | (low >>> 26);
    const right = (low >>> 2) | (high << 30);
    // A sum carried where it came out below one of its parts.
    const partial = (mixedLow + left) | 0;
    const sum = (partial + right) | 0;
    const carry = (partial >>> 0 < left >>> 0 ? 1 : 0) + (sum >>> 0 < right >>> 0 ? 1 : 0);
    this.low = low ^ sum;
    this.high = high ^ (mixedHigh + leftHigh + (high >>> 2) + carry);
  }

  #finalise(valueLow: number, valueHigh: number): void {
    this.#xorShift(valueLow, valueHigh, 30);
    this.#multiply(this.low, this.high, SPLITMIX_1);
    this.#xorShift(this.low, this.high, 27);
    this.#multiply(this.low, this.high, SPLITMIX_2);
    this.#xorShift(this.low, this.high, 31);
  }

  /** state = value ^ (value >> shift), for shifts below 32. */
  #xorShift(low: number, high: number, shift: number): void {
    this.low = low ^ ((low >>> shift) | (high << (32 - shift)));
    this.high = high ^ (high >>> shift);
  }

  /** state = value · factor mod 2^64, the low halves by digits of 16 bits. */
  #multiply(low: number, high: number, factor: Halves): void {
    const digit0 = low & 0xffff;
    const digit1 = low >>> 16;
    const factor0 = factor.low & 0xffff;
    const factor1 = factor.low >>> 16;
    const middle = digit1 * factor0 + Math.floor((digit0 * factor0) / 0x10000);
    const cross = digit0 * factor1 + (middle % 0x10000);
    const top = digit1 * factor1 + Math.floor(middle / 0x10000) + Math.floor(cross / 0x10000);
    this.low = Math.imul(low, factor.low);
    this.high = (top + Math.imul(low, factor.high) + Math.imul(high, factor.low)) | 0;
  }
}

/** The 32-bit mixer: two rounds of xor-shift and multiply, and a last xor-shift. */
function scramble(word: number): number {
  let x = word;
  x = Math.imul(x ^ (x >>> 16), MIX_32);
  x = Math.imul(x ^ (x >>> 16), MIX_32);
  return x ^ (x >>> 16);
}
