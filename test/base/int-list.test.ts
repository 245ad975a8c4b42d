import { expect, test } from "vitest";
import { IntList, intAt } from "#base";

test("a list grows past its first capacity and keeps its values", () => {
  const list = new IntList([7]);
  for (let value = 0; value < 1000; value++) list.push(value);
  expect(list.length).toBe(1001);
  expect(list.get(0)).toBe(7);
  expect(list.get(1000)).toBe(999);
  expect([...list.view(998)]).toEqual([997, 998, 999]);
});

test("pop takes the last value, and an empty list has none", () => {
  const list = new IntList([1, 2]);
  expect(list.pop()).toBe(2);
  expect(list.pop()).toBe(1);
  expect(() => list.pop()).toThrow("Cannot read");
});

test("reading outside is a bug, even where the capacity would allow it", () => {
  const list = new IntList([1, 2, 3]);
  expect(() => list.get(3)).toThrow("past the end");
  expect(() => list.get(-1)).toThrow("outside its array");
  expect(() => list.view(0, 4)).toThrow("past the end");
  expect(() => intAt(new Int32Array(2), 2)).toThrow("outside its array");
});

test("clear empties the list", () => {
  const list = new IntList([1, 2, 3]);
  list.clear();
  expect([...list.view()]).toEqual([]);
});
