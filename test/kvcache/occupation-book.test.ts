/** How long sequences hold how many blocks of the device: exact, on a clock of the test's. */
import { describe, expect, test } from "vitest";
import { TokenList } from "#base";
import { seededRng } from "#cluster/routing";
import { BlockTable, KvCache, type KvCacheShape, Occupation, type PeerJob } from "#kvcache";
import { Harness } from "../scheduler/harness.ts";
import { range } from "../support/cache-manager.ts";

const BLOCK = 4;

/** A cache whose time is set by the test. */
class Timed {
  nowMs = 1000;
  readonly cache: KvCache;

  constructor(shape: Partial<KvCacheShape> = {}) {
    const sizes = { blocks: 16, hostBlocks: 16, blockTokens: BLOCK, ...shape };
    this.cache = new KvCache({ ...sizes, nowMs: () => this.nowMs });
  }

  /** Block milliseconds of a table up to now. */
  of(table: BlockTable): number {
    return table.occupation.blockMsAt(this.nowMs);
  }

  get totalBlockMs(): number {
    return this.cache.stats().heldBlockMs;
  }

  /** A prompt that another sequence computed is stored. */
  store(tokens: readonly number[]): void {
    const table = new BlockTable();
    this.cache.allocate(table, tokens.length / BLOCK);
    const source = new TokenList(Int32Array.from(tokens));
    this.cache.publish(table, source, tokens.length);
    this.cache.release(table);
  }
}

describe("tables", () => {
  test("[KV66] blocks times the time that they were held, to the millisecond", () => {
    const timed = new Timed();
    const { cache } = timed;
    const table = new BlockTable();
    cache.allocate(table, 2);
    timed.nowMs += 10;
    cache.allocate(table, 1);
    timed.nowMs += 5;
    cache.shrink(table, 1);
    timed.nowMs += 100;
    expect(timed.of(table)).toBe(2 * 10 + 3 * 5 + 100);
    cache.release(table);
    timed.nowMs += 1000;
    expect(timed.of(table)).toBe(135);
    expect(timed.totalBlockMs).toBe(135);
  });

  test("[KV66] a shared block counts fully for each that holds it", () => {
    const timed = new Timed();
    const { cache } = timed;
    const [parent, child] = [new BlockTable(), new BlockTable()];
    cache.allocate(parent, 3);
    timed.nowMs += 10;
    cache.fork(parent, child);
    timed.nowMs += 10;
    cache.makeWritable(child, 2 * BLOCK);
    timed.nowMs += 10;
    expect([timed.of(parent), timed.of(child)]).toEqual([90, 60]);
    cache.release(parent);
    cache.release(child);
    expect(timed.totalBlockMs).toBe(150);
  });

  test("[KV66] what is in host memory takes nothing of the device", () => {
    const timed = new Timed();
    const { cache } = timed;
    const table = new BlockTable();
    cache.allocate(table, 4);
    timed.nowMs += 10;
    expect(cache.swapOut([table])).toBe(true);
    timed.nowMs += 1000;
    expect(cache.swapIn([table])).toBe(true);
    timed.nowMs += 10;
    cache.release(table);
    expect(timed.of(table)).toBe(80);
  });

  test("[KV66] blocks of all groups of layers count, those that left a window do not", () => {
    const windows = [null, { tokens: 4, sinkTokens: 0 }];
    const timed = new Timed({ windows });
    const { cache } = timed;
    const table = new BlockTable();
    cache.allocate(table, 3);
    timed.nowMs += 10;
    cache.dropLeading(table, 11);
    timed.nowMs += 10;
    expect(timed.of(table)).toBe(6 * 10 + (3 + 1) * 10);
  });

  test("[KV66] preemption ends what is held, and a return goes on with the same figure", () => {
    const harness = new Harness({ blocks: 8, blockTokens: BLOCK });
    const sequence = harness.add(range(1, 3 * BLOCK));
    const at = (nowMs: number) => {
      harness.nowMs = nowMs;
      const plan = harness.scheduler.plan();
      harness.scheduler.begin(plan, nowMs);
      const tokens = plan.items.map(({ samples }) => (samples ? [7] : []));
      harness.scheduler.commit(plan, tokens, nowMs);
    };
    const { occupation } = sequence.blockTable;
    at(100);
    expect(occupation.blockMsAt(110)).toBe(30);
    // The time of a preemption is that of the step in which it is decided.
    harness.cache.advance(110);
    harness.scheduler.preemptAll();
    expect(occupation.blockMsAt(5000)).toBe(30);
    at(5000);
    expect(occupation.blockMsAt(5010)).toBe(30 + 10 * 4);
  });

  test("[KV66] a clock that goes back takes nothing away", () => {
    const occupation = new Occupation();
    occupation.note("table", 2, 100);
    occupation.note("table", 2, 110);
    occupation.note("table", 2, 50);
    expect(occupation.blockMsAt(40)).toBe(20);
    expect(occupation.blockMsAt(60)).toBe(40);
  });

  test.each([1, 2, 3])("[KV66] equals what a scan of all tables counts (seed %i)", (seed) => {
    const rng = seededRng(seed);
    const below = (count: number) => Math.floor(rng.next() * count);
    const timed = new Timed({ blocks: 24 });
    const { cache } = timed;
    const tables = Array.from({ length: 5 }, () => new BlockTable());
    const expected = tables.map(() => 0);
    const heldBy = (table: BlockTable) =>
      [...table.view()].filter((_, index) => table.holds(index) && !table.swapped).length;
    for (let turn = 0; turn < 400; turn++) {
      const passed = below(20);
      for (const [place, table] of tables.entries()) {
        expected[place] = (expected[place] ?? 0) + passed * heldBy(table);
      }
      timed.nowMs += passed;
      const table = tables[below(5)] ?? new BlockTable();
      const other = tables[below(5)] ?? new BlockTable();
      const draw = below(100) / 100;
      if (table.swapped) cache.swapIn([table]);
      else if (draw < 0.4) cache.allocate(table, 1 + below(3));
      else if (draw < 0.5 && table.length === 0 && !other.swapped) cache.fork(other, table);
      else if (draw < 0.6) cache.shrink(table, Math.floor(table.length / 2));
      else if (draw < 0.7 && table.length > 0) cache.swapOut([table]);
      else if (draw < 0.9) cache.release(table);
      expect(tables.map((one) => timed.of(one))).toEqual(expected);
    }
    for (const table of tables) cache.release(table);
    expect(timed.totalBlockMs).toBe(expected.reduce((sum, one) => sum + one, 0));
  });
});

