import { assert } from "#base";
import type { Device, DeviceTensor } from "#devices";
import { type BranchDraw, DraftDraws, racedTokens } from "./draft-draws.ts";
import { levelStride, type StartedChains } from "./started-trees.ts";

export interface TokenChainOptions {
  /** R: most chains at a time. */
  readonly rowsMax: number;
  /** W: most chains behind one token. */
  readonly widthMax: number;
  /** L: most tokens of each. */
  readonly lengthMax: number;
  /** V': columns of the logits. */
  readonly vocabularySize: number;
  /** [drafted vocabulary] i32: the base's token of each drafted one; null: the same. */
  readonly tokenMap?: DeviceTensor | null;
}

/** How a chain's tokens are chosen. */
export interface ChainStart {
  /** Which token is its first: 0 for the best. Others are the best. */
  readonly rank: number;
  /** Best is what this draws; null: the likeliest. */
  readonly draw: BranchDraw | null;
}

/**
 * The tokens of chains, one level after the other, on the device: the next level reads them there,
 * and the host reads all levels at once. The first level's tokens are the best one, the second and
 * so on, as `begin` says; all others are the best. That is the likeliest, or of a sequence that is
 * sampled what wins the race of the likeliest ones with the noise that the model samples with.
 */
export class TokenChain {
  /** [L * stride] i32: level l has the tokens l * stride up to l * stride + R. */
  readonly tokens: DeviceTensor;
  readonly stride: number;
  readonly #device: Device;
  readonly #options: TokenChainOptions;
  readonly #scratch: Scratch;
  readonly #draws: DraftDraws;
  /** Of a row's likeliest tokens, those that race. */
  readonly #raced: number;
  /** Tokens that the first level chooses among. */
  #choices = 1;
  #isDrawn = false;

  /** Throws OUT_OF_MEMORY. */
  constructor(device: Device, options: TokenChainOptions) {
    const { rowsMax: rows, widthMax, lengthMax, vocabularySize } = options;
    this.#device = device;
    this.#draws = new DraftDraws(device, rows);
    this.#raced = Math.max(widthMax, racedTokens(1, vocabularySize));
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
      ...{ topTokens: i32(rows, this.#raced), topLogprobs: f32(rows, this.#raced) },
      ...{ first: i32(rows), all, drafted: i32(rows) },
      ...{ winners: i32(rows * widthMax), parents: i32(rows * widthMax) },
      scores: f32(rows * widthMax),
    };
  }

  /** [count] i32: the tokens of a level. */
  level(level: number, count: number): DeviceTensor {
    const start = level * this.stride;
    return this.#device.rows(this.tokens, start, start + count);
  }

  /** Begins chains. */
  begin(starts: readonly ChainStart[]): void {
    const { widthMax, rowsMax } = this.#options;
    this.#choices = 1 + Math.max(...starts.map(({ rank }) => rank));
    assert(
      this.#choices <= widthMax && starts.length <= rowsMax,
      `Cannot draft ${starts.length} chains, ${this.#choices} behind a token: ${rowsMax} of ` +
        `${widthMax} fit`,
    );
    const sources = starts.map(({ rank }, row) => row * this.#choices + rank);
    this.#device.write(this.#scratch.first, Int32Array.from(sources));
    this.#isDrawn = this.#draws.write(starts.map(({ draw }) => draw));
  }

  /** What `choose` enqueues depends on, beside its arguments: part of the key of a replay. */
  get kind(): string {
    return `${this.#choices} ${this.#isDrawn}`;
  }

  /** Enqueues the choice of a level's tokens. `logits`: [count, draft vocabulary] f32. */
  choose(level: number, count: number, logits: DeviceTensor): void {
    const { tokenMap = null, lengthMax, rowsMax } = this.#options;
    assert(
      level < lengthMax && count <= rowsMax,
      `Cannot draft ${count} tokens of level ${level}: ${rowsMax} of ${lengthMax} fit`,
    );
    if (this.#isDrawn) {
      this.#race(level, count, logits);
      return;
    }
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

  /** The same where sequences are sampled. */
  #race(level: number, count: number, logits: DeviceTensor): void {
    const { given, chosen, ranks, topTokens, topLogprobs, first, all } = this.#scratch;
    const { winners, parents, scores } = this.#scratch;
    const { tokenMap = null } = this.#options;
    const device = this.#device;
    const scored = { tokens: given, chosen, ranks, topTokens, topLogprobs };
    device.logprobs({ count, logits, topCount: this.#raced, ...scored });
    const rows = { topTokens: device.rows(topTokens, 0, count), before: 1 };
    const raced = { ...rows, topLogprobs: device.rows(topLogprobs, 0, count) };
    const mapped = tokenMap === null ? {} : { tokenMap };
    this.#draws.race({ count, ...raced, ...mapped, ahead: level });
    const width = level === 0 ? this.#choices : 1;
    const chosenOnes = { tokens: winners, parents, outScores: scores };
    device.selectBeams({ count, width, ...raced, ...mapped, ...chosenOnes });
    const sources = level === 0 ? first : all;
    device.takeTokens({ count, ids: this.level(level, count), sampled: winners, sources });
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

/** [R] each, and of the likeliest tokens [R, raced]. */
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
  /** [R * W]: of races, the best of each row. */
  readonly winners: DeviceTensor;
  readonly parents: DeviceTensor;
  readonly scores: DeviceTensor;
}
