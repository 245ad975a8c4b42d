import { expect, test } from "vitest";
import { IntList } from "#base";
import { BlockTable, type DiskJob, KvCache, type KvCacheShape, type LevelStats } from "#kvcache";

const BLOCK_TOKENS = 4;

/** A cache of few blocks, and prompts that come and go through it. */
class Traffic {
  readonly cache: KvCache;

  constructor(shape: Omit<KvCacheShape, "blockTokens" | "prefixCaching">) {
    this.cache = new KvCache({ ...shape, blockTokens: BLOCK_TOKENS, prefixCaching: true });
  }

  /** A prompt of so many full blocks and one token more; returns what it found, in tokens. */
  pass(seed: number, blocks: number, priority: number | null = null): number {
    const ids = Array.from({ length: blocks * BLOCK_TOKENS + 1 }, (_, i) => seed * 1000 + i);
    const tokens = new IntList(ids);
    const table = new BlockTable();
    const match = this.cache.match("", tokens.view());
    this.cache.adopt(table, match);
    expect(this.cache.allocate(table, blocks + 1 - table.length)).toBe(true);
    for (let index = 0; index < blocks; index++) {
      this.cache.setRetention(table, index, { priority, durationMs: null });
    }
    this.cache.publish(table, tokens, blocks * BLOCK_TOKENS);
    this.cache.release(table);
    this.cache.takeMoves();
    this.cache.audit([]);
    return match.tokens;
  }

  /** All jobs that are due succeed. */
  finishJobs(): readonly DiskJob[] {
    const jobs = this.cache.takeDiskJobs();
    for (const job of jobs) if (job.kind !== "delete") this.cache.finishDiskJob({ job, ok: true });
    return jobs;
  }

  level(level: 0 | 1 | 2): Partial<LevelStats> {
    return this.cache.stats().levels.find((stats) => stats.level === level) ?? {};
  }
}

test("a block that makes room on its own is forgotten, or offloaded where there is a place", () => {
  const alone = new Traffic({ blocks: 4 });
  alone.pass(1, 3);
  alone.pass(2, 3);
  expect(alone.level(0)).toMatchObject({ offloaded: 0, forgotten: 3, dropped: 0, orphaned: 0 });

  const tiered = new Traffic({ blocks: 4, hostBlocks: 8 });
  tiered.pass(1, 3);
  tiered.pass(2, 3);
  expect(tiered.level(0)).toMatchObject({ offloaded: 3, forgotten: 0, dropped: 0, orphaned: 0 });
  expect(tiered.pass(1, 3)).toBe(12);
  expect(tiered.level(1)).toMatchObject({ onboarded: 3, hitTokens: 12 });
});

test("what continues a forgotten block goes with it, and is counted apart", () => {
  const traffic = new Traffic({ blocks: 4, evictionPolicy: "true-priority" });
  const ids = Array.from({ length: 13 }, (_, index) => index);
  const table = new BlockTable();
  traffic.cache.allocate(table, 4);
  for (const [index, priority] of [10, 90, 90].entries()) {
    traffic.cache.setRetention(table, index, { priority, durationMs: null });
  }
  traffic.cache.publish(table, new IntList(ids), 12);
  traffic.cache.release(table);
  traffic.pass(2, 1);
  expect(traffic.level(0)).toMatchObject({ forgotten: 1, orphaned: 2 });
});

test("a host block whose contents are on disk is dropped, not forgotten", () => {
  const traffic = new Traffic({ blocks: 3, hostBlocks: 2, diskBlocks: 8, events: "sha256_cbor" });
  for (const seed of [1, 2, 3]) {
    traffic.pass(seed, 2);
    traffic.finishJobs();
  }
  expect(traffic.level(0)).toMatchObject({ offloaded: 4, forgotten: 0 });
  expect(traffic.level(1)).toMatchObject({ offloaded: 4, forgotten: 0, dropped: 2 });
});

test("what came from disk counts as the disk's hit, and the next time as nearer ones'", () => {
  const traffic = new Traffic({ blocks: 3, hostBlocks: 2, diskBlocks: 8, events: "sha256_cbor" });
  for (const seed of [1, 2, 3]) {
    traffic.pass(seed, 2);
    traffic.finishJobs();
  }
  const tokens = Int32Array.from({ length: 9 }, (_, index) => 1000 + index);
  const match = traffic.cache.match("", tokens);
  expect(match.onDisk).toHaveLength(2);
  expect(traffic.cache.startLoad(match, 7)).toBe(true);
  traffic.finishJobs();
  expect(traffic.pass(1, 2)).toBe(8);
  expect(traffic.level(2)).toMatchObject({ onboarded: 2, hitTokens: 8 });
  expect(traffic.level(1)).toMatchObject({ hitTokens: 0 });
  expect(traffic.pass(1, 2)).toBe(8);
  expect(traffic.level(0)).toMatchObject({ hitTokens: 8 });
  expect(traffic.level(2)).toMatchObject({ hitTokens: 8 });
});
