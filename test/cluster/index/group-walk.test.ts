import { expect, test } from "vitest";
import { KvIndex } from "#cluster/index";
import type { KvScope, PrefixMatch, WorkerNumber } from "#cluster/protocol";
import { sized } from "../../support/full.ts";
import { Chances, familyPrompt, names, RandomWorker, scopeOf } from "../../support/kv-changes.ts";
import { contentsOf, NaiveKvIndex } from "../../support/naive-kv-index.ts";

interface Group {
  readonly scope: KvScope;
  readonly windowTokens: number | null;
}

/** The longest prefix at which each group has what the next token sees, by trying all lengths. */
function naiveGroups(naive: NaiveKvIndex, groups: readonly Group[], tokens: Uint32Array) {
  const matches: PrefixMatch[] = [];
  for (const [worker, { levelsOf }] of naive.workers) {
    const owner = naive.workers.get(worker);
    const held = groups.map(({ scope }) =>
      contentsOf(scope, tokens).map((contents) => levelsOf.call(owner, contents)),
    );
    const levels = [1, 3, 7].map((mask) => {
      for (let count = held[0]?.length ?? 0; count > 0; count--) {
        const position = count * 4;
        const isWhole = groups.every(({ windowTokens }, group) => {
          const from = windowTokens === null ? 0 : Math.max(0, position - windowTokens + 1);
          for (let at = from; at < position; at++) {
            if (((held[group]?.[Math.floor(at / 4)] ?? 0) & mask) === 0) return false;
          }
          return true;
        });
        if (isWhole) return count;
      }
      return 0;
    });
    if ((levels[2] ?? 0) > 0) matches.push({ worker, levels: levels as [number, number, number] });
  }
  return matches.sort((a, b) => a.worker - b.worker);
}

const WINDOWS: readonly (readonly (number | null)[])[] = [
  [null, null],
  [null, 1],
  [null, 2],
  [null, 5],
  [null, 6],
  [9, 12],
  [null, 4096],
  [null, 7, 16],
];

test.for(WINDOWS)("[CL7] a prefix counts where all groups hold it: windows %o", (...windows) => {
  const given = windows[0] as unknown as readonly (number | null)[];
  const chances = new Chances(given.length * 100 + (given[1] ?? 0));
  const groups = given.map((windowTokens, group) => ({
    windowTokens,
    scope: scopeOf({ group }),
  }));
  const index = new KvIndex();
  const naive = new NaiveKvIndex();
  const scopes = groups.map(({ scope }) => scope);
  const workers = Array.from({ length: 4 }, (_, salt) => {
    const worker = index.join();
    naive.reset(worker);
    return { worker, life: new RandomWorker(chances, scopes, salt) };
  });
  let deepest = 0;
  for (let step = 0; step < sized(2500, 20_000); step++) {
    const { worker, life } = chances.of(workers);
    const changes = [life.change()];
    index.apply(worker, changes);
    naive.apply(worker, changes);
    if (step % 5 !== 0) continue;
    const tokens = familyPrompt(chances, 9);
    const asked = groups.map(({ scope, windowTokens }) => ({
      windowTokens,
      prompt: index.blocksOf(scope, tokens),
    }));
    const found = [...index.findGroups(asked)].sort((a, b) => a.worker - b.worker);
    expect(found).toEqual(naiveGroups(naive, groups, tokens));
    deepest = Math.max(deepest, ...found.map(({ levels }) => levels[2]));
  }
  expect(deepest).toBeGreaterThan(3);
});

test("[CL7] blocks that left a window are not missed", () => {
  const index = new KvIndex();
  const worker: WorkerNumber = index.join();
  const tokens = Uint32Array.from({ length: 32 }, (_, at) => at);
  const scopes = [scopeOf(), scopeOf({ group: 1 })];
  scopes.forEach((scope, group) => {
    const run = names(...Array.from({ length: 8 }, (_, block) => group * 100 + block));
    const level = 0;
    index.apply(worker, [{ type: "stored", scope, level, parent: null, names: run, tokens }]);
  });
  const ask = () =>
    index.findGroups(
      scopes.map((scope, group) => ({
        prompt: index.blocksOf(scope, tokens),
        windowTokens: group === 0 ? null : 9,
      })),
    );
  // A token sees 9 positions, its own included: the 8 before it are in the last two blocks.
  index.apply(worker, [{ type: "removed", names: names(100, 101, 102, 103, 104, 105), level: 0 }]);
  expect(ask()).toEqual([{ worker, levels: [8, 8, 8] }]);
  index.apply(worker, [{ type: "removed", names: names(106), level: 0 }]);
  expect(ask()).toEqual([]);
});
