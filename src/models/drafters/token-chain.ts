import { assert } from "#base";
import type { Device, DeviceTensor } from "#devices";

export interface TokenChainOptions {
  /** S: most sequences. */
  readonly sequencesMax: number;
  /** L: most tokens of each. */
  readonly lengthMax: number;
  /** [drafted vocabulary] i32: the base's token of each drafted one; null: the same. */
  readonly tokenMap?: DeviceTensor | null;
}

/** Elements of a level's tokens begin at multiples of this: copies of devices are aligned. */
const alignment = 64;

/**
 * The likeliest tokens of sequences, one level after the other, on the device: the next level reads
 * them there, and the host reads all levels at once.
 */
export class TokenChain {
  /** [L * stride] i32: level l has the tokens l * stride up to l * stride + S. */
  readonly tokens: DeviceTensor;
  readonly stride: number;
  readonly #device: Device;
  readonly #options: TokenChainOptions;
  readonly #scratch: Scratch;

  /** Throws OUT_OF_MEMORY. */
  constructor(device: Device, options: TokenChainOptions) {
    const { sequencesMax: rows, lengthMax } = options;
    this.#device = device;
    this.#options = options;
    this.stride = Math.ceil(rows / alignment) * alignment;
    this.tokens = device.allocate("i32", [lengthMax * this.stride]);
    const i32 = (...shape: number[]): DeviceTensor => device.allocate("i32", shape);
    const f32 = (...shape: number[]): DeviceTensor => device.allocate("f32", shape);
    this.#scratch = {
      ...{ given: i32(rows), chosen: f32(rows), ranks: i32(rows) },
      ...{ topTokens: i32(rows, 1), topLogprobs: f32(rows, 1) },
      ...{ parents: i32(rows), scores: f32(rows) },
    };
  }

  /** [count] i32: the tokens of a level. */
  level(level: number, count: number): DeviceTensor {
    const start = level * this.stride;
    return this.#device.rows(this.tokens, start, start + count);
  }

  /** Enqueues the choice of a level's tokens. `logits`: [count, draft vocabulary] f32. */
  choose(level: number, count: number, logits: DeviceTensor): void {
    const { tokenMap = null, lengthMax, sequencesMax } = this.#options;
    assert(
      level < lengthMax && count <= sequencesMax,
      `Cannot draft ${count} tokens of level ${level}: ${sequencesMax} of ${lengthMax} fit`,
    );
    const { given, chosen, ranks, topTokens, topLogprobs, parents, scores } = this.#scratch;
    const device = this.#device;
    const scored = { tokens: given, chosen, ranks };
    device.logprobs({ ...{ count, logits, ...scored }, topCount: 1, topTokens, topLogprobs });
    device.selectBeams({
      ...{ count, before: 1, width: 1, topTokens, topLogprobs, parents, outScores: scores },
      tokens: this.level(level, count),
      ...(tokenMap !== null && { tokenMap }),
    });
  }

  /** The first `lengths[s]` tokens of each sequence s, when all enqueued work is done. */
  async read(lengths: readonly number[]): Promise<readonly Int32Array[]> {
    const levels = Math.max(...lengths);
    const read = this.#device.rows(this.tokens, 0, levels * this.stride);
    const found = await this.#device.readLater(read).take();
    return lengths.map((length, sequence) =>
      Int32Array.from({ length }, (_, level) => found[level * this.stride + sequence] ?? 0),
    );
  }
}

/** [S] each, and of the likeliest tokens [S, 1]. */
interface Scratch {
  /** The op also scores one given token a row, which is unused. */
  readonly given: DeviceTensor;
  readonly chosen: DeviceTensor;
  readonly ranks: DeviceTensor;
  readonly topTokens: DeviceTensor;
  readonly topLogprobs: DeviceTensor;
  readonly parents: DeviceTensor;
  readonly scores: DeviceTensor;
}
