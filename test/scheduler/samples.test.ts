/** A request with many samples beside requests with one. */
import { describe, expect, test } from "vitest";
import { distinct, Harness, type HarnessOptions, preempted, sequences } from "./harness.ts";

const OUTPUT = { stop: { maxTokens: 60 } };

/** Six samples that fill a small pool, and two requests that started behind them. */
function crowded(options: HarnessOptions = {}) {
  const harness = new Harness({ blocks: 24, blockTokens: 4, runningSequencesMax: 16, ...options });
  const many = harness.addGroup(distinct(1, 8), 6, OUTPUT);
  harness.step();
  const stop = { maxTokens: 20 };
  const others = [harness.add(distinct(2, 8), { stop }), harness.add(distinct(3, 8), { stop })];
  return { harness, many, others };
}

describe("[SC6] a group with more than its share is preempted first", () => {
  test.for(["recompute", "swap"] as const)("by %s: its last sample, others go on", (preemption) => {
    const { harness, many, others } = crowded({ preemption, hostBlocks: 64 });
    const gone: unknown[] = [];
    while (others.some(({ finished }) => !finished)) gone.push(...preempted(harness.step()));
    expect(gone.slice(0, 3)).toEqual(many.sequences.slice(3).toReversed());
    expect(gone).not.toContain(many.sequences[0]);
    expect(others.map(({ preemptions }) => preemptions)).toEqual([0, 0]);
    harness.drain();
    expect(many.sequences.map(({ generatedTokens }) => generatedTokens)).toEqual(
      new Array(6).fill(60),
    );
  });

  test("a planned sample gives its tokens and copies back", () => {
    const { harness, many } = crowded({ prefixCaching: false, blocks: 13 });
    while (harness.scheduler.stats().preemptions === 0) harness.step();
    expect(many.sequences.at(-1)?.state.phase).toBe("waiting");
    harness.drain();
  });

  test("a request within its share keeps its samples; the last one is preempted", () => {
    const harness = new Harness({ blocks: 12, blockTokens: 4, prefixCaching: false });
    const pair = harness.addGroup(distinct(1, 4), 2);
    const [first, last] = harness.addLengths(12, 12);
    while (harness.scheduler.stats().preemptions === 0) harness.step();
    expect([...pair.sequences, first, last].map((sequence) => sequence?.preemptions)).toEqual([
      0, 0, 0, 1,
    ]);
  });

  test("[SC9] by priority more urgent samples stay, whatever they hold", () => {
    const harness = new Harness({ policy: "priority", blocks: 24, blockTokens: 4 });
    const many = harness.addGroup(distinct(1, 8), 6, { ...OUTPUT, priority: 0 });
    harness.step();
    const less = harness.add(distinct(2, 8), { ...OUTPUT, priority: 1 });
    while (harness.scheduler.stats().preemptions === 0) harness.step();
    expect(less.preemptions).toBe(1);
    expect(many.sequences.every(({ preemptions }) => preemptions === 0)).toBe(true);
  });
});

describe("[SC5] samples that wait while others of their request run", () => {
  test.for(["recompute", "swap"] as const)("by %s: let others pass", (preemption) => {
    const { harness, many } = crowded({ preemption, hostBlocks: 64 });
    while (harness.scheduler.stats().preemptions === 0) harness.step();
    const newcomer = harness.add(distinct(4, 4), OUTPUT);
    for (let step = 0; step < 10 && newcomer.state.phase === "waiting"; step++) harness.step();
    expect(newcomer.state.phase).toBe("decoding");
    expect(many.sequences.at(-1)?.state.phase).toBe("waiting");
  });

  test("find the next seat when no other group waits", () => {
    const harness = new Harness({ runningSequencesMax: 3 });
    const many = harness.addGroup(distinct(1, 8), 5, { stop: { maxTokens: 4 } });
    harness.step();
    const other = harness.add(distinct(2, 8), OUTPUT);
    for (let step = 0; step < 4; step++) harness.step();
    const plan = harness.step();
    expect(sequences(plan)).toContain(other);
    expect(sequences(plan)).toEqual(expect.arrayContaining(many.sequences.slice(3)));
  });

  test("[SC9] by priority they do not let less urgent ones pass", () => {
    const harness = new Harness({ policy: "priority", runningSequencesMax: 3 });
    const many = harness.addGroup(distinct(1, 8), 5, { stop: { maxTokens: 4 }, priority: 1 });
    harness.step();
    const [less, same] = [2, 1].map((priority) =>
      harness.add(distinct(2 + priority, 8), { ...OUTPUT, priority }),
    );
    for (let step = 0; step < 4; step++) harness.step();
    expect(same?.state.phase).toBe("decoding");
    expect(many.sequences.slice(3).map(({ state }) => state.phase)).toEqual([
      "decoding",
      "decoding",
    ]);
    expect(less?.state.phase).toBe("waiting");
  });
});

describe("samples leave room to other requests", () => {
  test("[SC16] they have three quarters of all seats, also where no other group waits", () => {
    const harness = new Harness({ runningSequencesMax: 8 });
    harness.addGroup(distinct(1, 8), 20, OUTPUT);
    for (let step = 0; step < 5; step++) harness.step();
    expect(harness.scheduler.stats()).toMatchObject({ running: 6, waiting: 14 });
    const others = [2, 3].map((seed) => harness.add(distinct(seed, 8), OUTPUT));
    harness.step();
    expect(others.map(({ state }) => state.phase)).toEqual(["decoding", "decoding"]);
    harness.drain();
  });

  test("[SC16] beams run together all the same", () => {
    const harness = new Harness({ runningSequencesMax: 4 });
    harness.addGroup(distinct(1, 8), 4, { kind: "beams", ...OUTPUT });
    expect(sequences(harness.begin())).toHaveLength(4);
  });

  test("[SC4] those that wait keep no other request out of the queue", () => {
    const harness = new Harness({ runningSequencesMax: 4, waitingSequencesMax: 8 });
    const many = harness.addGroup(distinct(1, 8), 8, OUTPUT);
    harness.step();
    for (let seed = 2; seed < 10; seed++) harness.add(distinct(seed, 8), OUTPUT);
    expect(() => harness.add(distinct(10, 8))).toThrow("at most 8 sequences may wait, current");
    expect(() => harness.addGroup(distinct(11, 8), 9)).toThrow("ask for fewer");
    harness.scheduler.finishGroup(many, { reason: "stop", stopReason: null });
    harness.step();
    harness.addGroup(distinct(12, 8), 4);
    expect(() => harness.addGroup(distinct(13, 8), 8)).toThrow("try again later");
  });
});
