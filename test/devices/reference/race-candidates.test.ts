import { expect, test } from "vitest";
import { gumbelAt, seedFrom } from "#base";
import { ReferenceDevice } from "#devices";
import { floats, integers, words } from "./sources.ts";

const device = new ReferenceDevice();
const low = Number.NEGATIVE_INFINITY;
const seed = seedFrom(3);

interface Draw {
  readonly temperature?: number;
  readonly topK?: number;
  readonly topP?: number;
  readonly minP?: number;
}

/** Lags of one row of candidates, of token 10, 20 and so on, at position 7 + 2. */
async function lags(logprobs: readonly number[], draw: Draw): Promise<number[]> {
  const tokens = logprobs.map((_, place) => 10 * (place + 1));
  const topLogprobs = floats(device, [1, logprobs.length], logprobs);
  device.raceCandidates({
    ...{ count: 1, before: 1, topTokens: integers(device, tokens, [1, tokens.length]) },
    ...{ topLogprobs, temperature: floats(device, [1], [draw.temperature ?? 1]) },
    ...{ topK: integers(device, [draw.topK ?? 0]), topP: floats(device, [1], [draw.topP ?? 1]) },
    ...{ minP: floats(device, [1], [draw.minP ?? 0]), seeds: words(device, [1, 2], [3, 0]) },
    ...{ positions: integers(device, [7]), ahead: 2 },
  });
  return Array.from(await device.readF32(topLogprobs));
}

/** By formula, of the candidates that are kept. */
function expected(logprobs: readonly number[], kept: readonly number[], temperature = 1): number[] {
  const keys = logprobs.map((logprob, place) =>
    kept.includes(place)
      ? Math.fround(Math.fround(logprob) / temperature) + gumbelAt(seed, 9, 10 * (place + 1))
      : low,
  );
  return keys.map((key) => Math.fround(key - Math.max(...keys)));
}

const logprobs = [0.5, 0.25, 0.125, 0.0625, 0.0625].map(Math.log);

test("a candidate's lag is its distance to the winner of the race with the noise of sampling", async () => {
  expect(await lags(logprobs, {})).toEqual(expected(logprobs, [0, 1, 2, 3, 4]));
  expect(await lags(logprobs, { temperature: 0.5 })).toEqual(
    expected(logprobs, [0, 1, 2, 3, 4], 0.5),
  );
});

test.each([
  [{ topK: 2 }, [0, 1]],
  [{ topP: 0.7 }, [0, 1]],
  [{ topP: 0.5 }, [0]],
  [{ minP: 0.2 }, [0, 1, 2]],
  [{ topK: 3, topP: 0.8 }, [0, 1]],
  [{ topP: 1e-6 }, [0]],
] as const)("what %o drops is last", async (draw, kept) => {
  expect(await lags(logprobs, draw)).toEqual(expected(logprobs, kept));
});

test("at temperature 0 log-probabilities stay", async () => {
  expect(await lags(logprobs, { temperature: 0 })).toEqual(logprobs.map(Math.fround));
});
