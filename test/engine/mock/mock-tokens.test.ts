import { describe, expect, test } from "vitest";
import { type MockVocabulary, mockOutput, mockToken } from "#engine/mock";

const vocabulary: MockVocabulary = {
  tokenIds: Int32Array.from({ length: 1000 }, (_, id) => id + 300),
  endTokenId: 2,
  meanOutputTokens: 100,
};

describe("made-up tokens", () => {
  test("[CL101] depend on seed, position and the token before, and on nothing else", () => {
    const place = { seedLow: 1, seedHigh: 0, position: 9, previous: 7 };
    const others = [
      place,
      { ...place, seedLow: 2 },
      { ...place, seedHigh: 1 },
      { ...place, position: 10 },
      { ...place, previous: 8 },
    ].map((one) => mockToken(vocabulary, one));
    expect(new Set(others).size).toBe(5);
    expect(mockToken(vocabulary, place)).toBe(others[0]);
  });

  test("an output that was cut goes on as if it had not been", () => {
    const prompt = Int32Array.from([5, 6, 7]);
    const whole = mockOutput(vocabulary, prompt, { seed: 3, count: 50 });
    const head = whole.slice(0, 20);
    const rest = mockOutput(vocabulary, Int32Array.from([...prompt, ...head]), {
      ...{ seed: 3, count: 30 },
    });
    expect([...head, ...rest]).toEqual([...whole]);
  });

  test("ends come as often as they should, and never among the ids", () => {
    let ends = 0;
    const ids = new Set<number>();
    for (let position = 0; position < 100_000; position++) {
      const token = mockToken(vocabulary, { seedLow: 4, seedHigh: 0, position, previous: 1 });
      if (token === 2) ends++;
      else ids.add(token);
    }
    expect(ends).toBeGreaterThan(850);
    expect(ends).toBeLessThan(1150);
    expect(ids.size).toBe(1000);
  });
});
