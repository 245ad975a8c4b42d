/** Workers that are gone: nothing of them is found at once, and their blocks go in slices. */
import { expect, test } from "vitest";
import { FleetIndex } from "#cluster/index";
import type { KvChange, WorkerNumber } from "#cluster/protocol";
import { sized } from "../../support/full.ts";
import { Chances, familyPrompt, namesFrom, scopeOf } from "../../support/kv-changes.ts";

const scope = scopeOf();
const clock = { nowMs: () => 0 };

/** `blocks` of a chain of its own, or of one that all `seed`s share. */
function chain(seed: number, blocks: number): { change: KvChange; tokens: Uint32Array } {
  const tokens = Uint32Array.from({ length: blocks * 4 }, (_, at) => seed * 1_000_000 + at);
  const named = namesFrom(seed * 1_000_000, blocks);
  return {
    tokens,
    change: { type: "stored", scope, level: 0, parent: null, names: named, tokens },
  };
}

test("[CL119] nothing of a worker that left or began anew is found, and its number begins empty", () => {
  const index = new FleetIndex({ clock });
  const [one, two] = [index.join({ announces: true }), index.join({ announces: true })];
  const { change, tokens } = chain(1, 5000);
  const prompt = index.blocksOf(scope, tokens);
  const found = () => index.find(prompt).map(({ worker, levels }) => [worker, levels[0]]);
  for (const worker of [one, two]) index.apply(worker, [change]);
  expect(found().sort()).toEqual([
    [one, 5000],
    [two, 5000],
  ]);
  index.reset(one);
  expect(found()).toEqual([[two, 5000]]);
  expect(index.stats()).toMatchObject({
    reclaiming: 5000,
    exact: { memberships: 5000, workers: 2 },
  });
  // Told again before the old blocks are given back.
  index.apply(one, [{ ...chain(1, 10).change }]);
  expect(found().sort()).toEqual([
    [one, 10],
    [two, 5000],
  ]);
  index.leave(one);
  index.leave(two);
  expect(found()).toEqual([]);
  expect(index.join({ announces: false })).toBe(one);
  expect(found()).toEqual([]);
  index.routed(one, index.blocksOf(scope, tokens.slice(0, 40)));
  expect(found()).toEqual([[one, 10]]);
  index.apply(two, [change]); // late: it has left
  expect(found()).toEqual([[one, 10]]);
  while (index.reclaim(1000)) expect(found()).toEqual([[one, 10]]);
  expect(index.stats()).toMatchObject({ reclaiming: 0, exact: { memberships: 0, blocks: 10 } });
});

test("[CL119] a cache that is cleared is forgotten at once, and given back in slices", () => {
  const index = new FleetIndex({ clock });
  const [one, two] = [index.join({ announces: true }), index.join({ announces: true })];
  const { change, tokens } = chain(1, 5000);
  index.apply(two, [change]);
  const cleared = { type: "cleared", level: null } as const;
  const found = () => index.find(index.blocksOf(scope, tokens)).map(({ levels }) => levels[0]);
  // What comes before counts no more, what comes behind does; a second time nothing waits.
  index.apply(one, [change, cleared, chain(1, 10).change, cleared, chain(1, 20).change]);
  expect(found().sort()).toEqual([20, 5000]);
  expect(index.reclaims).toBe(true);
  expect(index.stats().reclaiming).toBe(5000);
  while (index.reclaim(1000)) expect(found().sort()).toEqual([20, 5000]);
  expect([index.reclaims, index.stats().exact.memberships]).toEqual([false, 5020]);
  index.apply(two, [cleared]);
  expect(found()).toEqual([20]);
});

