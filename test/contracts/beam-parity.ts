/** Beam search over a device's own logits gives Hugging Face's sequences and scores. */
import { expect, test } from "vitest";
import type { Device } from "#devices";
import { Sampler } from "#sampling";
import { NO_STOP_RULES } from "#scheduler";
import { type BeamHypothesis, BeamSearch } from "../../src/engine/loop/beam-search.ts";
import { sized } from "../support/full.ts";
import { DecoderDriver } from "./decoder-driver.ts";
import { decoderFixtures, openRecordedModel } from "./recorded-model.ts";

const width = 4;
const newTokens = 12;
const scoreTolerance = 1e-4;

/**
 * Runs the recorded searches without scheduler and block sharing: every beam computes its own
 * tokens behind the prompt again. `createDevice` makes a fresh device for each fixture.
 */
export function beamParityContract(
  name: string,
  createDevice: () => Device | Promise<Device>,
  fixtures: readonly string[] = decoderFixtures,
): void {
  test.for(fixtures)(`${name} and %s: beams and scores are the recorded ones`, async (fixture) => {
    const { model, sources, cases } = openRecordedModel(fixture);
    if (model.kind !== "decoder") throw new Error("A recorded decoder is wanted");
    const device = await createDevice();
    try {
      const driver = new DecoderDriver({ device, model, sources, sequences: width });
      const vocabularySize = model.spec.vocabularySize;
      const sampler = new Sampler({ device, rowsMax: width, vocabularySize });
      for (const { prompt, beams } of cases.slice(0, sized(3, cases.length))) {
        const found = await searchBeams(driver, sampler, prompt);
        expect(found.map(({ tokenIds }) => tokenIds)).toEqual(beams.map(({ tokens }) => tokens));
        for (const [place, { score }] of found.entries()) {
          const expected = beams[place]?.score ?? Number.NaN;
          expect(Math.abs(score - expected)).toBeLessThanOrEqual(scoreTolerance);
        }
      }
    } finally {
      device.dispose();
    }
  });
}

/** The four best of four beams, none of which may end. */
async function searchBeams(
  driver: DecoderDriver,
  sampler: Sampler,
  prompt: readonly number[],
): Promise<BeamHypothesis[]> {
  const { eosTokenIds } = driver.decoder.spec;
  const beams = new BeamSearch({
    width,
    lengthPenalty: 1,
    earlyStopping: false,
    returned: width,
    newTokensMax: newTokens,
    stop: { ...NO_STOP_RULES, eosTokenIds: new Set(eosTokenIds), minTokens: newTokens },
  });
  const sequences = Array.from({ length: width }, (_, sequence) => sequence);
  for (const sequence of sequences) driver.rewind(sequence, 0);
  driver.step(sequences.map((sequence) => ({ sequence, tokens: prompt })));
  let live: number[][] = [[]];
  for (;;) {
    const rows = live.map((_, beam) => beam);
    const lengths = live.map((tokens) => tokens.length || prompt.length);
    const logits = driver.decoder.logits(lastRows(lengths));
    const { next, done } = beams.advance(
      await sampler.topCandidates(logits, rows, beams.candidatesPerBeam),
    );
    if (done) return beams.result();
    live = next.map(({ parent, tokenId }) => [...(live[parent] ?? []), tokenId]);
    for (const sequence of sequences) driver.rewind(sequence, prompt.length);
    driver.step(live.map((tokens, sequence) => ({ sequence, tokens })));
  }
}

/** The last row of each of several chunks, one behind the other. */
function lastRows(lengths: readonly number[]): Int32Array {
  let end = 0;
  return Int32Array.from(lengths, (length) => {
    end += length;
    return end - 1;
  });
}
