import { expect, test } from "vitest";
import { ApproximateIndex, FleetIndex } from "#cluster/index";
import type { KvChange } from "#cluster/protocol";
import { names, scopeOf } from "../../support/kv-changes.ts";

class StepClock {
  ms = 0;
  nowMs(): number {
    return this.ms;
  }
}

const tokens = (blocks: number) => Uint32Array.from({ length: blocks * 4 }, (_, at) => at);

function stored(from: number, to: number): KvChange {
  return {
    ...{ type: "stored", scope: scopeOf(), level: 0 },
    parent: from === 0 ? null : names(from - 1),
    names: names(...Array.from({ length: to - from }, (_, at) => from + at)),
    tokens: tokens(to).slice(from * 4),
  };
}

function fleetOf(...announces: boolean[]) {
  const clock = new StepClock();
  const index = new FleetIndex({ clock, ttlMs: 1000, predictedTtlMs: 100 });
  for (const each of announces) index.join({ announces: each });
  const prompt = index.blocksOf(scopeOf(), tokens(10));
  const found = () => index.find(prompt).map(({ worker, levels }) => [worker, ...levels]);
  return { clock, index, prompt, found };
}

test("[CL10] what was sent to a silent worker is there until its time is over", () => {
  const { clock, index, prompt, found } = fleetOf(false, false);
  index.routed(1, prompt);
  expect(found()).toEqual([[1, 10, 10, 10]]);
  clock.ms = 999;
  expect(found()).toEqual([[1, 10, 10, 10]]);
  clock.ms = 1000;
  expect(found()).toEqual([]);
  expect(index.stats().approximate).toMatchObject({ expired: 10, memberships: 0 });
});

test("[CL10] a request of the same prompt renews the time of the blocks it has, no others", () => {
  const { clock, index, prompt, found } = fleetOf(false);
  index.routed(0, prompt);
  clock.ms = 600;
  index.routed(0, index.blocksOf(scopeOf(), tokens(4)));
  clock.ms = 1100;
  expect(found()).toEqual([[0, 4, 4, 4]]);
  clock.ms = 1600;
  expect(found()).toEqual([]);
});

test("[CL10] a bound of a worker's blocks ends the oldest", () => {
  const index = new ApproximateIndex({
    ...{ clock: new StepClock(), ttlMs: 1000, bytesMax: 2 ** 22, workerBlocksMax: 12 },
  });
  const old = index.blocksOf(scopeOf({ salt: "old" }), tokens(8));
  const young = index.blocksOf(scopeOf(), tokens(8));
  index.routed(0, old);
  index.routed(0, young);
  expect(index.find(young)).toEqual([{ worker: 0, levels: [8, 8, 8] }]);
  expect(index.find(old)).toEqual([]);
  expect(index.stats()).toMatchObject({ memberships: 12, evicted: 4 });
});

test("[CL11] what was sent is in view at once, and only events count after they came", () => {
  const { clock, index, prompt, found } = fleetOf(true, true);
  index.routed(0, prompt);
  expect(found()).toEqual([[0, 10, 10, 10]]);
  index.apply(0, [stored(0, 10)]);
  expect(index.stats().predicted).toMatchObject({ memberships: 0, told: 10 });
  clock.ms = 5000;
  expect(found()).toEqual([[0, 10, 10, 10]]);
  index.apply(0, [{ type: "removed", names: names(9), level: 0 }]);
  expect(found()).toEqual([[0, 9, 9, 9]]);
});

test("[CL11] a prompt that is announced in parts stays whole while it is", () => {
  const { index, prompt, found } = fleetOf(true);
  index.routed(0, prompt);
  for (const [from, to] of [
    [0, 3],
    [3, 4],
    [4, 9],
  ] as const) {
    index.apply(0, [stored(from, to)]);
    expect(found()).toEqual([[0, 10, 10, 10]]);
  }
});

test("[CL11] a prediction that does not come true ends", () => {
  const { clock, index, prompt, found } = fleetOf(true);
  index.apply(0, [stored(0, 3)]);
  index.routed(0, prompt);
  clock.ms = 99;
  expect(found()).toEqual([[0, 10, 10, 10]]);
  clock.ms = 100;
  expect(found()).toEqual([[0, 3, 3, 3]]);
});

test("[CL11] a prediction counts as on the device, where events say farther away", () => {
  const { clock, index, prompt, found } = fleetOf(true);
  index.apply(0, [{ ...stored(0, 6), level: 2 } as KvChange]);
  index.routed(0, index.blocksOf(scopeOf(), tokens(2)));
  expect(found()).toEqual([[0, 2, 2, 6]]);
  clock.ms = 100;
  expect(found()).toEqual([[0, 0, 0, 6]]);
  expect(prompt.keys).toHaveLength(20);
});

test.for([true, false])(
  "[CL2] a worker that is reset or leaves keeps no guesses: %s",
  (announces) => {
    const { index, prompt, found } = fleetOf(announces, announces);
    for (const worker of [0, 1]) index.routed(worker, prompt);
    index.reset(0);
    expect(found()).toEqual([[1, 10, 10, 10]]);
    index.leave(1);
    expect(found()).toEqual([]);
    expect(index.join({ announces })).toBe(1);
    expect(found()).toEqual([]);
  },
);

test("[CL11] a listener is told of each stored block once, by the index's names", () => {
  const heard: number[] = [];
  const index = new FleetIndex({
    clock: new StepClock(),
    onStored: (worker, keys) => heard.push(worker, ...keys),
  });
  const worker = index.join({ announces: true });
  index.apply(worker, [stored(0, 3), stored(3, 4), stored(8, 9)]);
  expect(heard).toEqual([
    worker,
    ...index.blocksOf(scopeOf(), tokens(3)).keys,
    worker,
    ...index.blocksOf(scopeOf(), tokens(4)).keys.slice(6),
  ]);
});
