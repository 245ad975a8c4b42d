import { describe, expect, test } from "vitest";
import { IntList } from "#base";
import { type DiskJob, KvCache, type NodeId } from "#kvcache";
import { CacheManager, range, worth } from "../support/cache-manager.ts";

/** Blocks that hold a prompt, and jobs by kind; `drive` ends all that are under way. */
class Disk {
  readonly manager: CacheManager;
  jobs: DiskJob[] = [];

  constructor(diskBlocks = 8, hostBlocks = 4) {
    const shape = { blocks: 4, blockTokens: 4, hostBlocks, diskBlocks };
    this.manager = new CacheManager({ ...shape, events: "v1_block_key" });
  }

  get cache(): KvCache {
    return this.manager.cache;
  }

  /** What is to be done, in the order given. */
  take(): readonly DiskJob[] {
    const jobs = this.cache.takeDiskJobs();
    this.jobs.push(...jobs);
    return jobs;
  }

  /** Ends all jobs; the keys of loads that are complete. */
  finish(ok = true): number[] {
    this.take();
    const loads: number[] = [];
    for (const job of this.jobs.splice(0)) {
      const load = this.cache.finishDiskJob({ job, ok });
      if (load !== null) loads.push(load);
    }
    return loads;
  }

  /** A prompt comes and goes; the log of what a step made known of it. */
  compute(prompt: readonly number[]): IntList {
    const { table, tokens } = this.manager.add(prompt);
    const log = new IntList();
    this.cache.publish(table, tokens, tokens.length - 1, log);
    this.cache.release(table);
    return log;
  }

  /** Other prompts take the place of all that is on the device. */
  press(seed: number): void {
    this.manager.pass(range(seed * 1000, seed * 1000 + 15));
  }

  match(prompt: readonly number[]) {
    return this.cache.match("", Int32Array.from([...prompt, -1]));
  }
}

const kinds = (jobs: readonly DiskJob[]) => jobs.map(({ kind }) => kind);

/** A prompt of four full blocks that is on disk alone. */
function onDisk() {
  const disk = new Disk(12);
  const prompt = range(0, 16);
  disk.manager.pass(prompt.slice(0, 16));
  for (const seed of [1, 2]) {
    disk.press(seed);
    disk.finish();
  }
  return { disk, prompt };
}

describe("writing behind", () => {
  test("[KV32] what reaches host memory is written, and held meanwhile", () => {
    const disk = new Disk();
    disk.manager.pass(range(0, 15));
    disk.press(1);
    const jobs = disk.take();
    expect(kinds(jobs)).toEqual(["write", "write", "write", "write"]);
    expect(disk.cache.poolStats(1).held).toBe(4);
    expect(disk.cache.poolStats(2).held).toBe(4);
    // Host memory has no room while all its blocks are written: nothing is moved there.
    disk.press(2);
    expect(disk.take()).toEqual([]);
    expect(disk.finish()).toEqual([]);
    expect(disk.cache.poolStats(1)).toMatchObject({ held: 0, cached: 4 });
    expect(disk.cache.poolStats(2)).toMatchObject({ held: 0, cached: 4 });
    expect(disk.cache.stats().levels[1]?.offloaded).toBe(4);
  });

  test("[KV32] a host block with a copy on disk makes room without a word to the disk", () => {
    const { disk } = onDisk();
    expect(disk.cache.poolStats(1).cached).toBe(4);
    expect(disk.cache.poolStats(2).cached).toBe(8);
    const match = disk.match(range(0, 14));
    expect(match.blocks).toEqual([]);
    expect(match.onDisk.map((block) => disk.cache.levelOf(block))).toEqual([2, 2, 2]);
  });

  test("[KV32] a write that fails leaves the contents where they are", () => {
    const disk = new Disk();
    disk.manager.pass(range(0, 15));
    disk.press(1);
    disk.finish(false);
    expect(disk.cache.poolStats(2)).toMatchObject({ free: 8 });
    expect(disk.manager.stored(range(0, 14))).toBe(15);
    expect(disk.cache.stats().diskFailures).toBe(4);
  });

  test("[KV32] what is forgotten while it is written is deleted behind it", () => {
    const disk = new Disk();
    const log = disk.compute(range(0, 15));
    disk.press(1);
    disk.take();
    disk.cache.forgetPublished(log);
    expect(disk.manager.stored(range(0, 15))).toBe(0);
    expect(disk.finish()).toEqual([]);
    expect(kinds(disk.take())).toEqual(["delete", "delete", "delete"]);
    expect(disk.cache.poolStats(2)).toMatchObject({ free: 8 });
  });

  test("[KV32] a file is not deleted while the same contents are written anew", () => {
    const disk = new Disk(20, 20);
    const log = disk.compute(range(0, 15));
    disk.press(1);
    disk.cache.forgetPublished(log);
    disk.compute(range(0, 15));
    disk.press(2);
    const writes = disk.take().filter(({ kind }) => kind === "write");
    const keys = writes.map(({ file }) => file.key);
    const twice = keys.filter((key, at) => keys.indexOf(key) !== at);
    expect(twice.length).toBeGreaterThan(0);
    disk.finish();
    const deleted = disk.take().map(({ file }) => file.key);
    for (const key of twice) expect(deleted).not.toContain(key);
  });

  test("[KV32] a file that nothing leads to is deleted though the write behind it fails", () => {
    for (const forgetsBoth of [false, true]) {
      const disk = new Disk(20, 20);
      const logs = [disk.compute(range(0, 15))];
      disk.press(1);
      disk.cache.forgetPublished(logs[0] ?? new IntList());
      logs.push(disk.compute(range(0, 15)));
      disk.press(2);
      if (forgetsBoth) disk.cache.forgetPublished(logs[1] ?? new IntList());
      const writes = disk.take().filter(({ kind }) => kind === "write");
      const keys = writes.map(({ file }) => file.key);
      const twice = keys.filter((key, at) => keys.indexOf(key) !== at);
      for (const [at, job] of writes.entries()) {
        disk.cache.finishDiskJob({ job, ok: keys.indexOf(job.file.key) === at });
      }
      const deleted = disk.cache.takeDiskJobs().map(({ file }) => file.key);
      for (const key of twice) expect(deleted.filter((one) => one === key)).toEqual([key]);
      disk.cache.audit([]);
    }
  });

  test("[KV14] forgetting everything deletes the files", () => {
    const { disk } = onDisk();
    expect(disk.cache.reset()).toBe(true);
    expect(kinds(disk.take())).toEqual(Array.from({ length: 8 }, () => "delete"));
  });
});

