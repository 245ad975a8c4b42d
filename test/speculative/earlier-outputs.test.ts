import { describe, expect, test } from "vitest";
import { EarlierOutputs } from "#speculative";

const of = (...tokens: number[]) => Int32Array.from(tokens);
const numbers = (first: number, count: number) =>
  Int32Array.from({ length: count }, (_, at) => first + at);

/** What follows a text, or null. */
function following(outputs: EarlierOutputs, scope: string, tail: Int32Array, most = 8) {
  const found = outputs.find(scope, tail, most);
  return found === null ? null : [...found.tokens];
}

describe("[SP26] earlier outputs", () => {
  test("go on where four tokens match, at most twice as far as they match", () => {
    const outputs = new EarlierOutputs(2 ** 20);
    outputs.add("", numbers(10, 40));
    expect(following(outputs, "", of(12, 13, 14))).toBeNull();
    expect(following(outputs, "", of(1, 13, 14, 15))).toBeNull();
    expect(outputs.find("", of(12, 13, 14, 15), 31)?.matched).toBe(4);
    expect(following(outputs, "", of(12, 13, 14, 15), 31)).toEqual([
      16, 17, 18, 19, 20, 21, 22, 23,
    ]);
    expect(following(outputs, "", of(12, 13, 14, 15), 3)).toEqual([16, 17, 18]);
    expect(outputs.find("", numbers(10, 20), 31)?.matched).toBe(20);
    // The output ends there.
    expect(following(outputs, "", of(46, 47, 48, 49))).toBeNull();
    expect(following(outputs, "", of(45, 46, 47, 48))).toEqual([49]);
  });

  test("the longest match wins, and among its places what most go on with", () => {
    const outputs = new EarlierOutputs(2 ** 20);
    for (const [next, then] of [
      [7, 1],
      [8, 2],
      [8, 3],
      [8, 3],
      [9, 4],
    ] as const) {
      outputs.add("", of(1, 2, 3, 4, next, then));
    }
    outputs.add("", of(50, 1, 2, 3, 4, 6, 5));
    expect(following(outputs, "", of(1, 2, 3, 4))).toEqual([8, 3]);
    expect(following(outputs, "", of(50, 1, 2, 3, 4))).toEqual([6, 5]);
  });

  test("go on until too few of them go on alike", () => {
    const outputs = new EarlierOutputs(2 ** 20);
    for (let last = 0; last < 4; last++) outputs.add("", of(1, 2, 3, 4, 5, 90 + last, 7));
    // One in four is less than three in ten.
    expect(following(outputs, "", of(1, 2, 3, 4))).toEqual([5]);
  });

  test("no match goes from one output into another", () => {
    const outputs = new EarlierOutputs(2 ** 20);
    outputs.add("", of(1, 2, 3, 4, 5));
    outputs.add("", of(6, 7, 8, 9, 10));
    expect(following(outputs, "", of(2, 3, 4, 5))).toBeNull();
    expect(following(outputs, "", of(4, 5, 6, 7))).toBeNull();
  });
});

describe("[SP26] scopes", () => {
  test("see nothing of each other", () => {
    const outputs = new EarlierOutputs(2 ** 20);
    outputs.add("one", numbers(10, 40));
    expect(following(outputs, "one", of(12, 13, 14, 15))).not.toBeNull();
    for (const other of ["", "two", "one ", "ONE", "__proto__"]) {
      expect(following(outputs, other, of(12, 13, 14, 15))).toBeNull();
    }
    // Looking does not make one.
    expect(outputs.scopes).toBe(1);
  });

  test("of which many are tiny stay within the bytes, and the last used ones stay", () => {
    const bytesMax = 2 ** 20;
    const outputs = new EarlierOutputs(bytesMax);
    for (let client = 0; client < 20_000; client++) {
      outputs.add(`salt ${client}`, numbers(client, 8));
      expect(outputs.bytes).toBeLessThanOrEqual(bytesMax);
      // One that goes on asking.
      if (client > 0) expect(following(outputs, "salt 0", of(0, 1, 2, 3))).toEqual([4, 5, 6, 7]);
    }
    // Each takes 4 KiB and its name.
    expect(outputs.scopes).toBeGreaterThan(200);
    expect(outputs.scopes).toBeLessThanOrEqual(256);
    expect(following(outputs, "salt 1", of(1, 2, 3, 4))).toBeNull();
    expect(following(outputs, "salt 19999", of(19999, 20000, 20001, 20002))).not.toBeNull();
  });

  test("with long names stay within the bytes, too", () => {
    const outputs = new EarlierOutputs(2 ** 20);
    for (let client = 0; client < 50; client++) {
      outputs.add(`${client}`.padEnd(100_000, "x"), numbers(client, 8));
    }
    expect(outputs.bytes).toBeLessThanOrEqual(2 ** 20);
    expect(outputs.scopes).toBe(5);
  });

  test("of one client that says much leave room for others, and keep its newest outputs", () => {
    const bytesMax = 2 ** 20;
    const outputs = new EarlierOutputs(bytesMax);
    outputs.add("quiet", numbers(5, 40));
    for (let round = 0; round < 2_000; round++) outputs.add("loud", numbers(100 * round, 90));
    expect(outputs.bytes).toBeLessThanOrEqual(bytesMax / 2);
    expect(following(outputs, "quiet", of(5, 6, 7, 8), 2)).toEqual([9, 10]);
    expect(following(outputs, "loud", numbers(199_900, 4), 2)).toEqual([199_904, 199_905]);
    expect(following(outputs, "loud", numbers(100, 4), 2)).toBeNull();
  });

  test("an output that is longer than a scope keeps its end", () => {
    const outputs = new EarlierOutputs(2 ** 20);
    outputs.add("", numbers(0, 100_000));
    expect(outputs.bytes).toBeLessThanOrEqual(2 ** 20);
    expect(following(outputs, "", numbers(99_000, 4), 2)).toEqual([99_004, 99_005]);
  });

  test("have no room in a few bytes", () => {
    const outputs = new EarlierOutputs(1000);
    outputs.add("", numbers(0, 100));
    expect([outputs.bytes, outputs.scopes]).toEqual([0, 0]);
  });
});