describe("transfers", () => {
  const prompt = range(1, 16);
  const lookUp = { scope: "", keys: null, tokens: Int32Array.from(prompt) };

  /** Ends all jobs of the cache's transfers. */
  function finish(cache: KvCache): void {
    cache.takeMoves();
    for (const job of cache.peers.takeJobs() as PeerJob[]) cache.peers.finish({ job, ok: true });
  }

  test("[KV67] blocks that come for a sequence count once, until it holds them itself", () => {
    const timed = new Timed();
    const { cache } = timed;
    const occupation = new Occupation();
    const table = new BlockTable("", null, occupation);
    const { receives } = cache.peers;
    expect(receives.start(7, lookUp, { from: 0, to: 3, level: "device", occupation })).toBe(3);
    timed.nowMs += 10;
    finish(cache);
    timed.nowMs += 10;
    cache.adopt(table, cache.match("", Int32Array.from([...prompt, 99])));
    cache.allocate(table, 1);
    timed.nowMs += 10;
    receives.end(7);
    timed.nowMs += 10;
    cache.release(table);
    expect(timed.of(table)).toBe(3 * 20 + 4 * 20);
  });

  test("[KV67] blocks that come to host memory take nothing of the device", () => {
    const timed = new Timed();
    const occupation = new Occupation();
    const { receives } = timed.cache.peers;
    receives.start(7, lookUp, { from: 0, to: 3, level: "host", occupation });
    timed.nowMs += 10;
    finish(timed.cache);
    receives.end(7);
    expect(occupation.blockMsAt(timed.nowMs)).toBe(0);
  });

  test.each([
    ["device", 4 * 10],
    ["host", 0],
  ] as const)("[KV67] blocks held to be sent from the %s count", (level, expected) => {
    const timed = new Timed();
    const { cache } = timed;
    timed.store(prompt);
    const occupation = new Occupation();
    const { sends } = cache.peers;
    sends.start(7, { prompt: lookUp, from: 0, level, occupation });
    expect(sends.advance(7, 4)).toBe(4);
    timed.nowMs += 10;
    finish(cache);
    sends.end(7);
    timed.nowMs += 10;
    expect(occupation.blockMsAt(timed.nowMs)).toBe(expected);
    cache.audit([]);
  });

  test("[KV67] blocks that are sent while no request waits hold nothing of the device", () => {
    const timed = new Timed();
    const { cache } = timed;
    timed.store(prompt);
    const occupation = new Occupation();
    const { sends } = cache.peers;
    sends.start(7, { prompt: lookUp, from: 0, level: "host", isSpare: true, occupation });
    for (let turn = 0; turn < 8; turn++) {
      expect(sends.advance(7, 4)).toBe(4);
      timed.nowMs += 10;
      finish(cache);
    }
    expect(sends.progress(7)).toEqual({ onTheWay: 0, sent: 4 });
    sends.end(7);
    timed.nowMs += 10;
    expect(occupation.blockMsAt(timed.nowMs)).toBe(0);
    cache.audit([]);
  });

  test("[KV67] a transfer that fails, or gives its blocks back, stops counting", () => {
    const timed = new Timed();
    const { cache } = timed;
    const occupation = new Occupation();
    const { receives } = cache.peers;
    receives.start(7, lookUp, { from: 0, to: 3, level: "device", occupation });
    timed.nowMs += 10;
    const jobs = cache.peers.takeJobs();
    for (const job of jobs) cache.peers.finish({ job, ok: job.piece === 0 });
    timed.nowMs += 10;
    expect(receives.yieldDevice()).toBe(true);
    timed.nowMs += 1000;
    receives.end(7);
    expect(occupation.blockMsAt(timed.nowMs)).toBe(3 * 10 + 10);
    cache.audit([]);
  });
});