describe("reading back", () => {
  test("[KV32] a load reads what is on disk alone, and ends with its last block", () => {
    const { disk, prompt } = onDisk();
    const match = disk.match(prompt.slice(0, 15));
    expect(disk.cache.startLoad(match, 7)).toBe(true);
    const jobs = disk.take();
    expect(kinds(jobs)).toEqual(["read", "read", "read"]);
    expect(jobs.map(({ disk: block }) => block)).toEqual(match.onDisk);
    expect(disk.finish()).toEqual([7]);
    expect(disk.match(prompt.slice(0, 15)).blocks.length).toBe(3);
    expect(disk.cache.poolStats(2).cached).toBe(8);
    expect(disk.cache.stats().levels[2]?.onboarded).toBe(3);
  });

  test("[KV32] a read that fails costs the copy, and all that continues it", () => {
    const { disk, prompt } = onDisk();
    disk.cache.startLoad(disk.match(prompt.slice(0, 15)), 1);
    expect(disk.finish(false)).toEqual([1]);
    expect(disk.match(prompt.slice(0, 15)).onDisk).toEqual([]);
    expect(kinds(disk.take()).every((kind) => kind === "delete")).toBe(true);
    disk.cache.audit([]);
  });

  test("[KV32] a read that the system refuses leaves the copy where it is", () => {
    const { disk, prompt } = onDisk();
    const before = disk.match(prompt.slice(0, 15)).onDisk;
    disk.cache.startLoad(disk.match(prompt.slice(0, 15)), 1);
    for (const job of disk.take()) disk.cache.finishDiskJob({ job, ok: false, unreadable: true });
    disk.jobs = [];
    expect(disk.match(prompt.slice(0, 15)).onDisk).toEqual(before);
    expect(disk.take()).toEqual([]);
    expect(disk.cache.stats().diskFailures).toBe(before.length);
    disk.cache.audit([]);
  });

  test("[KV32] two loads of the same blocks both end", () => {
    const { disk, prompt } = onDisk();
    const match = disk.match(prompt.slice(0, 7));
    expect(disk.cache.startLoad(match, 1)).toBe(true);
    expect(disk.cache.startLoad(match, 2)).toBe(true);
    expect(disk.finish()).toEqual([1, 2]);
    expect(disk.cache.poolStats(1).held).toBe(0);
    expect(disk.match(prompt.slice(0, 7)).blocks.length).toBe(1);
  });

  test("[KV43] a load takes no room from the prefix that it continues", () => {
    const { disk, prompt } = onDisk();
    // Two of the four host blocks are a sequence's, one has the prefix: one is left to make room.
    const holder = disk.manager.add(range(5000, 5007));
    disk.finish();
    expect(disk.cache.swapOut([holder.table])).toBe(true);
    disk.cache.startLoad(disk.match(prompt.slice(0, 7)), 1);
    disk.finish();
    const match = disk.match(prompt.slice(0, 15));
    expect([match.blocks.length, match.onDisk.length]).toEqual([1, 2]);
    expect(disk.cache.startLoad(match, 2)).toBe(true);
    disk.cache.audit([holder.table]);
    expect(disk.finish()).toEqual([2]);
    expect(disk.match(prompt.slice(0, 15)).blocks.length).toBe(2);
    disk.cache.audit([holder.table]);
  });

  test("[KV32] nothing is read where host memory has no room", () => {
    const { disk, prompt } = onDisk();
    const holder = disk.manager.add(range(5000, 5015));
    disk.finish();
    expect(disk.cache.swapOut([holder.table])).toBe(true);
    expect(disk.cache.startLoad(disk.match(prompt.slice(0, 7)), 1)).toBe(false);
    expect(disk.cache.startLoad(disk.match([]), 1)).toBe(false);
  });
});

