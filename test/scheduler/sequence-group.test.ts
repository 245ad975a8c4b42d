import { describe, expect, test } from "vitest";
import type { Sequence, SequenceGroup } from "#scheduler";
import { counts, distinct, Harness, idOf, preempted, sequences } from "./harness.ts";

/** Block ids of each sequence. */
const tables = (group: SequenceGroup): number[][] =>
  group.sequences.map(({ blockTable }) => [...blockTable.view()]);

const moves = (harness: Harness): string[] =>
  harness.cache.takeMoves().map(({ kind, from, to }) => `${kind} ${from} ${to}`);

describe("[SC16] forks", () => {
  test("the prompt is computed once, and every sequence samples from its last row", () => {
    const harness = new Harness({ stepTokensMax: 64 });
    const group = harness.addGroup(distinct(1, 100), 3);
    expect(counts(harness.step())).toEqual([64]);
    expect(harness.scheduler.stats()).toMatchObject({ running: 1, waiting: 2 });
    const plan = harness.begin();
    expect(plan.items.map(({ start, count, forkOf }) => [start, count, forkOf])).toEqual([
      [64, 36, null],
      [100, 0, 0],
      [100, 0, 0],
    ]);
    expect(plan.tokens).toBe(36);
    expect(harness.scheduler.stats()).toMatchObject({ running: 3, waiting: 0, forks: 2 });
    const [first, second, third] = tables(group);
    expect([second, third]).toEqual([first, first]);
    expect(harness.cache.poolStats().held).toBe(7);
    let token = 0;
    harness.commit(plan, () => [token++]);
    expect(group.sequences.map(({ tokens }) => tokens.get(100))).toEqual([0, 1, 2]);
    expect(sequences(harness.step())).toEqual([...group.sequences]);
  });

  test("V 5.1 (3): of a partly filled block the last holder writes the original", () => {
    const harness = new Harness({ blocks: 3, blockTokens: 4 });
    const group = harness.addGroup(distinct(1, 3), 3);
    harness.step();
    expect(moves(harness)).toEqual([]);
    harness.step();
    const [first, second, third] = tables(group);
    expect(third).toEqual([0]);
    expect(moves(harness)).toEqual([`copy 0 ${first}`, `copy 0 ${second}`]);
    expect(new Set([first, second, third].map(String)).size).toBe(3);
  });

  test("a full last block is never copied", () => {
    const harness = new Harness();
    harness.addGroup(distinct(1, 32), 4);
    harness.step();
    harness.step();
    expect(moves(harness)).toEqual([]);
    expect(harness.cache.poolStats().held).toBe(2 + 4);
  });

  test("seats are kept for sequences that will fork", () => {
    const harness = new Harness({ stepTokensMax: 64, runningSequencesMax: 3 });
    const group = harness.addGroup(distinct(1, 80), 3);
    harness.step();
    const late = harness.add(distinct(2, 10));
    expect(sequences(harness.step())).toEqual([...group.sequences]);
    expect(late.state.phase).toBe("waiting");
  });

  test("more sequences than seats: the others wait in front, and read the prompt", () => {
    const harness = new Harness({ runningSequencesMax: 2 });
    const stop = { maxTokens: 1 };
    const group = harness.addGroup(distinct(1, 40), 5, { stop });
    const behind = harness.add(distinct(2, 10), { stop });
    const steps = harness.drain();
    expect(steps.map(counts)).toEqual([
      [40, 0],
      [8, 8],
      [8, 10],
    ]);
    expect(steps.flatMap(sequences)).toEqual([...group.sequences, behind]);
  });

  test("when the lead goes before the fork, the next takes its place in the queue", () => {
    const harness = new Harness({ runningSequencesMax: 2 });
    const running = harness.add(distinct(1, 10));
    harness.add(distinct(2, 10));
    harness.step();
    const group = harness.addGroup(distinct(3, 10), 2);
    const behind = harness.add(distinct(4, 10));
    const [lead, heir] = group.sequences;
    harness.scheduler.abort(idOf(lead));
    harness.scheduler.audit();
    harness.scheduler.abort(running.id);
    expect(sequences(harness.step())).toContain(heir);
    expect(behind.state.phase).toBe("waiting");
  });

  test("when it goes while it computes, the next goes on with what is stored", () => {
    const harness = new Harness({ stepTokensMax: 32 });
    const group = harness.addGroup(distinct(1, 60), 3);
    harness.step();
    const [lead, heir, last] = group.sequences;
    harness.scheduler.abort(idOf(lead));
    harness.scheduler.audit();
    const plan = harness.step();
    expect(plan.items).toMatchObject([
      { sequence: heir, start: 32, count: 28 },
      { sequence: last, count: 0, forkOf: 0 },
    ]);
  });

  test("one that goes before the fork leaves the others", () => {
    const harness = new Harness();
    const group = harness.addGroup(distinct(1, 20), 3);
    const [lead, second, third] = group.sequences;
    harness.scheduler.abort(idOf(second));
    expect(sequences(harness.step())).toEqual([lead, third]);
  });

  test("[SC13] a step that fails before the fork ends the whole group", () => {
    const harness = new Harness({ stepTokensMax: 32 });
    const group = harness.addGroup(distinct(1, 60), 3);
    const plan = harness.begin();
    expect(harness.scheduler.fail(plan).length).toBe(3);
    harness.scheduler.audit();
    expect(group.live).toEqual([]);
  });

  test("[SC13] a step that fails behind its lead's end leaves the others of the group", () => {
    const harness = new Harness({ stepTokensMax: 32 });
    const group = harness.addGroup(distinct(1, 60), 3);
    const plan = harness.begin();
    harness.scheduler.abort(group.lead.id);
    expect(harness.scheduler.fail(plan)).toEqual([]);
    harness.scheduler.audit();
    expect(group.live.length).toBe(2);
    expect(harness.step().items).toMatchObject([{ sequence: group.lead, start: 0, count: 32 }]);
  });

  test("a group whose grammar is not ready waits as a whole", () => {
    const harness = new Harness();
    const group = harness.addGroup(distinct(1, 20), 2, { awaitsGrammar: true });
    for (const { id } of group.sequences.slice(1)) harness.scheduler.grammarReady(id);
    expect(harness.step().items).toEqual([]);
    harness.scheduler.grammarReady(group.lead.id);
    expect(harness.step().items.length).toBe(2);
  });

  test("[SC8] only the prompt of a lead that skips reading is computed without the cache", () => {
    const harness = new Harness({ runningSequencesMax: 2 });
    const prompt = distinct(1, 40);
    const stop = { maxTokens: 2 };
    harness.add(prompt, { stop });
    harness.step();
    harness.addGroup(prompt, 3, { stop, skipReadingPrefixCache: true });
    expect(harness.drain().map(counts)).toEqual([[1], [40, 0], [1, 1], [8], [1]]);
  });
});

