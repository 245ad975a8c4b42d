import { describe, expect, test } from "vitest";
import { TokenList } from "#base";
import { Lookup, LookupSource, LookupText } from "#speculative";

const listOf = (tokens: readonly number[]) => new TokenList(Int32Array.from(tokens));

/** A lookup behind a prompt. */
const lookupOf = (prompt: readonly number[], prediction: readonly number[] | null = null) =>
  new Lookup(
    new LookupSource(
      Int32Array.from(prompt),
      prediction === null ? null : Int32Array.from(prediction),
    ),
  );

/** The likeliest continuation. */
function firstOf(lookup: Lookup, tokens: TokenList, length: number): number[] | null {
  const [first] = lookup.draft(tokens, { length, width: 1 });
  return first === undefined ? null : [...first];
}

/** A draft behind these tokens, of which the first `promptLength` are the prompt. */
function draftOf(tokens: readonly number[], promptLength: number, prediction?: readonly number[]) {
  const lookup = lookupOf(tokens.slice(0, promptLength), prediction ?? null);
  return firstOf(lookup, listOf(tokens), 4);
}

describe("[SP4] lookup in the sequence itself", () => {
  test.each([
    ["vLLM's example", [1, 2, 3, 4, 2, 3], [4, 2, 3, 4]],
    ["no pair occurs twice", [1, 2, 3, 4, 5], null],
    ["one token alone is no match", [1, 2, 3, 1], null],
    ["the longest match wins over a newer one", [1, 2, 3, 7, 9, 2, 3, 8, 1, 2, 3], [7, 9, 2, 3]],
    ["of equally long ones the newest wins", [5, 2, 3, 7, 6, 2, 3, 8, 4, 2, 3], [8, 4, 2, 3]],
    ["a pattern that repeats goes on", [4, 1, 2, 1, 2], [1, 2, 1, 2]],
    ["one token that repeats goes on", [7, 7, 7], [7, 7, 7, 7]],
    ["nothing", [], null],
  ])("%s", (_, tokens, draft) => {
    for (const promptLength of [0, 1, tokens.length]) {
      expect(draftOf(tokens, promptLength)).toEqual(draft);
    }
  });

  test("it grows with the sequence", () => {
    const lookup = lookupOf([1, 2, 3, 4]);
    const tokens = listOf([1, 2, 3, 4]);
    expect(firstOf(lookup, tokens, 3)).toBeNull();
    for (const token of [1, 2]) tokens.push(token);
    expect(firstOf(lookup, tokens, 3)).toEqual([3, 4, 1]);
  });

  test("the prompt is found at any distance, and indexed once for all sequences", () => {
    const prompt = Array.from({ length: 500 }, (_, at) => at);
    const source = new LookupSource(Int32Array.from(prompt));
    for (const sequence of [1, 2]) {
      const tokens = listOf(prompt);
      for (const token of [100 * sequence, 100 * sequence + 1]) tokens.push(token);
      expect(firstOf(new Lookup(source), tokens, 3)).toEqual(
        [2, 3, 4].map((more) => 100 * sequence + more),
      );
    }
    expect(source.prompt).toBe(source.prompt);
    expect(source.prompt.length).toBe(500);
  });

  test("all places are found that a naive search finds, behind any text", () => {
    for (let seed = 1; seed <= 60; seed++) {
      const tokens = Array.from({ length: 8 + seed }, (_, at) => (at * at * seed + at * 7) % 5);
      const text = new LookupText();
      text.append(tokens);
      const found = text.find(Int32Array.from(tokens), 0);
      expect(found?.matched ?? 0).toBe(longestMatch(tokens));
    }
  });

  test("a long text is indexed once, however it arrives", () => {
    const tokens = Array.from({ length: 3000 }, (_, at) => (at * 7919) % 1009);
    const whole = new LookupText();
    whole.append(tokens);
    const pieces = new LookupText();
    for (let at = 0; at < tokens.length; at += 7) pieces.append(tokens.slice(at, at + 7));
    for (let end = 2; end < 900; end += 13) {
      const tail = Int32Array.from(tokens.slice(Math.max(0, end - 32), end));
      expect(pieces.find(tail, 0)).toEqual(whole.find(tail, 0));
    }
  });
});

describe("[SP4] lookup in a prediction", () => {
  test("the output follows it from its first token on", () => {
    const lookup = lookupOf([1, 2], [5, 5, 5, 6, 5, 5, 7, 8]);
    const tokens = listOf([1, 2]);
    tokens.push(5);
    expect(firstOf(lookup, tokens, 2)).toEqual([5, 5]);
    for (const token of [5, 5, 6]) tokens.push(token);
    expect(firstOf(lookup, tokens, 3)).toEqual([5, 5, 7]);
  });

  test("an output that leaves it is found again where it returns", () => {
    const lookup = lookupOf([1], [3, 4, 5, 6, 7, 8]);
    const tokens = listOf([1]);
    for (const token of [9, 8, 9, 5, 6]) tokens.push(token);
    expect(firstOf(lookup, tokens, 4)).toEqual([7, 8]);
  });

  test("one that says something else drafts nothing", () => {
    expect(draftOf([1, 2, 3], 3, [7, 8, 9])).toBeNull();
  });
});

describe("[SP8] several continuations", () => {
  const branches = (tokens: readonly number[], width: number, length = 4) =>
    lookupOf(tokens)
      .draft(listOf(tokens), { length, width })
      .map((tokens) => [...tokens]);
  const tokens = [5, 2, 3, 7, 7, 2, 3, 8, 9, 5, 2, 3];

  test("the likeliest first; others are half as long, by their matches, then the newest", () => {
    expect(branches(tokens, 1)).toEqual([[7, 7, 2, 3]]);
    expect(branches(tokens, 2)).toEqual([
      [7, 7, 2, 3],
      [8, 9],
    ]);
    expect(branches(tokens, 5)).toEqual(branches(tokens, 2));
  });

  test("one that begins another is no further one", () => {
    expect(branches([2, 3, 7, 2, 3, 7, 2, 3], 3)).toEqual([[7, 2, 3, 7]]);
  });

  test("of the prediction, too", () => {
    const lookup = lookupOf([1, 2, 3, 4, 1, 2], [1, 2, 6, 7]);
    const found = lookup.draft(listOf([1, 2, 3, 4, 1, 2]), { length: 2, width: 3 });
    expect(found.map((branch) => [...branch])).toEqual([[6, 7], [3]]);
  });
});

/** Length of the longest earlier match of the text's end, up to 32; 0 below two. */
function longestMatch(tokens: readonly number[]): number {
  let best = 0;
  for (let next = 2; next < tokens.length; next++) {
    let matched = 0;
    while (
      matched < Math.min(32, next) &&
      tokens[next - 1 - matched] === tokens[tokens.length - 1 - matched]
    ) {
      matched++;
    }
    if (matched >= 2) best = Math.max(best, matched);
  }
  return best;
}
