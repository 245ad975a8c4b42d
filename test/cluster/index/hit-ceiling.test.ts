import { expect, test } from "vitest";
import { BlockNamer, HitCeiling, type RoutedRequest } from "#cluster/index";
import type { PrefixMatch } from "#cluster/protocol";
import { Chances, familyPrompt, scopeOf } from "../../support/kv-changes.ts";

const namer = new BlockNamer();
const tokens = (blocks: number, first = 0) =>
  Uint32Array.from({ length: blocks * 4 }, (_, at) => first + at);
const promptOf = (prompt: Uint32Array) => namer.blocksOf(scopeOf(), prompt);
const match = (worker: number, blocks: number): PrefixMatch => ({
  worker,
  levels: [blocks, blocks, blocks],
});

interface Outcome extends Partial<RoutedRequest> {
  readonly announces?: boolean;
}

/** A request, and what it had cached: nothing, unless said. */
function record(ceiling: HitCeiling, tokens: Uint32Array, over: Outcome = {}): void {
  const prompt = promptOf(tokens);
  const { announces = true, ...known } = over;
  const before = ceiling.expect(prompt, announces);
  ceiling.record({
    ...{ prompt, promptTokens: tokens.length, matches: [], chosen: null, before },
    ...{ cachedTokens: 0, ...known },
  });
}

test("[CL12] each cause has its name, and they sum up to what is missing", () => {
  const ceiling = new HitCeiling();
  record(ceiling, tokens(10));
  ceiling.stored(promptOf(tokens(6)).keys);
  // Of ten blocks seen: two cached, one promised in vain, two elsewhere, one gone, four never told.
  const chosen = match(0, 3);
  const matches = [chosen, match(1, 5)];
  record(ceiling, tokens(12), { matches, chosen, cachedTokens: 8 });
  expect(ceiling.stats()).toMatchObject({
    ...{ requests: 2, promptTokens: 88, hitTokens: 8, ceilingTokens: 40, beyondTokens: 0 },
    lost: { stale: 4, routedAway: 8, evicted: 4, keyDiffers: 16, neverAnnounced: 0 },
    forgotten: 0,
  });
});

test("[CL12] blocks of workers that announce nothing were never announced", () => {
  const ceiling = new HitCeiling();
  record(ceiling, tokens(3), { announces: false });
  record(ceiling, tokens(3), { announces: false });
  expect(ceiling.stats().lost).toMatchObject({ neverAnnounced: 12, keyDiffers: 0 });
});

test("[CL12] a worker that does not say what it had cached is believed to have had its match", () => {
  const ceiling = new HitCeiling();
  record(ceiling, tokens(4));
  const chosen = match(0, 3);
  record(ceiling, tokens(4), { chosen, matches: [chosen], cachedTokens: null });
  expect(ceiling.stats()).toMatchObject({ hitTokens: 12, lost: { stale: 0, keyDiffers: 4 } });
});

test("[CL12] what is announced while a request runs could not have been cached before it", () => {
  const ceiling = new HitCeiling();
  const prompt = promptOf(tokens(4));
  const before = ceiling.expect(prompt, true);
  ceiling.stored(prompt.keys);
  ceiling.record({
    ...{ prompt, promptTokens: 16, matches: [], chosen: null, before, cachedTokens: 0 },
  });
  expect(ceiling.stats()).toMatchObject({ ceilingTokens: 0, hitTokens: 0 });
});

test("[CL12] a request that fails counts nothing, and what it was sent may be looked for", () => {
  const ceiling = new HitCeiling();
  const prompt = promptOf(tokens(4));
  ceiling.expect(prompt, true);
  expect(ceiling.stats()).toMatchObject({ requests: 0, promptTokens: 0 });
  record(ceiling, tokens(4));
  expect(ceiling.stats()).toMatchObject({ requests: 1, lost: { keyDiffers: 16 } });
});

test("[CL12] hits that the ceiling cannot know are told apart", () => {
  const ceiling = new HitCeiling();
  record(ceiling, tokens(4), { cachedTokens: 7 });
  record(ceiling, tokens(4), { cachedTokens: 15 });
  expect(ceiling.stats()).toMatchObject({ hitTokens: 22, beyondTokens: 10, ceilingTokens: 16 });
});

test.for([1, 2, 3])("[CL12] against a Set without end, causes included (seed %i)", (seed) => {
  const chances = new Chances(seed);
  const ceiling = new HitCeiling();
  const seen = new Set<string>();
  let ideal = 0;
  for (let step = 0; step < 2000; step++) {
    const prompt = promptOf(familyPrompt(chances, chances.below(14)));
    const names = Array.from({ length: prompt.keys.length / 2 }, (_, at) =>
      prompt.keys.subarray(0, 2 * at + 2).join(),
    );
    const first = names.findIndex((name) => !seen.has(name));
    ideal += 4 * (first < 0 ? names.length : first);
    for (const name of names) seen.add(name);
    const matches = [0, 1, 2].map((worker) => match(worker, chances.below(names.length + 1)));
    const cachedTokens = chances.of([null, chances.below(4 * names.length + 1)]);
    const announces = chances.below(2) === 0;
    if (chances.below(3) === 0) ceiling.stored(prompt.keys);
    const before = ceiling.expect(prompt, announces);
    if (chances.below(3) === 0) ceiling.stored(prompt.keys);
    ceiling.record({
      ...{ prompt, promptTokens: 4 * names.length, matches, chosen: matches[0] ?? null },
      ...{ before, cachedTokens },
    });
    const { ceilingTokens, hitTokens, beyondTokens, lost } = ceiling.stats();
    const missing = Object.values(lost).reduce((sum, each) => sum + each, 0);
    expect(missing).toBe(ceilingTokens - (hitTokens - beyondTokens));
  }
  // Announced blocks are seen blocks, too: never less than what requests alone have seen.
  expect(ceiling.stats().ceilingTokens).toBeGreaterThanOrEqual(ideal);
  expect(ceiling.stats().ceilingTokens - ideal).toBeLessThan(ideal / 2);
});

test("[CL12] a bounded memory makes it too low by what comes back late, never too high", () => {
  const ceiling = new HitCeiling({ blocksMax: 1000 });
  const exact = new HitCeiling();
  const chances = new Chances(4);
  for (let step = 0; step < 4000; step++) {
    // Some come back soon, some after most others.
    const number = chances.below(3) > 0 ? step - chances.below(Math.min(step + 1, 30)) : step;
    const again = step % 500 === 499 ? 0 : number;
    const prompt = tokens(5, again * 1000);
    record(ceiling, prompt);
    record(exact, prompt);
    expect(ceiling.stats().ceilingTokens).toBeLessThanOrEqual(exact.stats().ceilingTokens);
  }
  const { ceilingTokens, forgotten, bytes } = ceiling.stats();
  expect(exact.stats().forgotten).toBe(0);
  expect(forgotten).toBeGreaterThan(1000);
  expect(bytes).toBeLessThan(2 * 1000 * 40 + 100_000);
  expect(ceilingTokens).toBeGreaterThan(0.95 * exact.stats().ceilingTokens);
});