describe("leases", () => {
  const lease = { retention: worth(91, { durationMs: 60 }) };

  /** Leased contents in host memory, offloaded at 20, whose writes end at 30. */
  function written() {
    const disk = new Disk(12);
    disk.manager.pass(range(0, 7), lease);
    disk.cache.advance(20);
    disk.manager.pass(range(1000, 1015), { retention: worth(95) });
    const jobs = disk.take();
    disk.cache.advance(30);
    disk.finish();
    return { disk, jobs };
  }

  test("[KV36] time runs on while a block is written, and ends in host memory", () => {
    const { disk } = written();
    disk.cache.advance(59);
    const [block] = disk.match(range(0, 7)).blocks;
    if (block === undefined) throw new Error("Nothing moved");
    expect([disk.cache.levelOf(block), disk.cache.priorityOf(block)]).toEqual([1, 91]);
    disk.cache.advance(60);
    expect(disk.cache.priorityOf(block)).toBe(35);
    expect(disk.cache.stats().levels.map(({ expired }) => expired)).toEqual([0, 2, 0]);
  });

  test("[KV36] what has an end is worth 35 on disk, and what has none what it was worth", () => {
    const { jobs } = written();
    const worths = jobs.map((job) => job.kind === "write" && job.file.priority);
    expect(worths.length).toBeGreaterThan(0);
    expect(new Set(worths)).toEqual(new Set([35]));

    const disk = new Disk(12);
    disk.manager.pass(range(0, 7), { retention: worth(91) });
    disk.manager.pass(range(1000, 1015), { retention: worth(95) });
    const [job] = disk.take();
    expect(job?.file.priority).toBe(91);
  });
});

describe("a restart", () => {
  /** What a run left on disk, parents first. */
  function left() {
    const { disk, prompt } = onDisk();
    const match = disk.match(prompt.slice(0, 15));
    disk.cache.startLoad(match, 1);
    return { files: disk.take().map(({ file }) => file), prompt };
  }

  const next = () =>
    new KvCache({
      blocks: 4,
      blockTokens: 4,
      hostBlocks: 4,
      diskBlocks: 8,
      events: "v1_block_key",
    });

  test("[KV42] finds what was left, on disk", () => {
    const { files, prompt } = left();
    const cache = next();
    let parent: NodeId | null = null;
    for (const file of files) parent = cache.restore(file, parent);
    expect(parent).not.toBeNull();
    expect(cache.match("", Int32Array.from(prompt)).onDisk.length).toBe(3);
    cache.audit([]);
  });

  test("[KV42] takes no file that is not what its name says", () => {
    const { files } = left();
    const [file] = files;
    if (file === undefined) throw new Error("Nothing was left");
    const cache = next();
    cache.takeEvents();
    expect(cache.restore({ ...file, tokens: Int32Array.of(1, 2, 3, 9) }, null)).toBeNull();
    expect(cache.restore({ ...file, scope: "other" }, null)).toBeNull();
    expect(cache.restore({ ...file, tokens: new Int32Array(5) }, null)).toBeNull();
    expect(cache.restore({ ...file, tokens: new Int32Array(0) }, null)).toBeNull();
    expect(cache.poolStats(2)).toMatchObject({ free: 8 });
    expect(cache.takeDiskJobs()).toEqual([]);
    const place = cache.restore(file, null);
    expect(place).not.toBeNull();
    expect(cache.restore(file, null)).toBeNull();
    expect(cache.restore(file, place)).toBeNull();
    cache.audit([]);
  });

  test("[KV42] takes no more than there is room for, and nothing without a disk", () => {
    const { files } = left();
    const [file] = files;
    if (file === undefined) throw new Error("Nothing was left");
    expect(new KvCache({ blocks: 4, blockTokens: 4 }).restore(file, null)).toBeNull();
    const small = new KvCache({ blocks: 4, blockTokens: 4, hostBlocks: 1, diskBlocks: 1 });
    const place = small.restore(file, null);
    expect(place).not.toBeNull();
    const [, second] = files;
    expect(second === undefined ? null : small.restore(second, place)).toBeNull();
  });
});
