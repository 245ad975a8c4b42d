import { setImmediate as turn } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { type Merged, mergeStreams } from "../../../src/server/openai/merge-streams.ts";

/** A stream of `count` items that tells what is done to it. */
class Source implements AsyncIterableIterator<string> {
  asked = 0;
  left = false;
  readonly #name: string;
  readonly #count: number;
  readonly #failAt: number | null;

  constructor(name: string, count: number, failAt: number | null = null) {
    this.#name = name;
    this.#count = count;
    this.#failAt = failAt;
  }

  async next(): Promise<IteratorResult<string, undefined>> {
    const place = this.asked++;
    await turn();
    if (this.left || place >= this.#count) return { done: true, value: undefined };
    if (place === this.#failAt) throw new Error(`${this.#name} failed`);
    return { done: false, value: `${this.#name}${place}` };
  }

  async return(): Promise<IteratorResult<string, undefined>> {
    this.left = true;
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

const itemsOf = async (merged: AsyncIterable<Merged<string>>): Promise<string[]> => {
  const items: string[] = [];
  for await (const { item } of merged) items.push(item);
  return items;
};

describe("merged streams", () => {
  test("bring each stream's items in order, from all in turn", async () => {
    const items = await itemsOf(mergeStreams([new Source("a", 3), new Source("b", 2)]));
    expect(items.filter((item) => item.startsWith("a"))).toEqual(["a0", "a1", "a2"]);
    expect(items).toEqual(["a0", "b0", "a1", "b1", "a2"]);
  });

  test("say which stream an item is from, also where there is only one", async () => {
    const merged = mergeStreams([new Source("a", 1)]);
    expect(await merged.next()).toEqual({ done: false, value: { source: 0, item: "a0" } });
    expect(await merged.next()).toEqual({ done: true, value: undefined });
    expect(await itemsOf(mergeStreams<string>([]))).toEqual([]);
  });

  test("are opened a few in a turn of the event loop, and all are read", async () => {
    const sources = Array.from({ length: 200 }, (_, place) => new Source(`${place}.`, 1));
    const merged = mergeStreams(sources);
    const first = merged.next();
    const asked = () => sources.filter((source) => source.asked > 0).length;
    expect(asked()).toBe(32);
    await first;
    expect(asked()).toBeLessThan(200);
    expect(await itemsOf(merged)).toHaveLength(199);
  });

  test("ask each stream for one item ahead, and for no more while none is read", async () => {
    const sources = [new Source("a", 100), new Source("b", 100)];
    const merged = mergeStreams(sources);
    await merged.next();
    for (let turns = 0; turns < 20; turns++) await turn();
    expect(sources.map(({ asked }) => asked)).toEqual([2, 1]);
  });

  test("are open so many at a time, and the next begins when one ends", async () => {
    const sources = Array.from({ length: 5 }, (_, place) => new Source(`s${place}-`, 2));
    const merged = mergeStreams(sources, 2);
    await merged.next();
    expect(sources.map(({ asked }) => asked > 0)).toEqual([true, true, false, false, false]);
    const items = ["s0-0", ...(await itemsOf(merged))];
    expect(items).toHaveLength(10);
    expect(items.indexOf("s4-0")).toBeGreaterThan(items.indexOf("s1-1"));
  });

  test("end with the first failure, and leave the others", async () => {
    const sources = [new Source("a", 9), new Source("b", 9, 1), new Source("c", 9)];
    const merged = mergeStreams(sources);
    await expect(itemsOf(merged)).rejects.toThrow("b failed");
    expect(sources.map(({ left }) => left)).toEqual([true, false, true]);
    expect(await merged.next()).toEqual({ done: true, value: undefined });
  });

  test("are all left with the reader, and those that never began do not begin", async () => {
    const sources = [new Source("a", 9), new Source("b", 9), new Source("c", 9)];
    for await (const _ of mergeStreams(sources, 2)) break;
    await turn();
    expect(sources.map(({ left }) => left)).toEqual([true, true, false]);
    expect(sources[2]?.asked).toBe(0);
  });

  test("cost the same for each item, however many streams wait", async () => {
    // With Promise.race each item added a reaction to the promise of every stream that waits.
    const silent = Array.from({ length: 1000 }, () => new Source("-", 0));
    for (const source of silent) source.next = () => new Promise(() => {});
    const merged = mergeStreams([new Source("a", 20_000), ...silent]);
    const before = heapBytes();
    for (let item = 0; item < 20_000; item++) await merged.next();
    // 20,000 times 1,000 reactions would be more than a gigabyte.
    expect(heapBytes() - before).toBeLessThan(64 * 2 ** 20);
  });
});

function heapBytes(): number {
  return process.memoryUsage().heapUsed;
}
