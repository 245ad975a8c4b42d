import { expect, test } from "vitest";
import { EngineError, systemClock } from "#base";
import { GrammarCache } from "../../../src/sampling/grammar/grammar-cache.ts";
import type { GrammarLibrary } from "../../../src/sampling/grammar/grammar-library.ts";
import { GrammarPace } from "../../../src/sampling/grammar/grammar-matcher.ts";

const kilobyte = 1_000;

/** A library whose grammars are their own sizes. */
function sizedLibrary() {
  const freed: unknown[] = [];
  const pretend: Partial<GrammarLibrary> = {
    grammarBytes: (grammar) => (grammar as { bytes: number }).bytes,
    freeGrammar: (grammar) => freed.push(grammar),
    createMatcher: () => ({}),
    freeMatcher: () => {},
    fillMask: () => {
      throw new Error("broken");
    },
  };
  return { library: pretend as GrammarLibrary, freed };
}

function partsOf(library: GrammarLibrary, bytes: number) {
  return {
    library,
    grammar: { bytes },
    stopTokenIds: [0],
    averageWorkMax: 1_000,
    clock: systemClock,
  };
}

test("many tiny grammars are kept within the cache's bytes, the last used of them", () => {
  const { library, freed } = sizedLibrary();
  const cache = new GrammarCache(100 * kilobyte);
  for (let i = 0; i < 2_000; i++) {
    cache.add(`${i}`, partsOf(library, 100));
    cache.find("0");
  }
  // 612 bytes each, with what an entry takes.
  expect(2_000 - freed.length).toBe(163);
  expect(cache.find("0")).toBeDefined();
  expect(cache.find("1")).toBeUndefined();
  expect(cache.find("1999")).toBeDefined();
  cache.clear();
  expect(freed).toHaveLength(2_000);
});

test("a grammar that grew is let go of when its request ends, and freed after its matchers", async () => {
  const { library, freed } = sizedLibrary();
  const cache = new GrammarCache(100 * kilobyte);
  const parts = partsOf(library, kilobyte);
  const lent = cache.add("small", parts).lend();
  const matcher = await lent.createMatcher();
  parts.grammar.bytes = 500 * kilobyte;
  lent.dispose();
  expect(cache.find("small")).toBeUndefined();
  expect(freed).toEqual([]);
  matcher.dispose();
  expect(freed).toEqual([parts.grammar]);
});

test("a grammar whose library failed is not lent again", async () => {
  const { library, freed } = sizedLibrary();
  const cache = new GrammarCache(100 * kilobyte);
  const lent = cache.add("bad", partsOf(library, kilobyte)).lend();
  const matcher = await lent.createMatcher();
  await expect(matcher.fillBitmask(new Uint32Array(1))).rejects.toMatchObject({
    code: "ENGINE_STEP_FAILED",
  });
  expect(cache.find("bad")).toBeUndefined();
  expect(freed).toEqual([]);
  matcher.dispose();
  lent.dispose();
  expect(freed).toHaveLength(1);
});

test("refusals are remembered, the last 256 of them, and no other failures", () => {
  const cache = new GrammarCache(0);
  const refused = new EngineError("GRAMMAR_INVALID", "Cannot compile the grammar: x");
  for (let i = 0; i < 300; i++) cache.refuse(`${i}`, refused);
  cache.refuse("other", new EngineError("SHUTTING_DOWN", "Cannot"));
  expect(cache.refusal("0")).toBeNull();
  expect(cache.refusal("299")).toBe(refused);
  expect(cache.refusal("other")).toBeNull();
});

test("a grammar is slow until its calls were quick for a while, and again after a slow one", () => {
  let nowMs = 0;
  const pace = new GrammarPace({ nowMs: () => nowMs });
  const call = (ms: number) => pace.timed(() => (nowMs += ms));
  expect(pace.slow).toBe(true);
  for (let round = 0; round < 63; round++) call(1);
  expect(pace.slow).toBe(true);
  call(0);
  expect(pace.slow).toBe(false);
  expect(() =>
    pace.timed(() => {
      nowMs += 2;
      throw new Error("it failed");
    }),
  ).toThrow("it failed");
  expect(pace.slow).toBe(true);
});

test("a grammar that outputs have grown goes on for its requests alone", async () => {
  const { library, freed } = sizedLibrary();
  const cache = new GrammarCache(10_000 * kilobyte, 100 * kilobyte);
  const parts = partsOf(library, 900 * kilobyte);
  const lent = cache.add("schema", parts).lend();
  parts.grammar.bytes += 100 * kilobyte;
  expect(cache.find("schema")).toBeDefined();
  parts.grammar.bytes += 1;
  expect(cache.find("schema")).toBeUndefined();
  const matcher = await lent.createMatcher();
  lent.dispose();
  expect(freed).toEqual([]);
  matcher.dispose();
  expect(freed).toEqual([parts.grammar]);
});
