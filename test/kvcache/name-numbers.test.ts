import { expect, test } from "vitest";
import { NameNumbers } from "../../src/kvcache/contents/name-numbers.ts";
import { NumberPool } from "../../src/kvcache/contents/number-pool.ts";

test("[KV9] a name keeps its number while it has users, and leaves nothing behind", () => {
  const names = new NameNumbers();
  const first = names.retain("a");
  const second = names.retain("");
  expect(names.retain("a")).toBe(first);
  expect(names.nameOf(second)).toBe("");
  names.release(first);
  expect(names.find("a")).toBe(first);
  names.release(first);
  expect(names.find("a")).toBeNull();
  expect(() => names.nameOf(first)).toThrow("not in use");
  expect(() => names.release(first)).toThrow("not in use");
  expect(names.retain("b")).toBe(first);
  expect([...names.numbers()]).toEqual([second, first]);
  expect(names.count).toBe(2);
  names.clear();
  expect(names.find("b")).toBeNull();
  expect(names.count).toBe(0);
});

test("numbers that were given back are taken first, the last one before the others", () => {
  const pool = new NumberPool();
  expect([pool.take(), pool.take(), pool.take()]).toEqual([0, 1, 2]);
  pool.give(0);
  pool.give(2);
  expect(pool.count).toBe(1);
  expect([pool.take(), pool.take(), pool.take()]).toEqual([2, 0, 3]);
  pool.clear();
  expect(pool.take()).toBe(0);
});
