import { describe, expect, test } from "vitest";
import { uniformAt } from "#base";
import { openDevice } from "#devices";
import type { TokenCandidates } from "#sampling";
import { NO_STOP_RULES } from "#scheduler";
// Not at the engine's front door: the engine alone runs searches.
import { type BeamHypothesis, BeamSearch } from "../../src/engine/loop/beam-search.ts";
import { beamParityContract } from "../contracts/beam-parity.ts";
import { sized } from "../support/full.ts";

/** A language model over few tokens: log-probabilities of the next one. */
type ToyModel = (tokens: readonly number[]) => readonly number[];

type Options = ConstructorParameters<typeof BeamSearch>[0];

const plain: Options = {
  width: 2,
  lengthPenalty: 1,
  earlyStopping: false,
  returned: 2,
  newTokensMax: 4,
  stop: NO_STOP_RULES,
};

const ends = (...ids: number[]): Options["stop"] => ({
  ...NO_STOP_RULES,
  eosTokenIds: new Set(ids),
});

/** Log-probabilities that depend on the whole history, in a way that only `seed` knows. */
function randomModel(seed: number, vocabulary: number): ToyModel {
  return (tokens) => {
    const history = tokens.reduce((hash, token) => (hash * 31 + token + 1) % 999_983, 7);
    const key = { low: seed, high: history };
    const logits = Array.from({ length: vocabulary }, (_, token) => 5 * uniformAt(key, token));
    const sum = Math.log(logits.reduce((total, logit) => total + Math.exp(logit), 0));
    return logits.map((logit) => Math.fround(logit - sum));
  };
}

/** The likeliest tokens of some beams, as the sampler gives them. */
function candidatesOf(model: ToyModel, beams: readonly (readonly number[])[], wanted: number) {
  const rows = beams.map((tokens) =>
    model(tokens)
      .map((logprob, tokenId) => ({ tokenId, logprob }))
      .sort((a, b) => b.logprob - a.logprob || a.tokenId - b.tokenId)
      .slice(0, wanted),
  );
  const flat = rows.flat();
  const candidates: TokenCandidates = {
    count: rows[0]?.length ?? 0,
    tokenIds: Int32Array.from(flat, ({ tokenId }) => tokenId),
    logprobs: Float32Array.from(flat, ({ logprob }) => logprob),
  };
  return candidates;
}

/** Runs a search to its end, as an engine does; also how many steps it took. */
function search(options: Options, model: ToyModel): { found: BeamHypothesis[]; steps: number } {
  const beams = new BeamSearch(options);
  let live: number[][] = [[]];
  for (let steps = 1; ; steps++) {
    const { next, done } = beams.advance(candidatesOf(model, live, beams.candidatesPerBeam));
    if (done) return { found: beams.result(), steps };
    live = next.map(({ parent, tokenId }) => [...(live[parent] ?? []), tokenId]);
    expect(beams.liveBeams).toBe(live.length);
  }
}

interface Scored {
  readonly tokens: readonly number[];
  readonly score: number;
  readonly finished: boolean;
}

const NEVER = -1e9;

/**
 * The definition: everything over the whole vocabulary, with sums of -1e9 for what may not be. How
 * transformers 5 computes it, without its tensors.
 */
function definition(options: Options, model: ToyModel): Scored[] {
  const { width, lengthPenalty, earlyStopping, newTokensMax, stop } = options;
  const kept = Math.max(2, 1 + stop.eosTokenIds.size) * width;
  let live = Array.from({ length: width }, (_, beam) => ({
    tokens: [] as number[],
    sum: beam === 0 ? 0 : NEVER,
  }));
  let best: Scored[] = live.map(() => ({ tokens: [], score: NEVER, finished: false }));
  for (let length = 1; ; length++) {
    const top = live
      .flatMap(({ tokens, sum }) =>
        model(tokens).map((logprob, token) => ({
          tokens: [...tokens, token],
          sum: sum + (length <= stop.minTokens && stop.eosTokenIds.has(token) ? NEVER : logprob),
        })),
      )
      .sort((a, b) => b.sum - a.sum)
      .slice(0, kept)
      .map(({ tokens, sum }, place) => {
        const ended = length === newTokensMax || stop.eosTokenIds.has(tokens.at(-1) ?? -1);
        return { tokens, sum, ended, finished: ended && place < width };
      });
    live = top
      .map(({ tokens, sum, ended }) => ({ tokens, sum: sum + (ended ? NEVER : 0) }))
      .sort((a, b) => b.sum - a.sum)
      .slice(0, width);
    const newly = top.map(({ tokens, sum, finished }) => ({
      tokens,
      score: sum / length ** lengthPenalty + (finished ? 0 : NEVER),
      finished,
    }));
    best = [...best, ...newly].sort((a, b) => b.score - a.score).slice(0, width);
    const full = best.every(({ finished }) => finished);
    const worst = full ? Math.min(...best.map(({ score }) => score)) : NEVER;
    const bestLength = earlyStopping === "never" && lengthPenalty > 0 ? newTokensMax : length;
    const hope = (live[0]?.sum ?? NEVER) / bestLength ** lengthPenalty;
    const over = !(hope > worst) || (full && earlyStopping === true);
    if (over || top.every(({ ended }) => ended)) return best.filter(({ finished }) => finished);
  }
}

const SEEDS = Array.from({ length: 60 }, (_, seed) => seed);

