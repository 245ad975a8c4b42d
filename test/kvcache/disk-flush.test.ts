/** What is cached goes to disk at the end: which blocks, in which order, and where they fit. */
import { expect, test } from "vitest";
import { type DiskFlush, type DiskJob, EVICTION_POLICIES, type EvictionPolicyName } from "#kvcache";
import { CacheManager, type ManagedOptions, range, worth } from "../support/cache-manager.ts";

interface Shape {
  readonly blocks?: number;
  readonly hostBlocks?: number;
  readonly diskBlocks?: number;
  readonly evictionPolicy?: EvictionPolicyName;
}

/** A cache whose disk does what it is told at once, and notes in which order. */
class Ending {
  readonly manager: CacheManager;
  /** First tokens of the blocks that were written. */
  readonly written: number[] = [];
  #jobs: DiskJob[] = [];

  constructor({ blocks = 16, hostBlocks = 16, diskBlocks = 64, evictionPolicy }: Shape = {}) {
    const shape = { blocks, blockTokens: 4, hostBlocks, diskBlocks };
    this.manager = new CacheManager({
      ...{ ...shape, events: "v1_block_key" },
      ...(evictionPolicy !== undefined && { evictionPolicy }),
    });
  }

  /** A prompt comes and goes. Its last token is never computed. */
  pass(start: number, blocks: number, options: ManagedOptions = {}): number {
    return this.manager.pass(range(start, start + 4 * blocks), options);
  }

  /** Ends all jobs that there are. */
  endJobs(ok: (job: DiskJob) => boolean = () => true): void {
    this.#jobs.push(...this.manager.cache.takeDiskJobs());
    for (const job of this.#jobs.splice(0)) {
      const done = ok(job);
      if (done && job.kind === "write") this.written.push(job.file.tokens[0] ?? -1);
      this.manager.cache.finishDiskJob({ job, ok: done });
    }
    this.manager.cache.audit([]);
  }

  start(): DiskFlush {
    this.endJobs();
    this.written.length = 0;
    const flush = this.manager.cache.startFlush();
    if (flush === null) throw new Error("There is no disk level");
    this.manager.cache.audit([]);
    return flush;
  }

  /** The whole flush, from start to end. */
  flush(ok?: (job: DiskJob) => boolean) {
    const flush = this.start();
    for (flush.writeSome(); flush.underWay > 0; flush.writeSome()) this.endJobs(ok);
    flush.end();
    this.manager.cache.audit([]);
    expect(this.manager.cache.poolStats(1).held).toBe(0);
    expect(this.manager.cache.poolStats(2).held).toBe(0);
    return flush.counts;
  }

  /** Blocks on disk. */
  onDisk(): number {
    return this.manager.cache.poolStats(2).cached;
  }
}

test("[KV75] all full blocks of the device and of host memory are on disk afterwards", () => {
  const ending = new Ending();
  ending.pass(100, 3);
  ending.manager.pass([...range(200, 209), 210]);
  expect(ending.flush()).toEqual({ written: 5, noRoom: 0, failed: 0, left: 0 });
  // The partly filled last block would never be found by its start.
  expect(ending.written.toSorted()).toEqual([100, 104, 108, 200, 204]);
});

test("[KV75] without a disk level there is nothing to flush", () => {
  expect(new Ending({ diskBlocks: 0 }).manager.cache.startFlush()).toBeNull();
});

test("[KV75] what is on disk already is not written again", () => {
  const ending = new Ending({ blocks: 4 });
  ending.pass(100, 3);
  ending.pass(200, 3);
  ending.endJobs();
  const before = ending.onDisk();
  expect(before).toBeGreaterThan(0);
  const { written } = ending.flush();
  expect(written).toBe(6 - before);
  expect(ending.onDisk()).toBe(6);
});

test("[KV75] blocks that eviction would forget are written only if others continue them", () => {
  const ending = new Ending();
  ending.pass(100, 2, { retention: worth(10) });
  const mixed = {
    ranges: [
      { start: 0, end: 4, priority: 10, durationMs: null },
      { start: 4, end: 8, priority: 50, durationMs: null },
      { start: 8, end: 12, priority: 10, durationMs: null },
    ],
    decodePriority: 10,
    decodeDurationMs: null,
  };
  ending.pass(200, 3, { retention: mixed });
  expect(ending.flush().written).toBe(2);
  expect(ending.written).toEqual([200, 204]);
});

test("[KV75] a priority whose duration is over counts as the cache counts it", () => {
  const ending = new Ending();
  ending.pass(100, 1, { retention: worth(90, { durationMs: 10 }) });
  ending.pass(200, 1, { retention: worth(40) });
  ending.manager.cache.advance(11);
  ending.flush();
  expect(ending.written).toEqual([200, 100]);
});

test("[KV75] salted contents are written with their scope, as ever", () => {
  const ending = new Ending();
  ending.pass(100, 1, { salt: "own" });
  const flush = ending.start();
  flush.writeSome();
  const scopes = ending.manager.cache.takeDiskJobs().map((job) => job.file.scope);
  expect(scopes).toEqual([expect.stringContaining("own")]);
});

