import type { Device, DeviceTensor, LateRead } from "#devices";
import { floatsOf } from "#tensor";
import {
  type LogprobRequest,
  logprobsOfRow,
  type PositionLogprobs,
  withRanks,
} from "./logprobs.ts";

/** The device, and the capacity. */
export interface TokenScorerOptions {
  readonly device: Device;
  /** R, most rows at once. */
  readonly rowsMax: number;
  /** V, columns of the logits. */
  readonly vocabularySize: number;
  /** Most alternatives that the device computes; more go over the host. */
  readonly topMax: number;
}

/** Rows of logits, the tokens to be scored, and the request of each row. */
export interface ScoringRows {
  /** [R, V] f32. */
  readonly logits: DeviceTensor;
  /** [R] i32. */
  readonly tokens: DeviceTensor;
  /** [R]. */
  readonly wanted: readonly (LogprobRequest | null)[];
}

/** Pending scores. `take` waits for them; `tokens` [R] are the rows' own. */
export interface LateScores {
  take(tokens: Int32Array): Promise<readonly (PositionLogprobs | null)[]>;
}

/** Pending results of the device's op over all rows. k alternatives a row. */
interface TopReads {
  readonly topCount: number;
  readonly chosen: LateRead;
  readonly ranks: LateRead;
  readonly topTokens: LateRead | null;
  readonly topLogprobs: LateRead | null;
}

type PickRow = (row: number, tokenId: number, count: number) => PositionLogprobs;

/** Log-probabilities of tokens, on the device as far as its op computes them. */
export class TokenScorer {
  readonly #device: Device;
  readonly #topMax: number;
  readonly #chosen: DeviceTensor;
  readonly #ranks: DeviceTensor;
  readonly #topTokens: DeviceTensor;
  readonly #topLogprobs: DeviceTensor;

  constructor({ device, rowsMax, vocabularySize, topMax }: TokenScorerOptions) {
    this.#device = device;
    this.#topMax = Math.min(topMax, vocabularySize);
    this.#chosen = device.allocate("f32", [rowsMax]);
    this.#ranks = device.allocate("i32", [rowsMax]);
    this.#topTokens = device.allocate("i32", [rowsMax, this.#topMax]);
    this.#topLogprobs = device.allocate("f32", [rowsMax, this.#topMax]);
  }

  /**
   * Enqueues all that the rows request: the logits may change behind it. Results that the device's
   * op does not compute (a whole vocabulary, chosen tokens) are waited for here.
   */
  async start({ logits, tokens, wanted }: ScoringRows): Promise<LateScores> {
    if (wanted.every((wish) => wish === null)) return { take: async () => wanted.map(() => null) };
    const onDevice = wanted.some((wish) => wish !== null && this.#isSmall(wish));
    const reads = onDevice ? this.#startTop({ logits, tokens, wanted }) : null;
    const rows = await this.#readRows(logits, wanted);
    return {
      take: async (ids) => {
        const pick = reads === null ? null : await pickFrom(reads);
        return wanted.map((wish, row) => {
          if (wish === null) return null;
          const tokenId = ids[row] ?? 0;
          const values = rows.get(row);
          if (values !== undefined) return logprobsOfRow(values, tokenId, wish);
          return pick === null || wish.kind !== "top" ? null : pick(row, tokenId, wish.count);
        });
      },
    };
  }

  /** Releases all device memory. */
  dispose(): void {
    for (const tensor of [this.#chosen, this.#ranks, this.#topTokens, this.#topLogprobs]) {
      this.#device.release(tensor);
    }
  }

  #isSmall(wish: LogprobRequest): wish is LogprobRequest & { readonly kind: "top" } {
    return wish.kind === "top" && wish.count <= this.#topMax;
  }

  /** [V] each: rows that are scored on the host. */
  async #readRows(
    logits: DeviceTensor,
    wanted: readonly (LogprobRequest | null)[],
  ): Promise<ReadonlyMap<number, Float32Array>> {
    const rows = new Map<number, Float32Array>();
    for (const [row, wish] of wanted.entries()) {
      if (wish === null || this.#isSmall(wish)) continue;
      rows.set(row, await this.#device.readF32(this.#device.rows(logits, row, row + 1)));
    }
    return rows;
  }

  #startTop({ logits, tokens, wanted }: ScoringRows): TopReads {
    const device = this.#device;
    const count = wanted.length;
    const alternatives = wanted.some((wish) => wish?.kind === "top" && wish.count > 0);
    const topCount = alternatives ? this.#topMax : 0;
    const [chosen, ranks] = [this.#chosen, this.#ranks];
    const [topTokens, topLogprobs] = [this.#topTokens, this.#topLogprobs];
    const top = { topCount, topTokens, topLogprobs };
    device.logprobs({ count, logits, tokens, chosen, ranks, ...top });
    const late = (tensor: DeviceTensor) => device.readLater(device.rows(tensor, 0, count));
    return {
      topCount,
      chosen: late(chosen),
      ranks: late(ranks),
      topTokens: topCount === 0 ? null : late(topTokens),
      topLogprobs: topCount === 0 ? null : late(topLogprobs),
    };
  }
}

/** Waits for the op; returns a function that picks one row's result. */
async function pickFrom(reads: TopReads): Promise<PickRow> {
  const { topCount } = reads;
  const chosen = floatsOf(await reads.chosen.take());
  const ranks = await reads.ranks.take();
  const topTokens = (await reads.topTokens?.take()) ?? new Int32Array();
  const topLogprobs = floatsOf((await reads.topLogprobs?.take()) ?? new Int32Array());
  return (row, tokenId, count) => {
    const best = Array.from({ length: count }, (_, place) => ({
      tokenId: topTokens[row * topCount + place] ?? 0,
      logprob: topLogprobs[row * topCount + place] ?? 0,
    }));
    const [logprob = 0, rank = 0] = [chosen[row], ranks[row]];
    return { tokenId, logprob, rank, top: withRanks(best) };
  };
}
