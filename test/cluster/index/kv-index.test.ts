import { describe, expect, test } from "vitest";
import { KvIndex } from "#cluster/index";
import type { KvChange, KvLevel, KvScope, PrefixMatch } from "#cluster/protocol";
import { sized } from "../../support/full.ts";
import { Chances, familyPrompt, names, RandomWorker, scopeOf } from "../../support/kv-changes.ts";
import { NaiveKvIndex } from "../../support/naive-kv-index.ts";

const sorted = (matches: readonly PrefixMatch[]) =>
  [...matches].sort((a, b) => a.worker - b.worker);

/** `count` blocks of 4 tokens, all from `first` on. */
const tokens = (count: number, first = 0) =>
  Uint32Array.from({ length: count * 4 }, (_, at) => first + at);

/** A run of blocks, named by numbers. */
function stored(
  numbers: readonly number[],
  over: {
    first?: number;
    parent?: number;
    level?: KvLevel;
    scope?: KvScope;
    tokens?: Uint32Array;
  } = {},
): KvChange {
  return {
    type: "stored",
    scope: over.scope ?? scopeOf(),
    level: over.level ?? 0,
    parent: over.parent === undefined ? null : names(over.parent),
    names: names(...numbers),
    tokens: over.tokens ?? tokens(numbers.length, over.first),
  };
}

const removed = (numbers: readonly number[], level: KvLevel | null = 0): KvChange => ({
  type: "removed",
  names: names(...numbers),
  level,
});

function found(index: KvIndex, prompt: Uint32Array, scope = scopeOf()) {
  return sorted(index.find(index.blocksOf(scope, prompt))).map(({ worker, levels }) => [
    worker,
    ...levels,
  ]);
}

/** An index with this many workers. */
function indexOf(workers: number): KvIndex {
  const index = new KvIndex();
  for (let worker = 0; worker < workers; worker++) expect(index.join()).toBe(worker);
  return index;
}

