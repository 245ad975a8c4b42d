import { assert } from "#base";
import type { Device, DeviceTensor } from "#devices";
import { levelStride, type StartedChains } from "./started-chains.ts";

export interface TokenChainOptions {
  /** R: most chains at a time. */
  readonly rowsMax: number;
  /** W: most chains behind one token. */
  readonly widthMax: number;
  /** L: most tokens of each. */
  readonly lengthMax: number;
  /** [drafted vocabulary] i32: the base's token of each drafted one; null: the same. */
  readonly tokenMap?: DeviceTensor | null;
}

/**
 * The tokens of chains, one level after the other, on the device: the next level reads them there,
 * and the host reads all levels at once. The first level's tokens are the likeliest one, the second
 * and so on, as `begin` says; all others are the likeliest.
 */
export class TokenChain {
  /** [L * stride] i32: level l has the tokens l * stride up to l * stride + R. */
  readonly tokens: DeviceTensor;
  readonly stride: number;
  readonly #device: Device;
  readonly #options: TokenChainOptions;
  readonly #scratch: Scratch;
  /** Tokens that the first level chooses among. */
  #choices = 1;

  /** Throws OUT_OF_MEMORY. */
  constructor(device: Device, options: TokenChainOptions) {
    const { rowsMax: rows, widthMax, lengthMax } = options;
    this.#device = device;
    this.#options = options;
    this.stride = levelStride(rows);
    this.tokens = device.allocate("i32", [lengthMax * this.stride]);
    const i32 = (...shape: number[]): DeviceTensor => device.allocate("i32", shape);
    const f32 = (...shape: number[]): DeviceTensor => device.allocate("f32", shape);
    const all = i32(rows);
    device.write(
      all,
      Int32Array.from({ length: rows }, (_, row) => row),
    );
    this.#scratch = {
      ...{ given: i32(rows), chosen: f32(rows), ranks: i32(rows) },
      ...{ topTokens: i32(rows, widthMax), topLogprobs: f32(rows, widthMax) },
      ...{ first: i32(rows), all, drafted: i32(rows) },
    };
  }

  /** [count] i32: the tokens of a level. */
  level(level: number, count: number): DeviceTensor {
    const start = level * this.stride;
    return this.#device.rows(this.tokens, start, start + count);
  }

  /** Begins chains. `ranks`: of the first token of each, 0 for the likeliest. */
  begin(ranks: readonly number[]): void {
    const { widthMax, rowsMax } = this.#options;
    this.#choices = 1 + Math.max(...ranks);
    assert(
      this.#choices <= widthMax && ranks.length <= rowsMax,
      `Cannot draft ${ranks.length} chains, ${this.#choices} behind a token: ${rowsMax} of ` +
        `${widthMax} fit`,
    );
    const sources = ranks.map((rank, row) => row * this.#choices + rank);
    this.#device.write(this.#scratch.first, Int32Array.from(sources));
  }

  /** Enqueues the choice of a level's tokens. `logits`: [count, draft vocabulary] f32. */
  choose(level: number, count: number, logits: DeviceTensor): void {
    const { tokenMap = null, lengthMax, rowsMax } = this.#options;
    assert(
      level < lengthMax && count <= rowsMax,
      `Cannot draft ${count} tokens of level ${level}: ${rowsMax} of ${lengthMax} fit`,
    );
    const { given, chosen, ranks, topTokens, topLogprobs, first, all, drafted } = this.#scratch;
    const device = this.#device;
    const topCount = level === 0 ? this.#choices : 1;
    const scored = { tokens: given, chosen, ranks, topCount, topTokens, topLogprobs };
    device.logprobs({ count, logits, ...scored });
    const ids = this.level(level, count);
    const own = { sampled: topTokens, sources: level === 0 ? first : all };
    device.takeTokens({ count, ids: tokenMap === null ? ids : drafted, ...own });
    if (tokenMap !== null) device.takeTokens({ count, ids, sampled: tokenMap, sources: drafted });
  }

  /** Chains of all levels so far: the first `lengths[row]` tokens of each. */
  end(lengths: readonly number[]): StartedChains {
    const { tokens, stride } = this;
    const count = Math.max(...lengths) * stride;
    const read = this.#device.readLater(this.#device.rows(tokens, 0, count));
    return {
      tokens,
      count,
      placeOf: (row, level) => level * stride + row,
      take: async () => {
        const found = await read.take();
        return lengths.map((length, row) =>
          Int32Array.from({ length }, (_, level) => found[level * stride + row] ?? 0),
        );
      },
    };
  }
}

/** [R] each, and of the likeliest tokens [R, W]. */
interface Scratch {
  /** The op also scores one given token a row, which is unused. */
  readonly given: DeviceTensor;
  readonly chosen: DeviceTensor;
  readonly ranks: DeviceTensor;
  readonly topTokens: DeviceTensor;
  readonly topLogprobs: DeviceTensor;
  /** Elements of `topTokens` that are chosen: on the first level, and on others. */
  readonly first: DeviceTensor;
  readonly all: DeviceTensor;
  /** Tokens of the draft vocabulary. */
  readonly drafted: DeviceTensor;
}
