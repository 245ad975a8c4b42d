import { assert } from "#base";
import type { Device, DeviceTensor } from "#devices";
import { LogitEdits } from "./logit-edits.ts";
import {
  type LogprobRequest,
  logprobsOfRow,
  type PositionLogprobs,
  withRanks,
} from "./logprobs.ts";
import { Mirror } from "./mirror.ts";
import type { SequenceSampling } from "./sequence-sampling.ts";
import { type TokenCandidates, TopCandidates } from "./top-candidates.ts";

/** Where to draw, and the largest step to make room for. */
export interface SamplerOptions {
  readonly device: Device;
  /** R, most rows that one step samples. */
  readonly rowsMax: number;
  /** V, columns of the logits. */
  readonly vocabularySize: number;
  /** Most alternatives whose log-probabilities the device sorts out; more go over the host. */
  readonly topLogprobsMax?: number;
}

/** One row of logits and whose it is. */
export interface SamplingRow {
  readonly sampling: SequenceSampling;
  /** Place in its sequence of the token to be drawn: the key of its randomness. */
  readonly position: number;
}

/** What one step drew, in the order of its rows. */
export interface SampledBatch {
  /** [rows]. */
  readonly tokens: Int32Array;
  /** [rows], null where nothing was asked for. Of the logits before any edit. */
  readonly logprobs: readonly (PositionLogprobs | null)[];
}

const topLogprobsDefault = 20;

/**
 * Draws one token per row, on the device. All of its memory is made here, before the first step,
 * but for three things that few batches need and that grow at first use: entries of edits, a
 * second [R, V] for steps that edit logits and report log-probabilities of the unedited ones, and
 * candidates of beams.
 */
export class Sampler {
  /** [R] i32: the last tokens drawn. They stay here for a next step that is planned ahead. */
  readonly tokens: DeviceTensor;
  readonly #device: Device;
  readonly #rowsMax: number;
  readonly #vocabularySize: number;
  readonly #topMax: number;
  readonly #edits: LogitEdits;
  readonly #mirror: Mirror;
  readonly #chosen: DeviceTensor;
  readonly #ranks: DeviceTensor;
  readonly #scored: DeviceTensor;
  readonly #topTokens: DeviceTensor;
  readonly #topLogprobs: DeviceTensor;
  readonly #candidates: TopCandidates;
  #edited: DeviceTensor | null = null;

  constructor(options: SamplerOptions) {
    const { device, rowsMax, vocabularySize } = options;
    this.#device = device;
    this.#rowsMax = rowsMax;
    this.#vocabularySize = vocabularySize;
    this.#topMax = Math.min(options.topLogprobsMax ?? topLogprobsDefault, vocabularySize);
    this.#edits = new LogitEdits(rowsMax, vocabularySize);
    this.#mirror = new Mirror(device, rowsMax, this.#edits.wordsPerRow);
    this.tokens = device.allocate("i32", [rowsMax]);
    this.#chosen = device.allocate("f32", [rowsMax]);
    this.#ranks = device.allocate("i32", [rowsMax]);
    this.#scored = device.allocate("i32", [rowsMax]);
    this.#topTokens = device.allocate("i32", [rowsMax, this.#topMax]);
    this.#topLogprobs = device.allocate("f32", [rowsMax, this.#topMax]);
    this.#candidates = new TopCandidates({ device, rowsMax, vocabularySize });
  }