describe("random changes", () => {
  const scopes = [scopeOf(), scopeOf({ salt: "s" }), scopeOf({ group: 1 }), scopeOf({ lora: "a" })];

  test.for([1, 2, 3])("[CL1] the index is the sum of its workers' own (seed %i)", (seed) => {
    const chances = new Chances(seed);
    const index = new KvIndex();
    const naive = new NaiveKvIndex();
    // More than the short lists of a set hold, and then more than the long ones.
    const workers = Array.from({ length: [3, 12, 48][seed - 1] ?? 3 }, (_, salt) => {
      const worker = index.join();
      naive.reset(worker);
      return { worker, life: new RandomWorker(chances, scopes, salt % 5) };
    });
    let deepest = 0;
    for (let step = 0; step < sized(6000, 34_000); step++) {
      const { worker, life } = chances.of(workers);
      const changes = [life.change()];
      index.apply(worker, changes);
      naive.apply(worker, changes);
      if (chances.below(400) === 0) {
        index.reset(worker);
        naive.reset(worker);
      }
      if (step % 10 !== 0) continue;
      const scope = chances.of(scopes);
      const prompt = familyPrompt(chances, 9);
      const matches = sorted(index.find(index.blocksOf(scope, prompt)));
      expect(matches).toEqual(naive.find(scope, prompt));
      expect(index.stats().memberships).toBe(naive.memberships);
      deepest = Math.max(deepest, ...matches.map(({ levels }) => levels[2]));
    }
    expect(deepest).toBe(9);
    for (const { worker } of workers) index.leave(worker);
    expect(index.stats()).toMatchObject({ memberships: 0, blocks: 0, workers: 0, refused: 0 });
  });

  test.for([1, 2])("[CL184] long runs, and removals in any order (seed %i)", (seed) => {
    const chances = new Chances(seed);
    const naive = new NaiveKvIndex();
    const index = indexOf(100);
    // Two prompts that are equal up to half.
    const prompts = [0, 1].map((prompt) =>
      Uint32Array.from({ length: 600 * 4 }, (_, at) => at + (at < 300 * 4 ? 0 : prompt)),
    );
    for (let worker = 0; worker < 100; worker++) naive.reset(worker);
    const apply = (worker: number, change: KvChange) => {
      naive.apply(worker, [change]);
      index.apply(worker, [change]);
    };
    for (let turn = 0; turn < 150; turn++) {
      const worker = chances.below(100);
      const blocks = 1 + chances.below(600);
      const numbers = Array.from({ length: blocks }, (_, at) => at + 1);
      const run = chances.of(prompts).subarray(0, blocks * 4);
      apply(worker, stored(numbers, { tokens: run, level: chances.below(3) as KvLevel }));
      if (turn % 3 !== 0) continue;
      // Some twice, many not there, far more than one slice.
      const some = Array.from({ length: chances.below(700) }, () => 1 + chances.below(650));
      apply(worker, removed(some.slice(chances.below(2) * 600), turn % 2 === 0 ? null : 0));
    }
    for (const prompt of prompts) {
      for (const blocks of [1, 2, 128, 129, 130, 299, 301, 600]) {
        const part = prompt.subarray(0, blocks * 4);
        const matches = sorted(index.find(index.blocksOf(scopeOf(), part)));
        expect(matches).toEqual(naive.find(scopeOf(), part));
      }
    }
    expect(index.stats().memberships).toBe(naive.memberships);
  });

  test("[CL1] sets of any size, and those that shrink again, say who has a block", () => {
    const index = indexOf(1024);
    const has = new Map<number, number>();
    const chances = new Chances(7);
    for (let step = 0; step < 12_000; step++) {
      // The fleet that has the block grows, and shrinks again.
      const isGrowing = chances.below(12_000) > step;
      const worker = chances.below(1024);
      const level = chances.below(3) as KvLevel;
      if (isGrowing) {
        index.apply(worker, [stored([1], { level })]);
        has.set(worker, (has.get(worker) ?? 0) | (1 << level));
      } else {
        index.apply(worker, [removed([1], null)]);
        has.delete(worker);
      }
      if (step % 50 !== 0) continue;
      const expected = [...has]
        .sort(([a], [b]) => a - b)
        .map(([worker, levels]) => [worker, levels & 1, Number((levels & 3) > 0), 1]);
      expect(found(index, tokens(1))).toEqual(expected);
    }
  });
});

describe("levels", () => {
  test("[CL1] matches count leading blocks per level, each with those above", () => {
    const index = indexOf(2);
    index.apply(0, [stored([1, 2, 3, 4])]);
    index.apply(0, [{ type: "moved", names: names(2), from: 0, to: 1 }]);
    index.apply(0, [{ type: "moved", names: names(3), from: 0, to: 2 }]);
    expect(found(index, tokens(5))).toEqual([[0, 1, 2, 4]]);
    index.apply(1, [stored([1], { level: 2 })]);
    expect(found(index, tokens(5))).toEqual([
      [0, 1, 2, 4],
      [1, 0, 0, 1],
    ]);
    index.apply(0, [{ type: "cleared", level: 1 }]);
    expect(found(index, tokens(5))).toEqual([
      [0, 1, 1, 1],
      [1, 0, 0, 1],
    ]);
    index.apply(0, [{ type: "cleared", level: null }]);
    expect(found(index, tokens(5))).toEqual([[1, 0, 0, 1]]);
  });
});