test("[KV76] priority first, then the most recently used, and each behind its prefix", () => {
  const ending = new Ending();
  ending.pass(100, 2);
  ending.pass(200, 2, { retention: worth(90) });
  ending.pass(300, 2);
  // Used again: more recent than 300.
  expect(ending.pass(100, 2)).toBe(8);
  ending.flush();
  expect(ending.written).toEqual([200, 204, 100, 104, 300, 304]);
});

test("[KV76] a valued end brings the worthless prefix along, and before it", () => {
  const ending = new Ending();
  const ranges = [{ start: 8, end: 12, priority: 95, durationMs: null }];
  const retention = { ranges, decodePriority: 35, decodeDurationMs: null };
  ending.pass(100, 4, { retention });
  ending.pass(200, 1, { retention: worth(60) });
  ending.flush();
  expect(ending.written).toEqual([100, 104, 108, 200, 112]);
});

test("[KV76] what left the device comes behind what is on it, unless its priority is higher", () => {
  const ending = new Ending({ blocks: 3, hostBlocks: 12 });
  ending.pass(100, 2);
  ending.pass(500, 2, { retention: worth(80) });
  ending.pass(300, 2);
  // The disk refused what left the device, so it is in host memory alone.
  ending.endJobs(() => false);
  expect(ending.onDisk()).toBe(0);
  ending.flush();
  expect(ending.written).toEqual([500, 504, 300, 304, 100, 104]);
});

test("[KV77] what does not fit is what is worth least, and the disk is full of the rest", () => {
  const ending = new Ending({ diskBlocks: 5 });
  ending.pass(100, 3);
  ending.pass(200, 3);
  expect(ending.flush()).toEqual({ written: 5, noRoom: 1, failed: 0, left: 0 });
  expect(ending.written).toEqual([200, 204, 208, 100, 104]);
  expect(ending.onDisk()).toBe(5);
});

test("[KV77] contents that are on the device, too, keep their place on disk", () => {
  const ending = new Ending({ blocks: 6, diskBlocks: 4 });
  ending.pass(100, 2);
  ending.flush();
  expect(ending.written).toEqual([100, 104]);
  ending.pass(200, 3);
  expect(ending.pass(100, 2)).toBe(8);
  // Written first of all, they would be the first to make room.
  expect(ending.flush()).toEqual({ written: 2, noRoom: 1, failed: 0, left: 0 });
  expect(ending.written).toEqual([200, 204]);
  expect(ending.onDisk()).toBe(4);
});

test("[KV77] by priority, nothing of a higher priority leaves the disk for a flush", () => {
  const ending = new Ending({ blocks: 3, hostBlocks: 12, diskBlocks: 2 });
  ending.pass(100, 2, { retention: worth(90) });
  ending.pass(200, 2, { retention: worth(90) });
  ending.endJobs();
  ending.pass(300, 2);
  ending.endJobs();
  const { noRoom } = ending.flush();
  expect(noRoom).toBeGreaterThan(0);
  for (const start of ending.written) expect(start).toBeLessThan(300);
});

test("[KV77] host memory of a few blocks is enough to pass through", () => {
  const ending = new Ending({ blocks: 32, hostBlocks: 2 });
  ending.pass(100, 30);
  expect(ending.flush()).toEqual({ written: 30, noRoom: 0, failed: 0, left: 0 });
  expect(ending.written).toEqual(range(0, 29).map((block) => 100 + 4 * block));
});

test("[KV78] what is not begun when the time is over is left, and few are under way", () => {
  const ending = new Ending({ blocks: 40 });
  ending.pass(100, 30);
  const flush = ending.start();
  flush.writeSome();
  expect(flush.underWay).toBeLessThanOrEqual(8);
  const begun = flush.underWay;
  ending.endJobs();
  flush.end();
  expect(flush.counts).toEqual({ written: begun, noRoom: 0, failed: 0, left: 30 - begun });
  ending.manager.cache.audit([]);
  expect(ending.written).toEqual(range(0, begun - 1).map((block) => 100 + 4 * block));
});

test("[KV78] a block that the disk refuses takes those behind it along, and no others", () => {
  const ending = new Ending({ hostBlocks: 1 });
  ending.pass(100, 4);
  ending.pass(200, 2);
  const refuses104 = (job: DiskJob) => job.file.tokens[0] !== 104;
  expect(ending.flush(refuses104)).toEqual({ written: 3, noRoom: 0, failed: 3, left: 0 });
  expect(ending.written).toEqual([200, 204, 100]);
});

test.each(EVICTION_POLICIES)("[KV76] caches of any size are put in order: %s", (evictionPolicy) => {
  const blocks = 150_000;
  const ending = new Ending({ blocks: blocks + 1, hostBlocks: 8, diskBlocks: 8, evictionPolicy });
  ending.pass(0, blocks);
  const { written } = ending.flush();
  expect(written).toBe(8);
});
