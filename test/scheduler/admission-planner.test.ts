import { describe, expect, test } from "vitest";
import type { DiskJob } from "#kvcache";
import { sequenceId } from "#scheduler";
import { counts, distinct, Harness, type HarnessOptions, idOf, sequences } from "./harness.ts";

const partial = (options: HarnessOptions = {}): Harness =>
  new Harness({ blocks: 10, blockTokens: 4, partialReuse: true, ...options });

const once = { stop: { maxTokens: 1 } };

describe("[SC22] the start of a stored block", () => {
  test("an unheld leaf is taken over, and the next one of the step computes", () => {
    const harness = partial();
    const [a, b, c] = [distinct(1, 6), distinct(2, 1), distinct(3, 1)];
    harness.add([...a, 5, 5], once);
    harness.step();
    const first = harness.add([...a, ...b, ...b]);
    const second = harness.add([...a, ...c, ...c]);
    const plan = harness.begin();
    expect(plan.items.map(({ sequence, start }) => [sequence, start])).toEqual([
      [first, 6],
      [second, 4],
    ]);
    expect(harness.cache.takeMoves()).toEqual([]);
    expect([first.cachedTokens, second.cachedTokens]).toEqual([6, 4]);
  });

  test("a block that an earlier sequence of the step claims is copied", () => {
    const harness = partial();
    const prompt = distinct(1, 9);
    harness.add(prompt, once);
    harness.step();
    harness.add([...prompt, 1]);
    harness.add([...prompt.slice(0, 6), 5, 5, 5]);
    const plan = harness.begin();
    expect(plan.items.map(({ start }) => start)).toEqual([9, 6]);
    expect(harness.cache.takeMoves().map(({ kind }) => kind)).toEqual(["copy"]);
  });

  test("a whole block that an earlier sequence takes over is not found by a later one", () => {
    const harness = partial();
    const prompt = distinct(1, 8);
    harness.add(prompt, once);
    harness.step();
    harness.add([...prompt.slice(0, 6), 5, 5, 5]);
    harness.add([...prompt, 2]);
    const plan = harness.begin();
    expect(plan.items.map(({ start }) => start)).toEqual([6, 4]);
  });

  test("what does not fit with a copy is tried without", () => {
    const tight = (others: number) => {
      const harness = partial({ blocks: 4 });
      const prompt = distinct(1, 12);
      harness.add(prompt, once);
      harness.step();
      for (let other = 0; other < others; other++) harness.add(distinct(2, 2));
      harness.step();
      harness.add([...prompt.slice(0, 6), 9, 9, 9]);
      return harness.step().items.at(-1)?.start;
    };
    // The first block, a copied one and its source, and one behind them; or three blocks.
    expect(tight(0)).toBe(6);
    expect(tight(1)).toBe(4);
  });
});

describe("[SC23] tails", () => {
  test("a second turn computes what the first did not", () => {
    const harness = partial({ blocks: 50 });
    const first = harness.add(distinct(1, 10), { stop: { maxTokens: 8 } });
    harness.drain();
    const second = harness.add([...first.tokens.view(), 5]);
    // Of 18 tokens the last one was drawn, never computed.
    expect(counts(harness.step())).toEqual([2]);
    expect(second.cachedTokens).toBe(17);
  });

  test("of a sequence that is aborted while it is computed only full blocks are stored", () => {
    const harness = partial();
    const prompt = distinct(1, 10);
    const sequence = harness.add(prompt);
    const plan = harness.begin();
    harness.scheduler.abort(sequence.id);
    harness.commit(plan);
    expect(harness.cache.match("", Int32Array.from([...prompt, 1])).tokens).toBe(8);
  });

  test("of one that is aborted between steps the tail is, too", () => {
    const harness = partial();
    const prompt = distinct(1, 10);
    const sequence = harness.add(prompt);
    harness.step();
    harness.scheduler.abort(sequence.id);
    expect(harness.cache.match("", Int32Array.from([...prompt, 1])).tokens).toBe(10);
  });

  test("a step that fails leaves none", () => {
    const harness = partial();
    const prompt = distinct(1, 10);
    harness.add(prompt);
    harness.scheduler.fail(harness.begin());
    expect(harness.cache.match("", Int32Array.from([...prompt, 1])).tokens).toBe(0);
  });
});

describe("[SC25] what is on disk", () => {
  /** A prompt of five blocks whose last ones lie on disk alone. */
  const withDisk = (options: HarnessOptions = {}) => {
    const harness = new Harness({
      ...{ blocks: 6, hostBlocks: 8, diskBlocks: 30, blockTokens: 4, ...options },
    });
    const jobs: DiskJob[] = [];
    const work = () => {
      jobs.push(...harness.cache.takeDiskJobs());
      for (const job of jobs.splice(0)) {
        if (job.kind === "delete") continue;
        const key = harness.cache.finishDiskJob({ job, ok: true });
        if (key !== null) harness.scheduler.loadDone(sequenceId(key));
      }
    };
    const prompt = distinct(1, 21);
    harness.add(prompt, once);
    harness.step();
    for (let seed = 2; seed < 5; seed++) {
      harness.add(distinct(seed, 21), once);
      harness.step();
      work();
    }
    return { harness, prompt, work };
  };

  test("is fetched before the sequence starts, and those behind pass", () => {
    const { harness, prompt, work } = withDisk();
    const stored = harness.cache.match("", Int32Array.from(prompt));
    expect(stored.onDisk.length).toBeGreaterThan(0);
    const waiting = harness.add(prompt, once);
    const other = harness.add(distinct(9, 3));
    const plan = harness.step();
    expect(plan.loads).toMatchObject([{ sequence: waiting }]);
    expect(sequences(plan)).toEqual([other]);
    expect(waiting.state).toEqual({ phase: "waiting", for: "load" });
    expect(sequences(harness.step())).toEqual([other]);
    work();
    expect(waiting.state).toEqual({ phase: "waiting", for: "turn" });
    harness.scheduler.abort(other.id);
    const started = harness.step();
    expect(sequences(started)).toEqual([waiting]);
    expect(waiting.cachedTokens).toBeGreaterThan(0);
    expect(harness.scheduler.stats().loads).toBe(1);
  });

  test("is not fetched where computing is quicker", () => {
    const { harness, prompt } = withDisk({
      estimates: { recomputeMs: () => 1, swapMs: () => 1, loadPays: ({ level }) => level < 2 },
    });
    const sequence = harness.add(prompt, once);
    expect(harness.step().items).toMatchObject([{ sequence }]);
    expect(harness.scheduler.stats().loads).toBe(0);
  });

  test("a sequence that goes while it waits is forgotten, and its load ends unheard", () => {
    const { harness, prompt, work } = withDisk();
    const sequence = harness.add(prompt, once);
    harness.step();
    harness.scheduler.abort(idOf(sequence));
    work();
    expect(harness.scheduler.stats().waiting).toBe(0);
    expect(harness.cache.poolStats(1).held).toBe(0);
  });

  test("contents of host memory that are slower to move than to compute are computed", () => {
    const harness = new Harness({
      ...{ blocks: 6, hostBlocks: 10, blockTokens: 4 },
      estimates: { recomputeMs: () => 1, swapMs: () => 1, loadPays: () => false },
    });
    const prompt = distinct(1, 21);
    harness.add(prompt, once);
    harness.step();
    harness.add(distinct(2, 21), once);
    harness.step();
    const again = harness.add(prompt, once);
    expect(harness.cache.match("", Int32Array.from(prompt)).tokens).toBe(20);
    harness.step();
    expect(again.cachedTokens).toBe(0);
  });
});
