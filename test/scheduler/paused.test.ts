import { describe, expect, test } from "vitest";
import { isEmptyPlan } from "#scheduler";
import { counts, distinct, Harness, preempted, sequences } from "./harness.ts";

const OUTPUT = { stop: { maxTokens: 1000 } };

/** Two requests that decode, the first of them paused. */
function pausedFirst(harness: Harness) {
  const paused = harness.add(distinct(1, 8), OUTPUT);
  const good = harness.add(distinct(2, 8), OUTPUT);
  harness.step();
  harness.scheduler.pause(paused.group);
  return { paused, good };
}

describe("[SC27] a paused group computes nothing", () => {
  test("it holds its blocks and its place, and goes on where it was", () => {
    const harness = new Harness();
    const { paused, good } = pausedFirst(harness);
    const held = paused.blockTable.length;
    for (let step = 0; step < 40; step++) expect(sequences(harness.step())).toEqual([good]);
    expect(paused.blockTable.length).toBe(held);
    expect(paused.generatedTokens).toBe(1);
    expect(harness.scheduler.stats()).toMatchObject({ running: 2, paused: 1 });
    harness.scheduler.resume(paused.group);
    expect(sequences(harness.step())).toEqual([paused, good]);
    expect(harness.scheduler.stats()).toMatchObject({ running: 2, paused: 0 });
  });

  test("nothing is planned where all are paused, so that the engine sleeps", () => {
    const harness = new Harness();
    const sequence = harness.add(distinct(1, 8), OUTPUT);
    harness.step();
    harness.scheduler.pause(sequence.group);
    expect(isEmptyPlan(harness.scheduler.plan())).toBe(true);
  });

  test("tokens of steps under way arrive, and only these", () => {
    const harness = new Harness({ overlapSteps: true });
    const sequence = harness.add(distinct(1, 8), OUTPUT);
    const first = harness.begin();
    const second = harness.begin();
    harness.scheduler.pause(sequence.group);
    harness.commit(first);
    harness.commit(second);
    expect(sequence.generatedTokens).toBe(2);
    expect(harness.step().items).toEqual([]);
    harness.scheduler.resume(sequence.group);
    expect(counts(harness.step())).toEqual([1]);
    expect(sequence.generatedTokens).toBe(3);
  });

  test("all samples of a request pause, those that wait for a seat too", () => {
    const harness = new Harness({ runningSequencesMax: 2 });
    const group = harness.addGroup(distinct(1, 8), 3, OUTPUT);
    harness.step();
    expect(harness.scheduler.stats()).toMatchObject({ running: 2, waiting: 1 });
    harness.scheduler.pause(group);
    expect(harness.scheduler.stats().paused).toBe(3);
    expect(isEmptyPlan(harness.scheduler.plan())).toBe(true);
    harness.scheduler.resume(group);
    expect(sequences(harness.step())).toHaveLength(2);
  });

  test("searches go on: they have no reader before their end", () => {
    const harness = new Harness();
    const group = harness.addGroup(distinct(1, 8), 2, { kind: "beams", stop: { maxTokens: 9 } });
    harness.scheduler.pause(group);
    expect(group.paused).toBe(false);
    expect(harness.begin().items).toHaveLength(2);
  });

  test("a paused request that waits is passed, and keeps its place", () => {
    const harness = new Harness({ runningSequencesMax: 1 });
    const paused = harness.add(distinct(1, 8), OUTPUT);
    const other = harness.add(distinct(2, 8), { stop: { maxTokens: 2 } });
    const last = harness.add(distinct(3, 8), OUTPUT);
    harness.scheduler.pause(paused.group);
    expect(sequences(harness.step())).toEqual([other]);
    harness.scheduler.resume(paused.group);
    harness.step();
    expect(sequences(harness.step())).toEqual([paused]);
    expect(last.state.phase).toBe("waiting");
  });

  test("one that ends while it is paused leaves nothing", () => {
    const harness = new Harness();
    const { paused, good } = pausedFirst(harness);
    harness.scheduler.abort(paused.id);
    harness.scheduler.abort(good.id);
    expect(harness.scheduler.stats()).toMatchObject({ running: 0, paused: 0, heldBlocks: 0 });
    harness.scheduler.resume(paused.group);
    harness.scheduler.audit();
  });
});