describe("workers", () => {
  test("[CL2] what leaves or is reset has no blocks; numbers are given again, empty", () => {
    const index = indexOf(3);
    for (const worker of [0, 1, 2]) index.apply(worker, [stored([1, 2])]);
    index.leave(1);
    index.reset(0);
    expect(found(index, tokens(2))).toEqual([[2, 2, 2, 2]]);
    index.apply(1, [stored([1])]);
    expect(index.join()).toBe(1);
    expect(found(index, tokens(2))).toEqual([[2, 2, 2, 2]]);
    index.apply(1, [stored([2], { parent: 1, first: 4 })]);
    expect(index.stats()).toMatchObject({ unknownParents: 1, memberships: 2, workers: 3 });
  });

  test("[CL2] more workers than an index has numbers are refused", () => {
    const index = indexOf(1024);
    expect(() => index.join()).toThrow(/at most 1024/);
    index.leave(512);
    expect(index.join()).toBe(512);
  });
});

describe("names", () => {
  test("[CL3] equal contents meet under any names; equal names of two workers do not", () => {
    const index = indexOf(3);
    index.apply(0, [stored([1, 2])]);
    index.apply(1, [stored([9]), stored([2], { parent: 9, first: 4 })]);
    index.apply(2, [stored([1, 2], { first: 50 })]);
    expect(index.stats().blocks).toBe(4);
    expect(found(index, tokens(2))).toEqual([
      [0, 2, 2, 2],
      [1, 2, 2, 2],
    ]);
  });

  test.for([{ model: "other" }, { blockTokens: 8 }, { salt: "" }, { lora: "" }, { group: 1 }])(
    "[CL3] equal tokens of another scope are other blocks: %o",
    (over) => {
      const index = indexOf(1);
      index.apply(0, [stored([1, 2])]);
      expect(found(index, tokens(2), scopeOf(over))).toEqual([]);
      expect(found(index, tokens(2), scopeOf())).toEqual([[0, 2, 2, 2]]);
    },
  );

  test("[CL3] a block is the same block only after the same blocks", () => {
    const index = indexOf(1);
    index.apply(0, [stored([1, 2]), stored([3, 4], { tokens: tokens(1, 90) })]);
    index.apply(0, [stored([3]), stored([4], { parent: 2, first: 0 })]);
    const twice = Uint32Array.of(...tokens(2), ...tokens(1), ...tokens(1));
    expect(found(index, twice)).toEqual([[0, 3, 3, 3]]);
  });

  test("[CL3] a name that gets another meaning loses the one it had", () => {
    const index = indexOf(1);
    index.apply(0, [stored([1]), stored([1], { first: 40 })]);
    expect(found(index, tokens(1))).toEqual([]);
    expect(found(index, tokens(1, 40))).toEqual([[0, 1, 1, 1]]);
    expect(index.stats()).toMatchObject({ memberships: 1, blocks: 1, renamed: 1 });
  });

  test("[CL4] two names of one block hold it until both are removed", () => {
    const index = indexOf(1);
    index.apply(0, [stored([1]), stored([2]), stored([2]), stored([3])]);
    for (const name of [1, 2, 3]) {
      expect(found(index, tokens(1))).toEqual([[0, 1, 1, 1]]);
      index.apply(0, [removed([name])]);
    }
    expect(found(index, tokens(1))).toEqual([[0, 1, 1, 1]]);
    index.apply(0, [removed([2])]);
    expect(found(index, tokens(1))).toEqual([]);
    expect(index.stats()).toMatchObject({ blocks: 0, memberships: 0, ignoredRemovals: 0 });
  });
});