describe("BeamSearch", () => {
  test.for(SEEDS)("finds what the definition finds (seed %i)", (seed) => {
    const pick = <T>(choices: readonly T[], place: number): T => {
      const index = Math.floor(uniformAt({ low: seed, high: 1 }, place) * choices.length);
      return choices[index] ?? (choices[0] as T); // uniformAt is below 1: index is in range
    };
    const width = pick([1, 2, 3, 4, 7], 0);
    const eos = pick([[], [3], [0, 5], [1, 2, 9]], 1);
    const options: Options = {
      width,
      returned: width,
      lengthPenalty: pick([-1, 0, 0.5, 1, 2], 2),
      earlyStopping: pick([false, true, "never"] as const, 3),
      newTokensMax: pick([1, 2, 9, 25], 4),
      stop: { ...ends(...eos), minTokens: pick([0, 0, 1, 5], 5) },
    };
    const model = randomModel(seed, 40);
    const { found } = search(options, model);
    const expected = definition(options, model);
    expect(found.map(({ tokenIds }) => tokenIds)).toEqual(expected.map(({ tokens }) => tokens));
    for (const [place, { score }] of found.entries()) {
      expect(score).toBeCloseTo(expected[place]?.score ?? Number.NaN, 9);
    }
  });

  test("at the limit the live beams are finished as they are", () => {
    const { found, steps } = search(plain, randomModel(1, 12));
    expect(steps).toBe(4);
    for (const { tokenIds, finishReason, stopReason } of found) {
      expect(tokenIds).toHaveLength(4);
      expect({ finishReason, stopReason }).toEqual({ finishReason: "length", stopReason: null });
    }
  });

  test("a score is the sum of log-probabilities over length ** penalty, the end included", () => {
    // Token 0 ends with half of the mass; 1 and 2 share the rest.
    const model: ToyModel = () => [Math.log(0.5), Math.log(0.3), Math.log(0.2)];
    const options: Options = {
      ...plain,
      earlyStopping: true,
      lengthPenalty: 2,
      stop: ends(0),
    };
    const { found } = search(options, model);
    expect(found.map(({ tokenIds }) => tokenIds)).toEqual([
      [1, 0],
      [2, 0],
    ]);
    expect(found[0]?.logprob).toBeCloseTo(Math.log(0.3 * 0.5), 6);
    expect(found[0]?.score).toBeCloseTo(Math.log(0.3 * 0.5) / 4, 6);
    // Better than [0] alone, whose score is log 0.5.
    expect(found[1]?.score).toBeCloseTo(Math.log(0.2 * 0.5) / 4, 6);
    expect(found[1]).toMatchObject({ finishReason: "stop", stopReason: null });
  });

  test("stops later the less it gives up: true, then false, then never", () => {
    const steps = ([true, false, "never"] as const).map((earlyStopping) => {
      const model: ToyModel = (tokens) =>
        tokens.length === 0
          ? [Math.log(0.6), Math.log(0.35), Math.log(0.05)]
          : [Math.log(0.3), Math.log(0.69), Math.log(0.01)];
      const options: Options = { ...plain, earlyStopping, newTokensMax: 30, stop: ends(0) };
      return search(options, model).steps;
    });
    expect(steps).toEqual([...steps].sort((a, b) => a - b));
    expect(new Set(steps).size).toBeGreaterThan(1);
  });

  test("equal candidates go by beam, then by token", () => {
    const model: ToyModel = () => Array.from({ length: 4 }, () => Math.log(0.25));
    const beams = new BeamSearch({ ...plain, width: 3, returned: 3 });
    const step = (live: number[][]) =>
      beams.advance(candidatesOf(model, live, beams.candidatesPerBeam)).next;
    expect(step([[]]).map(({ tokenId }) => tokenId)).toEqual([0, 1, 2]);
    expect(step([[0], [1], [2]])).toEqual([
      { parent: 0, tokenId: 0 },
      { parent: 0, tokenId: 1 },
      { parent: 0, tokenId: 2 },
    ]);
  });

  test("ignoreEos leaves end tokens to be tokens, and stop tokens alone", () => {
    const model: ToyModel = () => [Math.log(0.5), Math.log(0.4), Math.log(0.1)];
    const stop = { ...ends(0), ignoreEos: true, stopTokenIds: new Set([1]) };
    const { found } = search({ ...plain, newTokensMax: 2, stop }, model);
    expect(found[0]).toMatchObject({ tokenIds: [0, 0], finishReason: "length" });
    expect(found[1]).toMatchObject({ tokenIds: [0, 1], finishReason: "stop", stopReason: 1 });
  });

  test("only the best `returned` beams are given", () => {
    const model = randomModel(3, 20);
    const all = search({ ...plain, width: 4, returned: 4 }, model).found;
    expect(search({ ...plain, width: 4, returned: 2 }, model).found).toEqual(all.slice(0, 2));
  });

  test("a vocabulary smaller than the width gives as many beams as there are", () => {
    const model: ToyModel = () => [Math.log(0.7), Math.log(0.3)];
    const { found } = search({ ...plain, width: 3, returned: 3, newTokensMax: 1 }, model);
    expect(found.map(({ tokenIds }) => tokenIds)).toEqual([[0], [1]]);
  });

  test("a model that computes no numbers ends the search with an error", () => {
    const beams = new BeamSearch(plain);
    const logprobs = Float32Array.of(Number.NaN, Number.NEGATIVE_INFINITY);
    const candidates = { count: 2, tokenIds: Int32Array.of(0, 1), logprobs };
    expect(() => beams.advance(candidates)).toThrow(
      expect.objectContaining({ code: "ENGINE_STEP_FAILED" }),
    );
  });
});

describe("beam search equals Hugging Face's", () => {
  beamParityContract("cpu", () => openDevice({ kind: "cpu", threads: 1 }));
  // The definition of every op is the same for all families, and takes its time.
  const few = sized(["llama"], ["llama", "gemma2"]);
  beamParityContract("reference", () => openDevice({ kind: "reference" }), few);
});