describe("[SC28] paused groups are preempted", () => {
  const small = { blocks: 6, blockTokens: 4, prefixCaching: false, returnHeadroomBlocks: 0 };

  test("when blocks run out, though they started first; and come back when they are read", () => {
    const harness = new Harness(small);
    const { paused, good } = pausedFirst(harness);
    const steps = Array.from({ length: 9 }, () => harness.step());
    expect(steps.flatMap(preempted)).toEqual([paused]);
    expect(sequences(harness.step())).toEqual([good]);
    expect(paused.state).toEqual({ phase: "waiting", for: "turn" });
    harness.scheduler.abort(good.id);
    expect(harness.step().items).toEqual([]);
    harness.scheduler.resume(paused.group);
    expect(harness.step().items).toMatchObject([{ sequence: paused, count: 9 }]);
  });

  test.each(["fcfs", "priority"] as const)("whatever the policy: %s", (policy) => {
    const harness = new Harness({ ...small, policy });
    const urgent = harness.add(distinct(1, 8), { ...OUTPUT, priority: 0 });
    harness.add(distinct(2, 8), { ...OUTPUT, priority: 9 });
    harness.step();
    harness.scheduler.pause(urgent.group);
    const steps = Array.from({ length: 9 }, () => harness.step());
    expect(steps.flatMap(preempted)).toEqual([urgent]);
  });

  test("their contents wait in host memory where preempted ones do", () => {
    const harness = new Harness({ ...small, hostBlocks: 8, preemption: "swap" });
    const { paused, good } = pausedFirst(harness);
    for (let step = 0; step < 9; step++) harness.step();
    expect(paused.blockTable.swapped).toBe(true);
    for (let step = 0; step < 3; step++) expect(harness.step().returning).toEqual([]);
    harness.scheduler.abort(good.id);
    expect(harness.step().returning).toEqual([]);
    harness.scheduler.resume(paused.group);
    expect(harness.step()).toMatchObject({ returning: [paused], items: [{ count: 1 }] });
  });

  test("when a request waits for a seat: it is free a step later", () => {
    const harness = new Harness({ runningSequencesMax: 3 });
    const stalled = [1, 2, 3].map((seed) => harness.add(distinct(seed, 8), OUTPUT));
    harness.step();
    for (const { group } of stalled) harness.scheduler.pause(group);
    const good = [4, 5].map((seed) => harness.add(distinct(seed, 8), OUTPUT));
    expect(preempted(harness.step())).toEqual([stalled[2], stalled[1]]);
    expect(sequences(harness.step())).toEqual(good);
    expect(harness.scheduler.stats()).toMatchObject({ running: 3, waiting: 2, paused: 3 });
  });

  test("when a request waits for blocks", () => {
    const harness = new Harness(small);
    const paused = harness.add(distinct(1, 16), OUTPUT);
    harness.step();
    harness.scheduler.pause(paused.group);
    const good = harness.add(distinct(2, 12), OUTPUT);
    expect(preempted(harness.step())).toEqual([paused]);
    expect(sequences(harness.step())).toEqual([good]);
  });

  test("no group is preempted where none waits", () => {
    const harness = new Harness({ runningSequencesMax: 2 });
    const { good } = pausedFirst(harness);
    for (let step = 0; step < 5; step++) expect(preempted(harness.step())).toEqual([]);
    expect(good.generatedTokens).toBe(6);
  });

  test("any number of paused groups leaves room in the queue", () => {
    const harness = new Harness({ runningSequencesMax: 4, waitingSequencesMax: 8 });
    for (let seed = 1; seed <= 200; seed++) {
      const stalled = harness.add(distinct(seed, 4), OUTPUT);
      harness.step();
      if (stalled.state.phase === "waiting") harness.step();
      harness.scheduler.pause(stalled.group);
    }
    expect(harness.scheduler.stats()).toMatchObject({ running: 4, waiting: 196, paused: 200 });
    const good = Array.from({ length: 8 }, (_, index) => harness.add(distinct(2000 + index, 4)));
    expect(() => harness.add(distinct(3000, 4))).toThrow("at most 8 sequences may wait");
    harness.step();
    expect(sequences(harness.step())).toEqual(good.slice(0, 4));
  });
});