describe("[SC17] copy-on-write", () => {
  test("V 5.3 (V3): fork, then a child appends: one copy, one block more", () => {
    const harness = new Harness({ blocks: 10, blockTokens: 4 });
    const group = harness.addGroup(distinct(1, 3), 2);
    harness.step();
    expect(harness.cache.poolStats().free).toBe(9);
    harness.step();
    expect(harness.cache.poolStats().free).toBe(8);
    const copies = harness.cache.takeMoves();
    expect(copies.length).toBe(1);
    expect(copies[0]?.from).not.toBe(copies[0]?.to);
    const [first, second] = tables(group);
    expect(first).not.toEqual(second);
  });

  test("V 5.3 (V2): inside a block nothing is allocated, behind it one block", () => {
    const harness = new Harness({ blocks: 10, blockTokens: 4 });
    harness.add(distinct(1, 2));
    const free = [1, 2, 3, 4].map(() => {
      harness.step();
      return harness.cache.poolStats().free;
    });
    expect(free).toEqual([9, 9, 9, 8]);
  });

  test("a copy that finds no block preempts a sequence", () => {
    const harness = new Harness({ blocks: 3, blockTokens: 4, prefixCaching: false });
    const group = harness.addGroup(distinct(1, 3), 2);
    const other = harness.add(distinct(2, 5));
    harness.step();
    const plan = harness.step();
    expect(preempted(plan)).toEqual([other]);
    expect(sequences(plan)).toEqual([...group.sequences]);
  });

  test("no copy is planned for the sequence that stays when the other is preempted", () => {
    const harness = new Harness({ blocks: 1, blockTokens: 4, prefixCaching: false });
    const group = harness.addGroup(distinct(1, 3), 2);
    harness.step();
    const plan = harness.step();
    const [first, second] = group.sequences;
    expect(preempted(plan)).toEqual([second]);
    expect(sequences(plan)).toEqual([first]);
    expect(harness.cache.takeMoves()).toEqual([]);
  });
});

describe("[SC6] groups are preempted", () => {
  test("the group that started last, though its forks run behind a later one's lead", () => {
    const harness = new Harness({ blocks: 12, blockTokens: 4, prefixCaching: false });
    const first = harness.addGroup(distinct(1, 8), 2);
    const second = harness.addGroup(distinct(2, 8), 2);
    harness.step();
    let plan = harness.step();
    while (plan.preempted.length === 0) plan = harness.step();
    expect(plan.preempted.map(({ sequences: members }) => members)).toEqual([
      [...second.sequences],
    ]);
    expect(sequences(plan)).toEqual([...first.sequences]);
    expect(harness.scheduler.stats().preemptions).toBe(2);
  });

  test("the only group is preempted one by one, and all sequences end", () => {
    const harness = new Harness({ blocks: 6, blockTokens: 4 });
    const stop = { maxTokens: 12 };
    const group = harness.addGroup(distinct(1, 8), 4, { stop });
    harness.drain();
    const generated = (sequence: Sequence) => sequence.generatedTokens;
    expect(group.sequences.map(generated)).toEqual([12, 12, 12, 12]);
    expect(harness.scheduler.stats().preemptions).toBeGreaterThan(0);
  });

  test("[SC9] by priority a planned group gives all its tokens and copies back", () => {
    const harness = new Harness({
      ...{ policy: "priority", blocks: 5, blockTokens: 4, prefixCaching: false },
    });
    const low = harness.addGroup(distinct(1, 3), 2, { priority: 5 });
    harness.step();
    const high = harness.add(distinct(2, 12), { priority: 0 });
    expect(counts(harness.step())).toEqual([1, 1, 12]);
    const plan = harness.begin();
    expect(preempted(plan)).toEqual([...low.sequences]);
    expect(sequences(plan)).toEqual([high]);
    expect(plan.tokens).toBe(1);
  });
});
