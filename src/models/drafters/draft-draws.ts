import type { Seed } from "#base";
import type { Device, DeviceTensor, RaceCandidatesInput } from "#devices";

/** How the model samples a sequence's tokens, so that a drafter can draw with the same noise. */
export interface BranchDraw {
  /** Above 0. */
  readonly temperature: number;
  /** 0: off. */
  readonly topK: number;
  /** 1: off. */
  readonly topP: number;
  /** 0: off. */
  readonly minP: number;
  readonly seed: Seed;
  /** Of the first drafted token. */
  readonly position: number;
}

/** Candidates of a row that a race needs: what is left out has few of the draws. */
const CANDIDATES = 64;
/** Most candidates of a sequence, for `selectBeams`. */
const CANDIDATES_MAX = 256;

/** How many of a row's likeliest tokens race, where `width` rows of a sequence do. */
export function racedTokens(width: number, draftVocabularySize: number): number {
  return Math.min(draftVocabularySize, CANDIDATES, Math.floor(CANDIDATES_MAX / width));
}

/** A draw of any kind, to run all sizes with. */
export const SOME_DRAW: BranchDraw = {
  ...{ temperature: 1, topK: 0, topP: 0.9, minP: 0 },
  ...{ seed: { low: 0, high: 0 }, position: 1 },
};

type RacedRows = Pick<
  RaceCandidatesInput,
  "count" | "before" | "topTokens" | "topLogprobs" | "tokenMap" | "ahead"
>;

/** The draws of a step's sequences on the device, and the races that they decide. S: sequences. */
export class DraftDraws {
  readonly #device: Device;
  readonly #sequencesMax: number;
  /** Positions and top k, then temperatures, top p and min p: S each, so that few writes do. */
  readonly #integers: DeviceTensor;
  readonly #floats: DeviceTensor;
  readonly #seeds: DeviceTensor;
  /** [S] i32: 0, 1, 2 and so on. */
  readonly #all: DeviceTensor;

  constructor(device: Device, sequencesMax: number) {
    this.#device = device;
    this.#sequencesMax = sequencesMax;
    this.#integers = device.allocate("i32", [2 * sequencesMax]);
    this.#floats = device.allocate("f32", [3 * sequencesMax]);
    this.#seeds = device.allocate("u32", [sequencesMax, 2]);
    this.#all = device.allocate("i32", [sequencesMax]);
    device.write(
      this.#all,
      Int32Array.from({ length: sequencesMax }, (_, place) => place),
    );
  }

  /**
   * Sends the draws; null: greedy. False: all are, and nothing was sent. `positions` [S and more]
   * i32: of the device, in the place of the draws' own.
   */
  write(draws: readonly (BranchDraw | null)[], positions?: DeviceTensor): boolean {
    if (draws.every((draw) => draw === null)) return false;
    const most = this.#sequencesMax;
    const [integers, floats] = [new Int32Array(2 * most), new Float32Array(3 * most)];
    const seeds = new Uint32Array(2 * most);
    draws.forEach((draw, place) => {
      if (draw === null) return;
      integers[place] = draw.position;
      integers[most + place] = draw.topK;
      floats[place] = draw.temperature;
      floats[most + place] = draw.topP;
      floats[2 * most + place] = draw.minP;
      seeds.set([draw.seed.low, draw.seed.high], 2 * place);
    });
    this.#device.write(this.#integers, integers);
    this.#device.write(this.#floats, floats);
    this.#device.write(this.#seeds, seeds);
    if (positions !== undefined) {
      const ids = this.#part(this.#integers, 0);
      const count = draws.length;
      this.#device.takeTokens({ count, ids, sampled: positions, sources: this.#all });
    }
    return true;
  }

  /** Enqueues the races of rows by the draws sent last. */
  race(rows: RacedRows): void {
    this.#device.raceCandidates({
      ...rows,
      ...{ positions: this.#part(this.#integers, 0), topK: this.#part(this.#integers, 1) },
      ...{ temperature: this.#part(this.#floats, 0), topP: this.#part(this.#floats, 1) },
      ...{ minP: this.#part(this.#floats, 2), seeds: this.#seeds },
    });
  }

  #part(tensor: DeviceTensor, place: number): DeviceTensor {
    const most = this.#sequencesMax;
    return this.#device.rows(tensor, place * most, (place + 1) * most);
  }

  /** Releases its memory. */
  dispose(): void {
    const all = [this.#integers, this.#floats, this.#seeds, this.#all];
    for (const memory of all) this.#device.release(memory);
  }
}
