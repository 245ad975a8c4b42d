import type { LogprobRequest, PositionLogprobs, SequenceSampling } from "#sampling";

/** What is to be computed for a sequence beside its keys and values, and what was so far. */
export interface SequenceTask {
  /** Null until the request's grammar is compiled. */
  sampling: SequenceSampling | null;
  /** How many of the likeliest tokens are wanted of each row, instead of a draw; 0: a draw. */
  readonly beamCandidates: number;
  /** Log-probabilities of prompt tokens. */
  readonly promptLogprobs: PromptLogprobs | null;
  /** Logits of prompt tokens, [tokens, V]. */
  readonly promptLogits: PromptLogits | null;
  /** Its row among the tokens that the newest step draws, or drew when it was the newest. */
  drawnRow: number;
  /** Sum of last hidden states, [E]: for embeddings, which draw nothing that is used. */
  hiddenSum: HiddenSum | null;
}

export interface PromptLogprobs {
  readonly wanted: LogprobRequest;
  /** By position; the first stays null. */
  readonly rows: (PositionLogprobs | null)[];
}

export interface PromptLogits {
  readonly columns: number;
  readonly values: Float32Array;
}

/** Adds up rows whose positions come in order, each once, even when a preemption repeats them. */
export class HiddenSum {
  readonly #sum: Float64Array;
  #rows = 0;

  constructor(size: number) {
    this.#sum = new Float64Array(size);
  }

  /** `rows`: [count, E] of positions from `start` on. */
  add(start: number, rows: Float32Array): void {
    const size = this.#sum.length;
    const count = rows.length / size;
    for (let row = Math.max(0, this.#rows - start); row < count; row++) {
      for (let column = 0; column < size; column++) {
        this.#sum[column] = (this.#sum[column] ?? 0) + (rows[row * size + column] ?? 0);
      }
    }
    this.#rows = Math.max(this.#rows, start + count);
  }

  /** The sum's direction, of length 1: the mean's is the same. */
  normalized(): Float32Array {
    let square = 0;
    for (const value of this.#sum) square += value * value;
    const scale = square > 0 ? 1 / Math.sqrt(square) : 0;
    return Float32Array.from(this.#sum, (value) => value * scale);
  }
}
