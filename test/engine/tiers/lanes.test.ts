import { expect, test } from "vitest";
import { forEachOf, KeyedOrder, Lanes } from "../../../src/engine/tiers/lanes.ts";

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

test("lanes run so many tasks at a time, first come first served, and survive failures", async () => {
  const lanes = new Lanes(2);
  const started: number[] = [];
  let [running, most] = [0, 0];
  const results = [1, 2, 3, 4, 5].map((index) =>
    lanes.run(async () => {
      started.push(index);
      most = Math.max(most, ++running);
      await turn();
      running--;
      if (index === 2) throw new Error("no");
      return index;
    }),
  );
  const settled = await Promise.allSettled(results);
  expect(started).toEqual([1, 2, 3, 4, 5]);
  expect(most).toBe(2);
  expect(settled.map(({ status }) => status === "fulfilled")).toEqual([
    true,
    false,
    true,
    true,
    true,
  ]);
});

test("tasks with one key run one after the other, others beside them", async () => {
  const order = new KeyedOrder();
  const log: string[] = [];
  const task = (name: string, turns: number) => async () => {
    log.push(`${name} begins`);
    for (let i = 0; i < turns; i++) await turn();
    log.push(`${name} ends`);
  };
  void order.run("a", task("a1", 5));
  void order.run("a", task("a2", 0));
  void order.run("b", task("b1", 1));
  await order.idle();
  expect(log).toEqual(["a1 begins", "b1 begins", "b1 ends", "a1 ends", "a2 begins", "a2 ends"]);
  expect(await order.run("a", async () => 7)).toBe(7);
});

test("a bounded loop visits every item once, with no more items than runners too", async () => {
  const seen: number[] = [];
  await forEachOf([1, 2, 3, 4, 5], 3, async (item) => {
    await turn();
    seen.push(item);
  });
  await forEachOf([6], 3, async (item) => void seen.push(item));
  expect(seen.toSorted()).toEqual([1, 2, 3, 4, 5, 6]);
});
