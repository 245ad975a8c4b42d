import { assert } from "#base";
import type { Device, DeviceTensor } from "#devices";

/** The likeliest tokens of several rows of logits. */
export interface TokenCandidates {
  /** k, per row. */
  readonly count: number;
  /** [rows, k]: best first, equal ones by rising id. */
  readonly tokenIds: Int32Array;
  /** [rows, k]: log-softmax of the unedited logits; -Infinity where a token is impossible. */
  readonly logprobs: Float32Array;
}

/** Device memory for the largest number of candidates so far. */
interface CandidateTensors {
  /** k, at most. */
  readonly countMax: number;
  /** [R * k] i32 and f32: rows of the current k. */
  readonly tokenIds: DeviceTensor;
  readonly logprobs: DeviceTensor;
  /** [R] i32, zeros: the op also scores one given token per row, which is unused here. */
  readonly given: DeviceTensor;
  /** [R] f32 and i32: the op's results for it. */
  readonly chosen: DeviceTensor;
  readonly ranks: DeviceTensor;
}

/** The device, and the most rows at a time. */
export interface TopCandidatesOptions {
  readonly device: Device;
  /** R. */
  readonly rowsMax: number;
  /** V. */
  readonly vocabularySize: number;
}

/**
 * Finds candidates on the device, for beam search. Its memory is allocated at first use, because
 * few engines run beam search, and again only where a request needs more candidates than any
 * before.
 */
export class TopCandidates {
  readonly #options: TopCandidatesOptions;
  #tensors: CandidateTensors | null = null;

  constructor(options: TopCandidatesOptions) {
    this.#options = options;
  }

  /** See `Sampler.topCandidates`. */
  async find(
    logits: DeviceTensor,
    rows: readonly number[],
    wanted: number,
  ): Promise<TokenCandidates> {
    const { device, rowsMax, vocabularySize } = this.#options;
    assert(rows.length <= rowsMax, `Cannot read ${rows.length} rows: room for fewer`);
    const count = Math.min(wanted, vocabularySize);
    const { tokenIds, logprobs, given, chosen, ranks } = this.#roomFor(count);
    const part = (tensor: DeviceTensor, first: number, length: number): DeviceTensor =>
      device.rows(tensor, first * count, (first + length) * count);
    let done = 0;
    for (const { first, length } of runsOf(rows)) {
      device.logprobs({
        count: length,
        logits: device.rows(logits, first, first + length),
        tokens: given,
        chosen,
        ranks,
        topCount: count,
        topTokens: part(tokenIds, done, length),
        topLogprobs: part(logprobs, done, length),
      });
      done += length;
    }
    const [ids, values] = await Promise.all([
      device.readI32(part(tokenIds, 0, rows.length)),
      device.readF32(part(logprobs, 0, rows.length)),
    ]);
    return { count, tokenIds: ids, logprobs: values };
  }

  /** Allocates memory for this many candidates of each row. Throws OUT_OF_MEMORY. */
  reserve(count: number): void {
    this.#roomFor(Math.min(count, this.#options.vocabularySize));
  }

  /** Releases the device memory; the next use allocates it again. */
  dispose(): void {
    if (this.#tensors === null) return;
    const { countMax: _, ...tensors } = this.#tensors;
    for (const tensor of Object.values(tensors)) this.#options.device.release(tensor);
    this.#tensors = null;
  }

  #roomFor(count: number): CandidateTensors {
    if (this.#tensors !== null && this.#tensors.countMax >= count) return this.#tensors;
    const { device, rowsMax } = this.#options;
    this.dispose();
    this.#tensors = {
      countMax: count,
      tokenIds: device.allocate("i32", [rowsMax * count]),
      logprobs: device.allocate("f32", [rowsMax * count]),
      given: device.allocate("i32", [rowsMax]),
      chosen: device.allocate("f32", [rowsMax]),
      ranks: device.allocate("i32", [rowsMax]),
    };
    return this.#tensors;
  }
}

/** One row of several, [1, k]; shares memory with them. */
export function candidatesOfRow(candidates: TokenCandidates, row: number): TokenCandidates {
  const { count, tokenIds, logprobs } = candidates;
  const [start, end] = [row * count, (row + 1) * count];
  assert(row >= 0 && end <= tokenIds.length, `Cannot find row ${row} of the candidates`);
  return {
    count,
    tokenIds: tokenIds.subarray(start, end),
    logprobs: logprobs.subarray(start, end),
  };
}

/** Runs of adjacent rows: beams of a request are adjacent, and one launch covers all. */
function* runsOf(rows: readonly number[]): Generator<{ first: number; length: number }> {
  let [first = 0] = rows;
  let length = 0;
  for (const row of rows) {
    if (row !== first + length) {
      yield { first, length };
      [first, length] = [row, 0];
    }
    length += 1;
  }
  if (length > 0) yield { first, length };
}
