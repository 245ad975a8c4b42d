/**
 * [SP1] With drafts, tokens have the distribution that they have without: chi-squared tests of many
 * draws, on the counterexamples to accepting by ratios of probabilities, and on a real model's.
 */
import { describe, expect, test } from "vitest";
import { seedFrom } from "#base";
import { LLM } from "#engine";
import { confirmedPath, type TokenTree, treeOf } from "#speculative";
import { sampleRow } from "../../src/devices/reference/sample.ts";
import { RandomNumbers } from "../contracts/device-ops/random.ts";
import { chiSquared, countsOf } from "../support/chi-squared.ts";
import { cpuThreads, sized } from "../support/full.ts";

const draws = sized(5_000, 100_000);

interface Filter {
  readonly temperature: number;
  readonly topP: number;
}

const unfiltered: Filter = { temperature: 1, topP: 1 };

/** What follows each token: probabilities of the next one. */
type Law = readonly (readonly number[])[];

/** A law whose rows are `first`, turned by the token before. */
function turned(first: readonly number[]): Law {
  return first.map((_, token) => first.map((__, at) => first[(at + token) % first.length] ?? 0));
}

/** Of rows of laws. */
const logitsOf = new WeakMap<readonly number[], Float32Array>();

/** The token at a position, behind another: a function of the seed and the position alone. */
function drawn(law: Law, seed: bigint, { position, before, filter }: DrawPlace): number {
  const row = law[before] ?? [];
  const logits = logitsOf.get(row) ?? Float32Array.from(row, Math.log);
  logitsOf.set(row, logits);
  return sampleRow(logits, { ...filter, topK: 0, minP: 0, seed: seedFrom(seed), position });
}

interface DrawPlace {
  readonly position: number;
  readonly before: number;
  readonly filter: Filter;
}

/** The probabilities that a filter leaves. */
function filtered(probabilities: readonly number[], { temperature, topP }: Filter): number[] {
  const powers = probabilities.map((value) => value ** (1 / temperature));
  const sum = powers.reduce((total, value) => total + value, 0);
  const order = powers.map((_, at) => at).sort((a, b) => (powers[b] ?? 0) - (powers[a] ?? 0));
  let reached = 0;
  const kept = new Set(
    order.filter((at) => {
      const isKept = reached < topP;
      reached += (powers[at] ?? 0) / sum;
      return isKept;
    }),
  );
  const left = powers.map((value, at) => (kept.has(at) ? value : 0));
  const rest = left.reduce((total, value) => total + value, 0);
  return left.map((value) => value / rest);
}

/** Two tokens behind token 0, sampled without drafts. */
function plainTokens(law: Law, seed: bigint, filter: Filter): number[] {
  const first = drawn(law, seed, { position: 1, before: 0, filter });
  return [first, drawn(law, seed, { position: 2, before: first, filter })];
}

/** A tree behind token 0: the likeliest tokens by `drafter`, at both depths. */
function draftOf(drafter: Law, width: number): TokenTree {
  const likeliest = (before: number): number[] => {
    const row = drafter[before] ?? [];
    const order = row.map((_, token) => token).sort((a, b) => (row[b] ?? 0) - (row[a] ?? 0));
    return order.slice(0, width);
  };
  const branches = likeliest(0).flatMap((one) =>
    likeliest(one).map((other) => Int32Array.of(one, other)),
  );
  return treeOf(0, branches, 64);
}

/** The same two tokens through steps that verify a tree, and go on without one. */
function draftedTokens(law: Law, seed: bigint, filter: Filter, tree: TokenTree): number[] {
  const { tokens, depths } = tree;
  const sampledAt = (node: number): number => {
    const place = { position: 1 + (depths[node] ?? 0), before: tokens[node] ?? 0, filter };
    return drawn(law, seed, place);
  };
  const found = confirmedPath(tree, tokens.length, sampledAt).map(sampledAt);
  while (found.length < 2) {
    const before = found.at(-1) ?? 0;
    found.push(drawn(law, seed, { position: 1 + found.length, before, filter }));
  }
  return found.slice(0, 2);
}

/**
 * The rule of other implementations for one drafted token: each beam is accepted with the ratio of
 * probabilities, by a coin of its own; if none is, the rest of the law is drawn from.
 */
function acceptedByRatio(
  [law, drafter]: readonly [readonly number[], readonly number[]],
  width: number,
  random: RandomNumbers,
): number {
  const uniform = (): number => random.below(2 ** 24) / 2 ** 24;
  const order = drafter.map((_, token) => token);
  order.sort((a, b) => (drafter[b] ?? 0) - (drafter[a] ?? 0));
  const accepted = order
    .slice(0, width)
    .find((token) => uniform() < (law[token] ?? 0) / (drafter[token] ?? 1));
  if (accepted !== undefined) return accepted;
  const rest = law.map((value, token) => Math.max(0, value - (drafter[token] ?? 0)));
  let left = uniform() * rest.reduce((sum, value) => sum + value, 0);
  return rest.findIndex((value) => {
    left -= value;
    return left < 0;
  });
}

function countsOfSeeds(make: (seed: bigint) => readonly number[]): Map<string, number> {
  return countsOf(draws, (seed) => make(BigInt(seed)));
}

