import { assert } from "#base";
import type { Device, DeviceTensor } from "#devices";
import { LogitEdits } from "./logit-edits.ts";
import type { LogprobRequest, PositionLogprobs } from "./logprobs.ts";
import { Mirror } from "./mirror.ts";
import type { SamplingRow } from "./sampling-row.ts";
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
}

/** Enqueued sampling. `take` waits for it, and for nothing behind it; to be called once. */
export interface StartedDraw {
  take(): Promise<SampledBatch>;
}

/** The tokens that one step sampled, in the order of its rows. */
export interface SampledBatch {
  /** [rows]. */
  readonly tokens: Int32Array;
  /** [rows], null where none were requested. Of the logits before any edit. */
  readonly logprobs: readonly (PositionLogprobs | null)[];
  /** Errors of rows whose edits failed, by row: their tokens are invalid. */
  readonly failures: RowFailures;
}

/** Errors of failed rows, by row. */
export type RowFailures = ReadonlyMap<number, unknown>;

const topLogprobsDefault = 20;
const editEntriesDefault = 1 << 18;

/**
 * Samples one token per row, on the device. All of its memory is allocated here, before the first
 * step, except two things that few batches need, allocated at first use or by `reserve`: a second
 * [R, V] for steps that edit logits and report log-probabilities of the unedited ones, and
 * candidates of beams.
 */
export class Sampler {
  /**
   * [R] i32: the last sampled tokens, kept on the device for a step that starts before they are
   * read.
   */
  readonly tokens: DeviceTensor;
  readonly #device: Device;
  readonly #rowsMax: number;
  readonly #vocabularySize: number;
  readonly #editEntriesMax: number;
  readonly #edits: LogitEdits;
  readonly #mirror: Mirror;
  readonly #scorer: TokenScorer;
  readonly #scored: DeviceTensor;
  readonly #candidates: TopCandidates;
  #edited: DeviceTensor | null = null;

  constructor(options: SamplerOptions) {
    const { device, rowsMax, vocabularySize, editEntriesMax = editEntriesDefault } = options;
    this.#device = device;
    this.#rowsMax = rowsMax;
    this.#vocabularySize = vocabularySize;
    this.#editEntriesMax = Math.min(editEntriesMax, (rowsMax - 1) * vocabularySize);
    this.#edits = new LogitEdits(rowsMax, vocabularySize);
    this.#mirror = new Mirror(device, {
      rowsMax,
      words: this.#edits.wordsPerRow,
      entriesMax: this.#editEntriesMax + vocabularySize,
    });
    this.tokens = device.allocate("i32", [rowsMax]);
    this.#scored = device.allocate("i32", [rowsMax]);
    const topMax = options.topLogprobsMax ?? topLogprobsDefault;
    this.#scorer = new TokenScorer({ device, rowsMax, vocabularySize, topMax });
    this.#candidates = new TopCandidates({ device, rowsMax, vocabularySize });
  }

  /** Samples from `logits` as `start` does, and waits for the tokens. */
  async sample(logits: DeviceTensor, rows: readonly SamplingRow[]): Promise<SampledBatch> {
    const draw = await this.start(logits, rows);
    return await draw.take();
  }

  /**
   * Enqueues sampling from `logits` [R, V], whose first rows belong to `rows` and may be
   * overwritten. Waits for grammars before it, and after it where log-probabilities go over the
   * host. An error of one row does not affect the others.
   */
  async start(logits: DeviceTensor, rows: readonly SamplingRow[]): Promise<StartedDraw> {
    assert(rows.length <= this.#rowsMax, `Cannot sample ${rows.length} rows: room for fewer`);
    const failures = await prepareAll(rows);
    this.#draw(logits, rows, failures);
    const drawn = this.#device.readLater(this.#device.rows(this.tokens, 0, rows.length));
    const scores = await this.#startScores(logits, rows);
    return {
      take: async () => {
        const tokens = await drawn.take();
        const logprobs = (await scores?.take(tokens)) ?? rows.map(() => null);
        return { tokens, logprobs, failures };
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
    rows: readonly SamplingRow[],
  ): Promise<LateScores | null> {
    if (!rows.some(({ sampling }) => sampling.logprobs !== null)) return null;
    const wanted = rows.map(({ sampling }) => sampling.logprobs);
    return await this.#scorer.start({ logits, tokens: this.tokens, wanted });
  }

  /** Enqueues edits and sampling. */
  #draw(logits: DeviceTensor, rows: readonly SamplingRow[], failures: Map<number, unknown>): void {
    const count = rows.length;
    const changed = this.#edit(logits, rows, failures);
    this.#mirror.writeDraws(rows);
    this.#device.sample({ count, logits: changed, out: this.tokens, ...this.#mirror.draws });
  }

  /** The logits to sample from: the given ones where no row has an edit. */
  #edit(
    logits: DeviceTensor,
    rows: readonly SamplingRow[],
    failures: Map<number, unknown>,
  ): DeviceTensor {
    if (!rows.some(({ sampling }) => sampling.edits)) return logits;
    const reports = rows.some(({ sampling }) => sampling.logprobs !== null);
    const out = reports ? this.#editedRows() : logits;
    this.#edits.reset();
    let first = 0;
    rows.forEach(({ sampling, awaitedTokens }, row) => {
      this.#edits.beginRow();
      if (sampling.edits && !failures.has(row)) {
        try {
          sampling.write(this.#edits, awaitedTokens);
        } catch (error) {
          this.#edits.clearRow();
          failures.set(row, error);
        }
      }
      if (row + 1 < rows.length && this.#edits.entries < this.#editEntriesMax) return;
      this.#adjust(out, logits, first);
      this.#edits.reset();
      first = row + 1;
    });
    return out;
  }

  /** Enqueues the collected edits, which begin at row `first`. */
  #adjust(out: DeviceTensor, logits: DeviceTensor, first: number): void {
    const count = this.#edits.rows;
    if (this.#edits.empty && out === logits) return;
    const part = (tensor: DeviceTensor): DeviceTensor =>
      this.#device.rows(tensor, first, first + count);
    const input = this.#mirror.writeEdits(this.#edits);
    this.#device.adjustLogits({ count, out: part(out), logits: part(logits), ...input });
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

/** Computes the masks of all rows' grammars. Returns the errors, by row. */
async function prepareAll(rows: readonly SamplingRow[]): Promise<Map<number, unknown>> {
  const failures = new Map<number, unknown>();
  const constrained = [...rows.entries()].filter(([, { sampling }]) => sampling.constrained);
  if (constrained.length === 0) return failures;
  const prepare = async ([row, { sampling }]: readonly [number, SamplingRow]) => {
    try {
      await sampling.prepare();
    } catch (error) {
      failures.set(row, error);
    }
  };
  await Promise.all(constrained.map(prepare));
  return failures;
}
