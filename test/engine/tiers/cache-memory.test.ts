/** Books and bytes together, when moves of blocks fail. */
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { IntList, systemClock, systemTimer } from "#base";
import { type Device, openDevice } from "#devices";
import { BlockTable } from "#kvcache";
import { parseEngineOptions } from "../../../src/engine/protocol/config.ts";
import { CacheMemory } from "../../../src/engine/tiers/cache-memory.ts";

const SHAPE = { format: "f32", layers: 1, blockTokens: 2, kvHeads: 1, headDim: 16 } as const;
const BLOCK_BYTES = 2 * 2 * 16 * 4;
const LOAD = 77;
/** Four full blocks and a token each. */
const [first = [], ...others] = [10, 20, 30, 40].map((start) =>
  Array.from({ length: 9 }, (_, place) => start + place),
);

/** A cache on a device that fails to move blocks out, once. */
class FailingCache {
  readonly memory: CacheMemory;
  readonly #dir: string;
  readonly #failNext: () => void;

  private constructor(memory: CacheMemory, dir: string, failNext: () => void) {
    this.memory = memory;
    this.#dir = dir;
    this.#failNext = failNext;
  }

  /** Room for six blocks on the device, five on the host, and many on disk. */
  static async open(error: Error): Promise<FailingCache> {
    const dir = mkdtempSync(join(tmpdir(), "perigee-cache-memory-"));
    const own = await openDevice({ kind: "reference", warn: () => {} });
    onTestFinished(() => {
      own.dispose();
      rmSync(dir, { recursive: true, force: true });
    });
    let failsNext = false;
    const device: Device = Object.assign(Object.create(own), {
      offloadBlocks: (...args: Parameters<Device["offloadBlocks"]>) => {
        const fails = failsNext;
        failsNext = false;
        if (fails) throw error;
        own.offloadBlocks(...args);
      },
    });
    const sizes = { hostCacheBytes: 5 * BLOCK_BYTES, diskCacheBytes: 40 * BLOCK_BYTES };
    const memory = await CacheMemory.open({
      ...{ device, memory: { ...SHAPE, blocks: 6 } },
      settings: parseEngineOptions({ kvCache: { ...sizes, diskCacheDir: dir } }).kvCache,
      ...{ windows: [null], attentionWeight: 0, hostBytesFree: 2 ** 30 },
      fingerprint: async () => "0".repeat(32),
      ...{ clock: systemClock, timer: systemTimer, warn: () => {}, onFinished: () => {} },
    });
    return new FailingCache(memory, dir, () => {
      failsNext = true;
    });
  }

  failNext(): void {
    this.#failNext();
  }

  /** One step: a prompt is computed, and forgotten by its owner. */
  compute(prompt: readonly number[]): void {
    const { cache } = this.memory;
    const tokens = Int32Array.from(prompt);
    const table = new BlockTable("");
    cache.adopt(table, cache.match("", tokens));
    expect(cache.allocate(table, cache.blocksFor(tokens.length) - table.length)).toBe(true);
    cache.publish(table, new IntList(tokens), tokens.length);
    try {
      this.memory.carryOut();
    } finally {
      cache.release(table);
    }
  }

  /** Loads that are complete when no job holds a block any more; `step` follows each look. */
  async settled(step: () => void): Promise<readonly number[]> {
    const { cache } = this.memory;
    const loads: number[] = [];
    const take = () => {
      loads.push(...this.memory.takeFinishedLoads());
      step();
      return cache.poolStats(1).held + cache.poolStats(2).held;
    };
    await expect.poll(take, { interval: 1 }).toBe(0);
    return loads;
  }

  /** Names of the blocks on disk. */
  files(): string[] {
    return readdirSync(this.#dir, { recursive: true, encoding: "utf8" }).filter((name) =>
      name.endsWith(".kv"),
    );
  }
}

test("a move that fails leaves no load waiting, no block held and nothing wrong on disk", async () => {
  const error = new Error("Cannot move blocks: out of memory");
  const failing = await FailingCache.open(error);
  const { memory } = failing;
  for (const prompt of [first, ...others]) {
    failing.compute(prompt);
    await failing.settled(() => memory.carryOut());
  }
  const before = failing.files();
  const match = memory.cache.match("", Int32Array.from(first));
  expect(match.onDisk.length).toBeGreaterThan(0);
  expect(memory.cache.startLoad(match, LOAD)).toBe(true);

  failing.failNext();
  expect(() => failing.compute([90, 91, 92, 93, 94])).toThrow(error);
  // What the books decide from now on comes to nothing, too, though the device would move it.
  const refused = () => expect(() => memory.carryOut()).toThrow(error);
  expect(await failing.settled(refused)).toEqual([LOAD]);
  memory.cache.audit([]);
  await expect(memory.close()).rejects.toThrow(error);
  expect(before).toEqual(expect.arrayContaining(failing.files()));
});