/** Of pairs of tokens behind token 0. */
function pairsOf(law: Law, filter: Filter): Map<string, number> {
  const pairs = new Map<string, number>();
  filtered(law[0] ?? [], filter).forEach((first, one) => {
    filtered(law[one] ?? [], filter).forEach((second, other) => {
      pairs.set(`${one} ${other}`, first * second);
    });
  });
  return pairs;
}

function expectLaw(found: ReadonlyMap<string, number>, law: ReadonlyMap<string, number>): void {
  const { statistic, limit } = chiSquared(found, law);
  expect(statistic).toBeLessThan(limit);
}

/** Makes the tokens with drafts, and throws where they are others than without. */
function sameTokens(law: Law, filter: Filter, tree: TokenTree): (seed: bigint) => number[] {
  return (seed) => {
    const drafted = draftedTokens(law, seed, filter, tree);
    const plain = plainTokens(law, seed, filter);
    if (drafted.join() !== plain.join()) throw new Error(`${drafted} is not ${plain}`);
    return drafted;
  };
}

const counterexamples = [
  ["P = (.6 .3 .1), Q = (.5 .4 .1)", [0.6, 0.3, 0.1], [0.5, 0.4, 0.1]],
  ["P = (.2 .5 .3), Q = (.5 .4 .1)", [0.2, 0.5, 0.3], [0.5, 0.4, 0.1]],
] as const;

describe.each(counterexamples)("%s", (_, base, drafter) => {
  const law = turned(base);

  test("without drafts", () => {
    const found = countsOfSeeds((seed) => plainTokens(law, seed, unfiltered));
    expectLaw(found, pairsOf(law, unfiltered));
  });

  test.each([1, 2, 3])("with trees of %i continuations at each depth, the same tokens", (width) => {
    const tree = draftOf(turned(drafter), width);
    expectLaw(countsOfSeeds(sameTokens(law, unfiltered, tree)), pairsOf(law, unfiltered));
  });

  test.each([1, 2])("accepting %i beams by ratios of probabilities fails the check", (width) => {
    const random = new RandomNumbers(1);
    const found = countsOfSeeds(() => [acceptedByRatio([base, drafter], width, random)]);
    const wanted = new Map(base.map((probability, token) => [String(token), probability]));
    const { statistic, limit } = chiSquared(found, wanted);
    expect(statistic).toBeGreaterThan(10 * limit);
  });
});

describe("[SP22] a drafter that draws with the noise of sampling", () => {
  const place = { position: 1, before: 0, filter: unfiltered };
  const accepted = (law: Law, drafter: Law): number => {
    const isSame = (seed: bigint) => drawn(law, seed, place) === drawn(drafter, seed, place);
    return (countsOfSeeds((seed) => [Number(isSame(seed))]).get("1") ?? 0) / draws;
  };

  test("of the same distribution has every draft accepted", () => {
    const law = turned([0.35, 0.25, 0.2, 0.12, 0.08]);
    expect(accepted(law, law)).toBe(1);
    const drafted = (seed: bigint) => {
      const tokens = plainTokens(law, seed, unfiltered);
      const tree = treeOf(0, [Int32Array.from(tokens)], 64);
      const sampledAt = (node: number): number =>
        drawn(law, seed, {
          ...{ position: 1 + (tree.depths[node] ?? 0), before: tree.tokens[node] ?? 0 },
          filter: unfiltered,
        });
      return confirmedPath(tree, tree.tokens.length, sampledAt).length;
    };
    expect(countsOfSeeds((seed) => [drafted(seed)])).toEqual(new Map([["3", draws]]));
  });

  test.each([
    [
      [0.5, 0.3, 0.2],
      [0.4, 0.35, 0.25],
    ],
    [
      [0.3, 0.3, 0.2, 0.2],
      [0.2, 0.2, 0.3, 0.3],
    ],
    [
      [0.6, 0.3, 0.1],
      [0.1, 0.3, 0.6],
    ],
  ])("of another one, %o and %o, at least (1 - TV) / (1 + TV)", (base, other) => {
    const tv = base.reduce((sum, value, at) => sum + Math.abs(value - (other[at] ?? 0)) / 2, 0);
    const share = accepted([base], [other]);
    const noise = 4 * Math.sqrt(0.25 / draws);
    expect(share).toBeGreaterThan((1 - tv) / (1 + tv) - noise);
    // No pair of draws agrees more often.
    expect(share).toBeLessThan(1 - tv + noise);
  });
});

describe("a real model's five likeliest tokens", async () => {
  await using llm = await LLM.load("models/pocket", {
    ...{ device: "cpu", dtype: "float32", engineThread: false, threads: cpuThreads },
  });
  const [result] = await llm.generate("The", { temperature: 0, maxTokens: 1, logprobs: 5 });
  const top = result?.completions[0]?.logprobs?.[0]?.top ?? [];
  const likely = top.slice(0, 5).map(({ logprob }) => Math.exp(logprob));
  const sum = likely.reduce((total, value) => total + value, 0);
  const law = turned(likely.map((value) => value / sum));

  test("there are five", () => {
    expect(likely).toHaveLength(5);
  });

  test.each([
    [0.7, 1],
    [1, 1],
    [0.7, 0.9],
    [1, 0.9],
  ])("at temperature %f and top-p %f, drafted and not", (temperature, topP) => {
    const filter = { temperature, topP };
    const tree = draftOf(law, 3);
    expectLaw(countsOfSeeds(sameTokens(law, filter, tree)), pairsOf(law, filter));
  });
});
