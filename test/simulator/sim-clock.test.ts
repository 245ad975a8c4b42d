import { expect, test } from "vitest";
import { SimClock } from "#simulator";

test("[CL103] events run by time, those of one time in the order in which they were made", () => {
  const clock = new SimClock();
  const seen: string[] = [];
  const note = (name: string) => () => seen.push(`${name}@${clock.nowMs()}`);
  clock.after(5, note("c"));
  clock.after(1, note("a"));
  clock.after(5, note("d"));
  clock.after(2, () => clock.after(0, note("b")));
  clock.after(3, note("cancelled"))();
  clock.run();
  expect(seen).toEqual(["a@1", "b@2", "c@5", "d@5"]);
  expect(clock.pending).toBe(0);
});

test("a run up to a time leaves later events, and stands at that time", () => {
  const clock = new SimClock();
  let runs = 0;
  for (let ms = 1; ms <= 100; ms++) clock.at(ms, () => runs++);
  clock.run(40.5);
  expect([runs, clock.nowMs()]).toEqual([40, 40.5]);
  clock.at(1, () => runs++);
  clock.run(40.5);
  expect(runs).toBe(41);
  clock.run();
  expect([runs, clock.nowMs()]).toEqual([101, 100]);
});

test("ten thousand events in any order come out sorted", () => {
  const clock = new SimClock();
  const times: number[] = [];
  let state = 7;
  for (let index = 0; index < 10_000; index++) {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    clock.after(state % 997, () => times.push(clock.nowMs()));
  }
  clock.run();
  expect(times).toHaveLength(10_000);
  expect(times).toEqual([...times].sort((a, b) => a - b));
});
