import { expect, test } from "vitest";
import { TokenList } from "#base";

test("lists that share a beginning grow apart, and leave it as it is", () => {
  const shared = Int32Array.of(1, 2, 3);
  const [first, second] = [new TokenList(shared), new TokenList(shared)];
  first.push(4);
  first.push(5);
  second.push(9);
  expect([...first.view()]).toEqual([1, 2, 3, 4, 5]);
  expect([...second.view()]).toEqual([1, 2, 3, 9]);
  expect([first.get(2), first.get(3), first.length]).toEqual([3, 4, 5]);
  expect(first.pop()).toBe(5);
  expect([...first.view()]).toEqual([1, 2, 3, 4]);
  expect([...shared]).toEqual([1, 2, 3]);
});

test("a view of any part is that part, copied only where it has some of both", () => {
  const shared = Int32Array.of(1, 2, 3);
  const list = new TokenList(shared);
  for (const value of [4, 5, 6]) list.push(value);
  const all = [1, 2, 3, 4, 5, 6];
  for (let start = 0; start <= 6; start++) {
    for (let end = start; end <= 6; end++) {
      expect([...list.view(start, end)]).toEqual(all.slice(start, end));
    }
  }
  expect(list.view(1, 3).buffer).toBe(shared.buffer);
  expect(list.view(3, 6).buffer).toBe(list.view(4, 5).buffer);
});

test("nothing is read or taken beyond its ends", () => {
  const list = new TokenList(Int32Array.of(1));
  expect(() => list.pop()).toThrow();
  expect(() => list.get(1)).toThrow();
  expect(() => list.get(-1)).toThrow();
  expect(() => list.view(0, 2)).toThrow();
  expect(() => list.view(1, 2)).toThrow();
  expect([...list.view(1, 1)]).toEqual([]);
});