describe("references", () => {
  test("[CL4] what was announced twice is removed by the second removal, per level", () => {
    const index = indexOf(1);
    index.apply(0, [stored([1, 2]), stored([1, 2, 3]), stored([1], { level: 1 })]);
    index.apply(0, [removed([1, 2, 3])]);
    expect(found(index, tokens(3))).toEqual([[0, 2, 2, 2]]);
    index.apply(0, [removed([1, 2])]);
    expect(found(index, tokens(3))).toEqual([[0, 0, 1, 1]]);
    index.apply(0, [removed([1], 1)]);
    expect(index.stats()).toMatchObject({ memberships: 0, ignoredRemovals: 0 });
  });

  test("[CL4] removals and moves of what is not there are ignored and counted", () => {
    const index = indexOf(2);
    index.apply(0, [stored([1])]);
    index.apply(1, [removed([1]), removed([1, 2], null)]);
    index.apply(0, [removed([7]), removed([1], 1)]);
    index.apply(0, [{ type: "moved", names: names(7), from: 0, to: 1 }]);
    expect(found(index, tokens(1))).toEqual([[0, 1, 1, 1]]);
    expect(index.stats().ignoredRemovals).toBe(6);
  });

  test("[CL4] a move takes one reference along", () => {
    const index = indexOf(1);
    index.apply(0, [stored([1]), stored([1])]);
    index.apply(0, [{ type: "moved", names: names(1), from: 0, to: 1 }]);
    index.apply(0, [removed([1])]);
    expect(found(index, tokens(1))).toEqual([[0, 0, 1, 1]]);
    index.apply(0, [removed([1], 1)]);
    expect(index.stats().memberships).toBe(0);
  });
});

describe("what workers should not say", () => {
  test("[CL5] a run without its parent is kept out and counted", () => {
    const index = indexOf(2);
    index.apply(0, [stored([1])]);
    index.apply(1, [stored([2, 3], { parent: 1, first: 4 })]);
    expect(index.stats()).toMatchObject({ unknownParents: 2, memberships: 1 });
  });

  test("[CL5] blocks that name each other as parents end nowhere", () => {
    const index = indexOf(1);
    index.apply(0, [stored([1, 2]), stored([1], { parent: 2, first: 8 })]);
    index.apply(0, [stored([2], { parent: 1, first: 12 }), stored([1], { parent: 1, first: 4 })]);
    expect(index.stats()).toMatchObject({ memberships: 2, blocks: 2, renamed: 3 });
    expect(found(index, tokens(4))).toEqual([]);
  });

  const wrong: [string, KvChange][] = [
    ["too few tokens", stored([1, 2], { tokens: tokens(1) })],
    ["too many tokens", stored([1], { tokens: tokens(2) })],
    ["a block size of 0", stored([1], { scope: scopeOf({ blockTokens: 0 }) })],
    ["a negative block size", stored([1], { scope: scopeOf({ blockTokens: -4 }) })],
    [
      "a broken block size",
      stored([2, 1], { scope: scopeOf({ blockTokens: 4.5 }), tokens: tokens(1) }),
    ],
    ["half a name", { ...removed([1]), names: Uint32Array.of(1, 2, 3) } as KvChange],
    ["half a parent", { ...stored([1]), parent: Uint32Array.of(1) } as KvChange],
    ["a level that is none", stored([1], { level: 3 as KvLevel })],
    ["removal from no level", removed([1], -1 as KvLevel)],
    ["a move to no level", { type: "moved", names: names(1), from: 0, to: 9 as KvLevel }],
    ["a level that is no number", { type: "cleared", level: "0" as unknown as KvLevel }],
  ];

  test.for(wrong)("[CL5] a change that contradicts itself changes nothing: %s", ([, change]) => {
    const index = indexOf(1);
    index.apply(0, [stored([1])]);
    index.apply(0, [change]);
    expect(index.stats()).toMatchObject({ malformed: 1, memberships: 1 });
    expect(found(index, tokens(1))).toEqual([[0, 1, 1, 1]]);
  });

  test("[CL6] placeholders mean what their names mean, or nothing", () => {
    const index = indexOf(1);
    const placeholders = (numbers: number[]) =>
      stored(numbers, { level: 1, tokens: new Uint32Array() });
    index.apply(0, [stored([1, 2]), placeholders([1, 5])]);
    expect(index.stats()).toMatchObject({ placeholders: 1, memberships: 2 });
    index.apply(0, [removed([1, 2])]);
    expect(found(index, tokens(2))).toEqual([[0, 0, 1, 1]]);
    index.apply(0, [placeholders([2])]);
    expect(index.stats()).toMatchObject({ placeholders: 2, memberships: 1 });
  });
});
