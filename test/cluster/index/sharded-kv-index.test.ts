import { describe, expect, test } from "vitest";
import { BlockNamer, KvIndex, ShardedKvIndex } from "#cluster/index";
import type { KvChange, PrefixMatch } from "#cluster/protocol";
import { sized } from "../../support/full.ts";
import {
  Chances,
  familyPrompt,
  namesFrom,
  RandomWorker,
  scopeOf,
} from "../../support/kv-changes.ts";

const sorted = (matches: readonly PrefixMatch[]) =>
  [...matches].sort((a, b) => a.worker - b.worker);

type Stored = Extract<KvChange, { readonly type: "stored" }>;

function run(first: number, blocks: number): Stored {
  return {
    ...{ type: "stored", scope: scopeOf(), level: 0, parent: null },
    names: namesFrom(first, blocks),
    tokens: Uint32Array.from({ length: blocks * 4 }, (_, at) => first * 1000 + at),
  };
}

describe("shards", () => {
  test.for([1, 2, 3])("[CL15] any number of them says what one index says (%i)", async (shards) => {
    const namer = new BlockNamer();
    const one = new KvIndex({ namer });
    const index = new ShardedKvIndex({ shards, namer, bytesMax: 2 ** 26 });
    const chances = new Chances(shards);
    const scopes = [scopeOf(), scopeOf({ salt: "s" }), scopeOf({ group: 1 })];
    const lives = Array.from({ length: 8 }, (_, salt) => {
      expect(index.join()).toBe(one.join());
      return new RandomWorker(chances, scopes, salt);
    });
    for (let step = 0; step < sized(4000, 40_000); step++) {
      const worker = chances.below(lives.length);
      const changes = [lives[worker]?.change() ?? run(0, 1)];
      if (chances.below(50) === 0) changes.push({ ...run(1, 2), names: Uint32Array.of(1) });
      for (const each of [one, index]) each.apply(worker, changes);
      if (chances.below(500) === 0) for (const each of [one, index]) each.reset(worker);
      if (chances.below(700) === 0) {
        for (const each of [one, index]) {
          each.leave(worker);
          expect(each.join()).toBe(worker);
        }
      }
      if (step % 20 !== 0) continue;
      const tokens = familyPrompt(chances, 9);
      const prompt = one.blocksOf(chances.of(scopes), tokens);
      expect(sorted(await index.find(prompt))).toEqual(sorted(one.find(prompt)));
      const groups = [0, 2].map((place) => ({
        prompt: one.blocksOf(scopes[place] ?? scopeOf(), tokens),
        windowTokens: place === 0 ? null : 6,
      }));
      expect(sorted(await index.findGroups(groups))).toEqual(sorted(one.findGroups(groups)));
    }
    const { bytes, bytesMax, ...counts } = one.stats();
    const sum = await index.stats();
    expect(sum).toMatchObject(counts);
    expect(sum.bytes).toBeGreaterThan(bytes / 2);
    expect(sum.bytesMax).toBeLessThanOrEqual(Math.min(bytesMax, 2 ** 26));
    expect(counts.unknownParents * counts.placeholders * counts.malformed).toBeGreaterThan(0);
    await index.close();
  });

  test("[CL15] changes may be used again at once, and are taken over in their order", async () => {
    const index = new ShardedKvIndex({ shards: 2, bytesMax: 2 ** 24 });
    const worker = index.join();
    const change = run(0, 4);
    index.apply(worker, [change]);
    const prompt = index.blocksOf(scopeOf(), change.tokens);
    change.names.fill(0);
    const found = index.find(prompt);
    index.leave(worker);
    const after = index.find(prompt);
    index.join();
    expect(await found).toEqual([{ worker, levels: [4, 4, 4] }]);
    expect(await after).toEqual([]);
    await index.close();
  });

  test("[CL15] more scopes than have numbers are told apart", async () => {
    const index = new ShardedKvIndex({ shards: 2, bytesMax: 2 ** 24 });
    const worker = index.join();
    const scopeAt = (salt: number) => scopeOf({ salt: `${salt}` });
    for (let salt = 0; salt < 9000; salt++) {
      const scope = scopeAt(salt % 6000);
      index.apply(worker, [
        { ...run(salt, 1), scope, tokens: Uint32Array.of(1, 2, 3, 4) } as KvChange,
      ]);
    }
    for (const salt of [0, 1, 4095, 4096, 5999]) {
      const prompt = index.blocksOf(scopeAt(salt), Uint32Array.of(1, 2, 3, 4));
      expect(await index.find(prompt)).toHaveLength(1);
    }
    expect(await index.find(index.blocksOf(scopeAt(6000), Uint32Array.of(1, 2, 3, 4)))).toEqual([]);
    expect((await index.stats()).memberships).toBe(9000);
    await index.close();
  });

  test("[CL15] a worker whose changes come faster than they are taken over begins anew", async () => {
    const overrun: number[] = [];
    const index = new ShardedKvIndex({
      ...{ shards: 2, bytesMax: 2 ** 24, backlogBytesMax: 2 ** 20 },
      onOverrun: (worker) => overrun.push(worker),
    });
    const [calm, fast] = [index.join(), index.join()];
    index.apply(calm, [run(0, 3)]);
    // In one turn of the event loop; the threads may take over what they can meanwhile.
    for (let step = 1; overrun.length === 0 && step < 100_000; step++) {
      index.apply(fast, [run(step * 100, 50)]);
    }
    expect(overrun).toEqual([fast]);
    expect(index.backlogBytes).toBeLessThan(2 ** 20 + 2 ** 19);
    expect((await index.stats()).memberships).toBe(3);
    await index.close();
  });

  test("[CL15] after a shard has ended, look-ups are refused and changes ignored", async () => {
    const index = new ShardedKvIndex({ shards: 2 });
    const worker = index.join();
    const { tokens } = run(0, 2);
    const prompt = index.blocksOf(scopeOf(), tokens);
    const asked = expect(index.find(prompt)).rejects.toThrow(/it was closed/);
    await index.close();
    await asked;
    await expect(index.find(prompt)).rejects.toThrow(/Cannot look up prefixes/);
    index.apply(worker, [run(0, 2)]);
    await index.close();
  });
});
