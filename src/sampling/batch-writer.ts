import { assert } from "#base";
import { editEntriesMax, LogitEdits } from "./logit-edits.ts";
import type { RowEdits, SamplingBatch } from "./sampling-batch.ts";
import type { SamplingRow } from "./sampling-row.ts";

/** The largest batch; those of the sampler that takes the batches. */
export interface BatchWriterOptions {
  /** R. */
  readonly rowsMax: number;
  /** V, columns of the logits. */
  readonly vocabularySize: number;
  /** See `SamplerOptions.editEntriesMax`. */
  readonly editEntriesMax?: number;
}

/** Errors of failed rows, by row. */
export type RowFailures = ReadonlyMap<number, unknown>;

/**
 * The host's half of sampling: turns the state of sequences into plain data. Grammars stay on this
 * side, and an error of one row does not affect the others.
 */
export class BatchWriter {
  readonly #rowsMax: number;
  readonly #entriesMax: number;
  readonly #edits: LogitEdits;
  readonly #positions: Int32Array;
  readonly #topK: Int32Array;
  readonly #temperature: Float32Array;
  readonly #topP: Float32Array;
  readonly #minP: Float32Array;
  readonly #seeds: Uint32Array;

  constructor(options: BatchWriterOptions) {
    const { rowsMax, vocabularySize } = options;
    this.#rowsMax = rowsMax;
    this.#entriesMax = editEntriesMax(options);
    this.#edits = new LogitEdits(rowsMax, vocabularySize);
    this.#positions = new Int32Array(rowsMax);
    this.#topK = new Int32Array(rowsMax);
    this.#temperature = new Float32Array(rowsMax);
    this.#topP = new Float32Array(rowsMax);
    this.#minP = new Float32Array(rowsMax);
    this.#seeds = new Uint32Array(2 * rowsMax);
  }

  /** How the rows are sampled. */
  batch(rows: readonly SamplingRow[]): SamplingBatch {
    const count = rows.length;
    assert(count <= this.#rowsMax, `Cannot sample ${count} rows: room for fewer`);
    let row = 0;
    let [reports, edited] = [false, false];
    for (const { sampling, position } of rows) {
      const { params, seed } = sampling;
      this.#positions[row] = position;
      this.#topK[row] = params.topK;
      this.#temperature[row] = params.temperature;
      this.#topP[row] = params.topP;
      this.#minP[row] = params.minP;
      this.#seeds[2 * row] = seed.low;
      this.#seeds[2 * row + 1] = seed.high;
      reports ||= sampling.logprobs !== null;
      edited ||= sampling.edits;
      row++;
    }
    return {
      count,
      positions: this.#positions,
      topK: this.#topK,
      temperature: this.#temperature,
      topP: this.#topP,
      minP: this.#minP,
      seeds: this.#seeds,
      logprobs: reports ? rows.map(({ sampling }) => sampling.logprobs) : null,
      edited,
    };
  }

  /** Computes the masks of all rows' grammars. Returns the errors, by row. */
  async prepare(rows: readonly SamplingRow[]): Promise<Map<number, unknown>> {
    const failures = new Map<number, unknown>();
    const constrained = [...rows.entries()].filter(
      ([, { sampling, drafted }]) => sampling.constrained && drafted === undefined,
    );
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

  /**
   * The edits of all rows, in parts as large as the device takes. Each is valid until the next one.
   * Rows in `failures` have none; a row whose edits fail is added to them, and so are those behind
   * drafted tokens of a sequence whose own row failed.
   */
  *edits(rows: readonly SamplingRow[], failures: Map<number, unknown>): Iterable<RowEdits> {
    const edits = this.#edits;
    edits.reset();
    let [first, own] = [0, 0];
    for (const [row, { sampling, awaitedTokens, drafted }] of rows.entries()) {
      if (drafted === undefined) own = row;
      else if (failures.has(own)) failures.set(row, failures.get(own));
      edits.beginRow();
      if (sampling.edits && !failures.has(row)) {
        try {
          if (drafted === undefined) sampling.write(edits, awaitedTokens);
          else sampling.writeBehind(drafted, edits);
        } catch (error) {
          edits.clearRow();
          failures.set(row, error);
        }
      }
      const isLast = row + 1 === rows.length;
      const isPart = isLast || edits.entries >= this.#entriesMax;
      // Who takes a part may end in between; rows of a draft lie behind each other.
      if (drafted !== undefined && (isPart || rows[row + 1]?.drafted === undefined)) {
        sampling.comeBack();
      }
      if (!isPart) continue;
      yield edits.part(first);
      edits.reset();
      first = row + 1;
    }
  }
}
