import { describe, expect, test } from "vitest";
import { SamplingParams, type TokenCandidates } from "#sampling";
import { NO_STOP_RULES, Sequence, sequenceId } from "#scheduler";
// Not at the engine's front door: the engine alone runs searches.
import { BeamRecord } from "../../src/engine/loop/beam-record.ts";

const END = 9;
const stop = { ...NO_STOP_RULES, eosTokenIds: new Set([END]) };

const sequences = [1, 2, 3].map(
  (id) =>
    new Sequence({
      id: sequenceId(id),
      requestId: "beams",
      promptTokenIds: [5, 6],
      stop,
      arrivalMs: 0,
    }),
);

function record(options: object = {}, newTokensMax = 3): BeamRecord {
  const [lead] = sequences;
  if (lead === undefined) throw new Error("A lead is wanted");
  const params = SamplingParams.parse({ beamWidth: 3, n: 2, ...options });
  return new BeamRecord({ params, stop, newTokensMax, lead });
}

/** A row that likes `best`, then rising ids, always by the same steps. */
function row(best: number, weight = 0): TokenCandidates {
  const tokenIds = Int32Array.from([best, ...[0, 1, 2, 3].filter((id) => id !== best)]);
  const logprobs = Float32Array.from(tokenIds, (_, place) => weight - 1 - place);
  return { count: tokenIds.length, tokenIds, logprobs };
}

/** What the scheduler does: a sequence per continuation, the parent's own for its first. */
function regroup(next: readonly { readonly parent: Sequence }[]): Sequence[] {
  const spare = sequences.filter((known) => !next.some(({ parent }) => parent === known));
  const kept = new Set<Sequence>();
  return next.map(({ parent }) => {
    const own = kept.has(parent) ? spare.shift() : parent;
    if (own === undefined) throw new Error("A sequence per beam is wanted");
    kept.add(parent);
    return own;
  });
}

describe("BeamRecord", () => {
  test("the first step continues the lead, later ones the beams' own sequences", () => {
    const beams = record();
    const [lead, second, third] = sequences;
    expect(beams.sequences).toEqual([lead]);
    const first = beams.advance(() => row(2));
    expect(first).toEqual([
      { parent: lead, tokenId: 2 },
      { parent: lead, tokenId: 0 },
      { parent: lead, tokenId: 1 },
    ]);
    beams.continueWith(regroup(first ?? []));
    expect(beams.sequences).toEqual([lead, second, third]);
    // The third beam's row is far better than the others'.
    const next = beams.advance((sequence) => row(3, sequence === third ? 6 : 0));
    expect(next?.map(({ parent }) => parent)).toEqual([third, third, third]);
    expect(next?.map(({ tokenId }) => tokenId)).toEqual([3, 0, 1]);
  });

  test("a finished search has one whole output per beam asked for", () => {
    const beams = record();
    for (
      let next = beams.advance(() => row(2));
      next !== null;
      next = beams.advance(() => row(2))
    ) {
      beams.continueWith(regroup(next));
    }
    const prompt = { cachedTokens: 0, queueSeconds: 0, promptLogprobs: null, promptLogits: null };
    const outputs = beams.outputs({ key: 7, prompt, heldBlockMs: 9 });
    expect(outputs).toMatchObject([
      { key: 7, index: 0, tokenIds: [2, 2, 2], finishReason: "length", stopReason: null, prompt },
      { key: 7, index: 1, finishReason: "length", prompt: null },
    ]);
    expect(outputs[0]?.beam).toEqual({ logprob: -3, score: -1 });
  });

  test("looks at as many candidates as can decide: the width, and every end token", () => {
    expect(record().candidatesPerBeam).toBe(4);
    expect(record({ beamWidth: 2 }).candidatesPerBeam).toBe(3);
  });

  test("a beam that there are no tokens for ends with an error", () => {
    const beams = record({}, 1);
    const only = { count: 1, tokenIds: Int32Array.of(4), logprobs: Float32Array.of(0) };
    expect(beams.advance(() => only)).toBeNull();
    const reasons = beams
      .outputs({ key: 1, prompt: null, heldBlockMs: 0 })
      .map((output) => output.finishReason);
    expect(reasons).toEqual(["length", "error"]);
  });

  test("as many sequences as beams must go on", () => {
    const beams = record();
    beams.advance(() => row(2));
    expect(() => beams.continueWith(sequences.slice(0, 2))).toThrow("a sequence per beam");
  });
});