  /**
   * Draws from `logits` [R, V], whose first rows belong to `rows` and may be overwritten. Without
   * grammars, everything is enqueued before this returns; the promise waits for the results.
   */
  async sample(logits: DeviceTensor, rows: readonly SamplingRow[]): Promise<SampledBatch> {
    assert(rows.length <= this.#rowsMax, `Cannot sample ${rows.length} rows: room for fewer`);
    const prepared = rows.filter(({ sampling }) => sampling.constrained);
    if (prepared.length > 0) await Promise.all(prepared.map(({ sampling }) => sampling.prepare()));
    this.#draw(logits, rows);
    const wanted = rows.map(({ sampling }) => sampling.logprobs);
    const tokens = this.#device.readI32(this.#device.rows(this.tokens, 0, rows.length));
    const logprobs = await this.#logprobs(logits, this.tokens, wanted, await tokens);
    return { tokens: await tokens, logprobs };
  }

  /**
   * Log-probabilities of given tokens: row r of `logits` against `tokens[r]`. For prompts. Any
   * number of rows. The logits stay as they are.
   */
  async score(
    logits: DeviceTensor,
    tokens: Int32Array,
    wanted: LogprobRequest,
  ): Promise<PositionLogprobs[]> {
    const scores: PositionLogprobs[] = [];
    for (let start = 0; start < tokens.length; start += this.#rowsMax) {
      const part = tokens.subarray(start, start + this.#rowsMax);
      const rows = this.#device.rows(logits, start, start + part.length);
      this.#device.write(this.#scored, part);
      const wishes = Array.from(part, () => wanted);
      const found = await this.#logprobs(rows, this.#scored, wishes, part);
      scores.push(...found.filter((score) => score !== null));
    }
    return scores;
  }

  /**
   * The `count` likeliest tokens of some rows of `logits` [R, V], or all where the vocabulary has
   * fewer: what beam search chooses from. Rows in the order given; the logits stay as they are.
   */
  topCandidates(
    logits: DeviceTensor,
    rows: readonly number[],
    count: number,
  ): Promise<TokenCandidates> {
    return this.#candidates.find(logits, rows, count);
  }

  /** Enqueues edits and the draw. */
  #draw(logits: DeviceTensor, rows: readonly SamplingRow[]): void {
    const count = rows.length;
    const changed = this.#edit(logits, rows);
    this.#mirror.writeDraws(rows);
    this.#device.sample({ count, logits: changed, out: this.tokens, ...this.#mirror.draws });
  }

  /** The logits to draw from: the given ones where no row has to be edited. */
  #edit(logits: DeviceTensor, rows: readonly SamplingRow[]): DeviceTensor {
    if (!rows.some(({ sampling }) => sampling.edits)) return logits;
    this.#edits.reset();
    for (const { sampling } of rows) {
      this.#edits.beginRow();
      if (sampling.edits) sampling.write(this.#edits);
    }
    if (this.#edits.empty) return logits;
    const reports = rows.some(({ sampling }) => sampling.logprobs !== null);
    const out = reports ? this.#editedRows() : logits;
    const input = this.#mirror.writeEdits(this.#edits);
    this.#device.adjustLogits({ count: rows.length, out, logits, ...input });
    return out;
  }

  #editedRows(): DeviceTensor {
    this.#edited ??= this.#device.allocate("f32", [this.#rowsMax, this.#vocabularySize]);
    return this.#edited;
  }

  /** What each row wants to know; `tokens` are on the device as `drawn`. */
  async #logprobs(
    logits: DeviceTensor,
    drawn: DeviceTensor,
    wanted: readonly (LogprobRequest | null)[],
    tokens: Int32Array,
  ): Promise<(PositionLogprobs | null)[]> {
    if (wanted.every((wish) => wish === null)) return wanted.map(() => null);
    const onDevice = wanted.some((wish) => wish !== null && this.#isSmall(wish));
    const read = onDevice ? await this.#readTop(logits, drawn, wanted) : null;
    return await Promise.all(
      wanted.map(async (wish, row) => {
        if (wish === null) return null;
        const tokenId = tokens[row] ?? 0;
        if (read !== null && this.#isSmall(wish)) return read(row, tokenId, wish.count);
        const values = await this.#device.readF32(this.#device.rows(logits, row, row + 1));
        return logprobsOfRow(values, tokenId, wish);
      }),
    );
  }

  #isSmall(wish: LogprobRequest): wish is LogprobRequest & { readonly kind: "top" } {
    return wish.kind === "top" && wish.count <= this.#topMax;
  }

  /** Runs the device's op over all rows; gives a way to pick one row's result. */
  async #readTop(
    logits: DeviceTensor,
    tokens: DeviceTensor,
    wanted: readonly (LogprobRequest | null)[],
  ): Promise<(row: number, tokenId: number, count: number) => PositionLogprobs> {
    const count = wanted.length;
    const alternatives = wanted.some((wish) => wish?.kind === "top" && wish.count > 0);
    const topCount = alternatives ? this.#topMax : 0;
    const [chosen, ranks] = [this.#chosen, this.#ranks];
    const top = { topTokens: this.#topTokens, topLogprobs: this.#topLogprobs };
    this.#device.logprobs({ count, logits, tokens, chosen, ranks, topCount, ...top });
    const device = this.#device;
    const none = Promise.resolve([]);
    const [logprobs, places, topTokens, topLogprobs] = await Promise.all([
      device.readF32(device.rows(chosen, 0, count)),
      device.readI32(device.rows(ranks, 0, count)),
      topCount === 0 ? none : device.readI32(device.rows(top.topTokens, 0, count)),
      topCount === 0 ? none : device.readF32(device.rows(top.topLogprobs, 0, count)),
    ]);
    return (row, tokenId, wantedCount) => {
      const best = Array.from({ length: wantedCount }, (_, place) => ({
        tokenId: topTokens[row * topCount + place] ?? 0,
        logprob: topLogprobs[row * topCount + place] ?? 0,
      }));
      const [logprob = 0, rank = 0] = [logprobs[row], places[row]];
      return { tokenId, logprob, rank, top: withRanks(best) };
    };
  }

  /** Gives all device memory back. */
  dispose(): void {
    const tensors = [
      this.tokens,
      this.#chosen,
      this.#ranks,
      this.#scored,
      this.#topTokens,
      this.#topLogprobs,
      ...(this.#edited === null ? [] : [this.#edited]),
    ];
    for (const tensor of tensors) this.#device.release(tensor);
    this.#candidates.dispose();
    this.#mirror.dispose();
  }
}
