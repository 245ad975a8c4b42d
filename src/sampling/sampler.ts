import { assert } from "#base";
import type { Device, DeviceTensor } from "#devices";
import { editEntriesMax } from "./logit-edits.ts";
import type { LogprobRequest, PositionLogprobs } from "./logprobs.ts";
import { Mirror } from "./mirror.ts";
import type { RowEdits, SamplingBatch } from "./sampling-batch.ts";
import { type LateScores, TokenScorer } from "./token-scorer.ts";
import { type TokenCandidates, TopCandidates } from "./top-candidates.ts";

/** The device, and the largest step to allocate for. */
export interface SamplerOptions {
  readonly device: Device;
  /** R, most rows that one step samples. */
  readonly rowsMax: number;
  /** V, columns of the logits. */
  readonly vocabularySize: number;
  /** Most alternatives whose log-probabilities the device computes; more go over the host. */
  readonly topLogprobsMax?: number;
  /**
   * Entries of edits after which a row is the last of its part. The device holds these, and those
   * of one row more. Default: those of some hundred rows with penalties on long texts.
   */
  readonly editEntriesMax?: number;
  /** Elements for drafted tokens behind the sampled ones. Default: 0. */
  readonly draftElements?: number;
}

/** Drafted tokens begin at a multiple of so many elements: copies of devices are aligned. */
const ALIGNMENT = 64;

/** Enqueued sampling. `take` waits for it, and for nothing behind it; to be called once. */
export interface StartedSampling {
  take(): Promise<SampledBatch>;
}

/** The tokens that one step sampled, in the order of its rows. */
export interface SampledBatch {
  /** [rows]. */
  readonly tokens: Int32Array;
  /** [rows], null where none were requested. Of the logits before any edit. Null: none of any. */
  readonly logprobs: readonly (PositionLogprobs | null)[] | null;
}

const topLogprobsDefault = 20;

/**
 * The device's half of sampling: one token per row of a `BatchWriter`'s batches. It keeps nothing
 * of a sequence but the last sampled tokens, by row. All of its memory is allocated here, before
 * the first step, except two things that few batches need, allocated at first use or by `reserve`:
 * a second [R, V] for steps that edit logits and report log-probabilities of the unedited ones, and
 * candidates of beams.
 */
export class Sampler {
  /**
   * [R and more] i32: the last sampled tokens, kept on the device for a step that starts before
   * they are read; from element `draftsFrom` on there is room for drafted ones.
   */
  readonly tokens: DeviceTensor;
  readonly draftsFrom: number;
  readonly #device: Device;
  readonly #rowsMax: number;
  readonly #vocabularySize: number;
  readonly #mirror: Mirror;
  readonly #scorer: TokenScorer;
  readonly #scored: DeviceTensor;
  readonly #candidates: TopCandidates;
  #edited: DeviceTensor | null = null;

  constructor(options: SamplerOptions) {
    const { device, rowsMax, vocabularySize } = options;
    this.#device = device;
    this.#rowsMax = rowsMax;
    this.#vocabularySize = vocabularySize;
    this.#mirror = new Mirror(device, {
      rowsMax,
      words: Math.ceil(vocabularySize / 32),
      entriesMax: editEntriesMax(options) + vocabularySize,
    });
    this.draftsFrom = Math.ceil(rowsMax / ALIGNMENT) * ALIGNMENT;
    this.tokens = device.allocate("i32", [this.draftsFrom + (options.draftElements ?? 0)]);
    this.#scored = device.allocate("i32", [rowsMax]);
    const topMax = options.topLogprobsMax ?? topLogprobsDefault;
    this.#scorer = new TokenScorer({ device, rowsMax, vocabularySize, topMax });
    this.#candidates = new TopCandidates({ device, rowsMax, vocabularySize });
  }

  /**
   * Enqueues edits of adjacent rows of `logits` [R, V], which may be overwritten. Where the batch
   * is `edited`, those of all rows come in order, before `start`.
   */
  edit(logits: DeviceTensor, batch: SamplingBatch, edits: RowEdits): void {
    const { first, count } = edits;
    const out = this.#changed(logits, batch);
    if (edits.tokens.length === 0 && edits.masks === null && out === logits) return;
    const part = (tensor: DeviceTensor): DeviceTensor =>
      this.#device.rows(tensor, first, first + count);
    const input = this.#mirror.writeEdits(edits);
    this.#device.adjustLogits({ count, out: part(out), logits: part(logits), ...input });
  }

  /**
   * Enqueues sampling from `logits` [R, V], whose first rows are the batch's. Waits where
   * log-probabilities go over the host.
   */
  async start(logits: DeviceTensor, batch: SamplingBatch): Promise<StartedSampling> {
    const { count } = batch;
    assert(count <= this.#rowsMax, `Cannot sample ${count} rows: room for fewer`);
    this.#mirror.writeParams(batch);
    const changed = this.#changed(logits, batch);
    this.#device.sample({ count, logits: changed, out: this.tokens, ...this.#mirror.params });
    const sampled = this.#device.readLater(this.#device.rows(this.tokens, 0, count));
    const scores = await this.#startScores(logits, batch);
    return {
      take: async () => {
        const tokens = await sampled.take();
        return { tokens, logprobs: (await scores?.take(tokens)) ?? null };
      },
    };
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
      const late = await this.#scorer.start({ logits: rows, tokens: this.#scored, wanted: wishes });
      const found = await late.take(part);
      scores.push(...found.filter((score) => score !== null));
    }
    return scores;
  }

  /**
   * The `count` likeliest tokens of some rows of `logits` [R, V], or all where the vocabulary has
   * fewer: the candidates of beam search. Rows in the order given; the logits are unchanged.
   */
  topCandidates(
    logits: DeviceTensor,
    rows: readonly number[],
    count: number,
  ): Promise<TokenCandidates> {
    return this.#candidates.find(logits, rows, count);
  }

  /** Starts the log-probabilities that the rows request; null: none. */
  async #startScores(
    logits: DeviceTensor,
    { logprobs: wanted }: SamplingBatch,
  ): Promise<LateScores | null> {
    if (wanted === null) return null;
    return await this.#scorer.start({ logits, tokens: this.tokens, wanted });
  }

  /** Where edited logits go: they replace the given ones, unless these are reported. */
  #changed(logits: DeviceTensor, { edited, logprobs }: SamplingBatch): DeviceTensor {
    return edited && logprobs !== null ? this.#editedRows() : logits;
  }

  #editedRows(): DeviceTensor {
    this.#edited ??= this.#device.allocate("f32", [this.#rowsMax, this.#vocabularySize]);
    return this.#edited;
  }

  /**
   * Allocates now what would be allocated at first use, for devices that may lack the memory later.
   * `candidates`: the largest count for `topCandidates`. Throws OUT_OF_MEMORY.
   */
  reserve(candidates: number): void {
    this.#editedRows();
    this.#candidates.reserve(candidates);
  }

  /** Releases all device memory. */
  dispose(): void {
    const edited = this.#edited === null ? [] : [this.#edited];
    for (const tensor of [this.tokens, this.#scored, ...edited]) this.#device.release(tensor);
    this.#scorer.dispose();
    this.#candidates.dispose();
    this.#mirror.dispose();
  }
}