test("[CL119] slices are bounded, by a caller's word and in each change of others", () => {
  const index = new FleetIndex({ clock });
  const [one, two] = [index.join({ announces: true }), index.join({ announces: true })];
  index.apply(one, [chain(1, 3000).change]);
  index.leave(one);
  let before = index.stats().reclaiming;
  expect(before).toBe(3000);
  for (let turn = 0; turn < 5; turn++) {
    index.apply(two, [chain(2 + turn, 1).change]);
    const { reclaiming } = index.stats();
    expect(before - reclaiming).toBe(256);
    before = reclaiming;
  }
  expect(index.reclaim(100)).toBe(true);
  expect(index.stats().reclaiming).toBe(before - 100);
  expect(index.reclaim(10_000)).toBe(false);
  expect(index.stats()).toMatchObject({ reclaiming: 0, exact: { memberships: 5 } });
});

test("[CL119] blocks of the gone are given up first where others need their bytes", () => {
  const index = new FleetIndex({ clock, bytesMax: 2 ** 21 });
  const gone = index.join({ announces: true });
  const stays = index.join({ announces: true });
  index.apply(stays, [chain(1, 2000).change]);
  index.apply(gone, [chain(2, 6000).change]);
  index.leave(gone);
  for (let seed = 3; seed < 9; seed++) index.apply(stays, [chain(seed, 500).change]);
  const { exact } = index.stats();
  expect(exact.bytes).toBeLessThanOrEqual(exact.bytesMax);
  expect(index.find(index.blocksOf(scope, chain(1, 2000).tokens))[0]?.levels[0]).toBe(2000);
});

test("[CL119] a worker that begins anew a thousand times takes no more numbers and bytes", () => {
  const index = new FleetIndex({ clock, bytesMax: 2 ** 21 });
  const worker = index.join({ announces: true });
  const { change, tokens } = chain(1, 40);
  for (let turn = 0; turn < 3000; turn++) {
    index.apply(worker, [change]);
    index.reset(worker);
    if (turn % 2 === 0) index.reset(worker);
  }
  for (let turn = 0; turn < 2500; turn++) index.reset(worker);
  index.apply(worker, [change]);
  expect(index.find(index.blocksOf(scope, tokens))).toEqual([{ worker, levels: [40, 40, 40] }]);
  expect(index.stats().exact.bytes).toBeLessThanOrEqual(2 ** 21);
});

test("[CL119] it answers as an index that gives all back at once", () => {
  const chances = new Chances(15);
  const make = () => new FleetIndex({ clock });
  const [slow, fast] = [make(), make()];
  const workers = new Set<WorkerNumber>();
  const both = <Result>(call: (index: FleetIndex) => Result): Result => {
    const result = call(slow);
    expect(call(fast)).toEqual(result);
    while (fast.reclaim(1_000_000)) {
      // all of it
    }
    return result;
  };
  let name = 0;
  for (let step = 0; step < sized(1500, 20_000); step++) {
    const roll = chances.below(100);
    const worker = workers.size > 0 ? chances.of([...workers]) : -1;
    if (roll < 8 && workers.size < 20) {
      workers.add(both((index) => index.join({ announces: roll % 2 === 0 })));
    } else if (worker < 0) continue;
    else if (roll < 14) {
      both((index) => index.leave(worker));
      workers.delete(worker);
    } else if (roll < 22) both((index) => index.reset(worker));
    else {
      const tokens = familyPrompt(chances, 1 + chances.below(12));
      name += 50;
      const named = namesFrom(name, tokens.length / 4);
      const prompt = slow.blocksOf(scope, tokens);
      if (roll < 60) {
        both((index) => {
          const change = { type: "stored", scope, level: 0, parent: null } as const;
          index.apply(worker, [{ ...change, names: named, tokens }]);
        });
      } else if (roll < 70) {
        slow.routed(worker, prompt);
        fast.routed(worker, fast.blocksOf(scope, tokens));
      }
      const found = (index: FleetIndex) =>
        [...index.find(index.blocksOf(scope, tokens))].sort((a, b) => a.worker - b.worker);
      expect(found(slow)).toEqual(found(fast));
    }
  }
});
