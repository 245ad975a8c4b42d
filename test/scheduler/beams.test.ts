import { describe, expect, test } from "vitest";
import { EngineError } from "#base";
import type { Sequence, SequenceGroup, StepPlan } from "#scheduler";
import { counts, distinct, Harness, idOf, preempted, sequences } from "./harness.ts";

/** Commits a step in which beams draw nothing, others a 7. */
function commit(harness: Harness, plan: StepPlan): void {
  const drawn = plan.items.map(({ sequence, samples }) => {
    if (sequence.isBeam) return null;
    return samples ? [7] : [];
  });
  harness.scheduler.commit(plan, drawn, ++harness.nowMs);
  harness.scheduler.audit();
}

/** One step, behind which hypothesis i continues beam `parents[i]` with token 10 * i. */
function stepBeams(harness: Harness, group: SequenceGroup, parents: readonly number[]): StepPlan {
  const plan = harness.begin();
  commit(harness, plan);
  const beams = group.live;
  const next = parents.map((place, beam) => ({ parent: at(beams, place), tokenId: 10 * beam }));
  harness.scheduler.continueBeams(group, next, harness.nowMs);
  harness.scheduler.audit();
  return plan;
}

/** A search of `width` beams behind six tokens. */
const addBeams = (harness: Harness, width: number): SequenceGroup =>
  harness.addGroup(distinct(1, 6), width, { kind: "beams", stop: { maxTokens: 20 } });

function at(beams: readonly Sequence[], place: number): Sequence {
  const beam = beams[place];
  if (beam === undefined) throw new Error(`There is no beam ${place}`);
  return beam;
}

const answers = (group: SequenceGroup): number[][] =>
  group.live.map(({ tokens, promptLength }) => [...tokens.view(promptLength)]);

const refusal = (action: () => void): EngineError => {
  try {
    action();
  } catch (error) {
    if (error instanceof EngineError) return error;
  }
  throw new Error("It was not refused");
};

describe("[SC18] beams", () => {
  test("all sample from the prompt's last row, then each from its own", () => {
    const harness = new Harness({ blockTokens: 4 });
    const group = addBeams(harness, 3);
    expect(counts(stepBeams(harness, group, [0, 1, 2]))).toEqual([6, 0, 0]);
    expect(counts(stepBeams(harness, group, [0, 1, 2]))).toEqual([1, 1, 1]);
    expect(answers(group)).toEqual([
      [0, 0],
      [10, 10],
      [20, 20],
    ]);
    expect(harness.cache.poolStats().held).toBe(1 + 3);
    expect(group.sequences.map(({ firstTokenMs }) => firstTokenMs)).toEqual([2, 2, 2]);
  });

  test("the first child of a beam keeps its sequence, others take those of losers", () => {
    const harness = new Harness({ blockTokens: 4 });
    const group = addBeams(harness, 3);
    stepBeams(harness, group, [0, 1, 2]);
    const before = group.sequences.map(({ blockTable }) => [...blockTable.view()]);
    stepBeams(harness, group, [2, 2, 1]);
    expect(answers(group)).toEqual([
      [20, 10],
      [10, 20],
      [20, 0],
    ]);
    const [lost, kept, parent] = group.sequences;
    expect([...(lost?.blockTable.view() ?? [])]).toEqual([...(parent?.blockTable.view() ?? [])]);
    expect([...(kept?.blockTable.view() ?? [])].slice(0, 1)).toEqual(before[1]?.slice(0, 1));
    expect(harness.cache.poolStats().held).toBe(1 + 2);
    // The two of one parent part again: one copies, the other writes in place.
    stepBeams(harness, group, [0, 1, 2]);
    expect(harness.cache.poolStats().held).toBe(1 + 3);
  });

  test("hypotheses may become fewer; a search ends as a whole, and nothing is left", () => {
    const harness = new Harness({ blockTokens: 4 });
    const group = addBeams(harness, 3);
    stepBeams(harness, group, [0, 0]);
    expect(group.live.length).toBe(2);
    stepBeams(harness, group, [1, 0]);
    harness.scheduler.finishGroup(group, { reason: "length", stopReason: null });
    expect(harness.cache.poolStats().held).toBe(0);
    expect(harness.scheduler.stats()).toMatchObject({ running: 0, waiting: 0 });
    expect(group.sequences.map(({ state }) => state.phase === "finished" && state.reason)).toEqual([
      "length",
      "length",
      "stop",
    ]);
  });

  test("stop rules do not end them, and `commit` samples nothing for them", () => {
    const harness = new Harness();
    const stop = { stopTokenIds: new Set([0, 10]), maxTokens: 50 };
    const group = harness.addGroup(distinct(1, 6), 2, { kind: "beams", stop });
    stepBeams(harness, group, [0, 1]);
    expect(group.live.length).toBe(2);
    const plan = harness.begin();
    expect(() => harness.commit(plan)).toThrow("do not fit the plan");
  });

  test("they are not planned ahead while others are", () => {
    const harness = new Harness({ overlapSteps: true });
    const group = addBeams(harness, 2);
    const other = harness.add(distinct(2, 6));
    const one = harness.begin();
    const two = harness.begin();
    expect(sequences(two)).toEqual([other]);
    commit(harness, one);
    expect(sequences(harness.scheduler.plan())).toEqual([other]);
    harness.scheduler.continueBeams(
      group,
      group.live.map((parent) => ({ parent, tokenId: 1 })),
      0,
    );
    expect(sequences(harness.scheduler.plan())).toEqual([...group.live, other]);
  });

  test("a step without room for all of them takes none", () => {
    const harness = new Harness({ stepTokensMax: 8, runningSequencesMax: 8 });
    const other = harness.add(distinct(2, 2));
    harness.step();
    const group = addBeams(harness, 4);
    stepBeams(harness, group, [0, 1, 2, 3]);
    // Five tokens of the other one leave room for three beams.
    const plan = harness.begin();
    const drawn = plan.items.map(({ sequence }) => (sequence.isBeam ? null : [1, 2, 3, 4, 5]));
    harness.scheduler.commit(plan, drawn, 0);
    const next = group.live.map((parent) => ({ parent, tokenId: 1 }));
    harness.scheduler.continueBeams(group, next, 0);
    expect(sequences(harness.step())).toEqual([other]);
    expect(sequences(harness.begin())).toEqual([other, ...group.live]);
  });

  test("[SC6] a search is preempted as a whole, and its beams resume together", () => {
    const harness = new Harness({
      ...{ blocks: 7, blockTokens: 4, stepTokensMax: 8, runningSequencesMax: 8 },
      returnHeadroomBlocks: 0,
    });
    const other = harness.add(distinct(1, 8), { stop: { maxTokens: 9 } });
    harness.step();
    const group = harness.addGroup(distinct(2, 6), 3, { kind: "beams", stop: { maxTokens: 6 } });
    let rounds = 0;
    let wasPreempted = false;
    for (let turn = 0; turn < 60 && group.live.length > 0; turn++) {
      const plan = harness.begin();
      commit(harness, plan);
      wasPreempted ||= preempted(plan).length === 3;
      const drew = plan.items.filter(({ sequence, samples }) => samples && sequence.isBeam);
      if (drew.length === 0) continue;
      expect(drew.length).toBe(3);
      rounds++;
      const next = [0, 2, 2].map((place, beam) => ({
        parent: at(group.live, place),
        tokenId: beam,
      }));
      if (rounds === 5) harness.scheduler.finishGroup(group, { reason: "stop", stopReason: null });
      else harness.scheduler.continueBeams(group, next, harness.nowMs);
    }
    expect([rounds, wasPreempted, other.finished]).toEqual([5, true, true]);
  });

  test("[SC10] preempted while they sample, they are regrouped without blocks", () => {
    const harness = new Harness({ blocks: 40, blockTokens: 4 });
    const group = addBeams(harness, 2);
    const plan = harness.begin();
    harness.scheduler.preemptAll();
    expect(harness.scheduler.plan().items).toEqual([]);
    commit(harness, plan);
    expect(harness.scheduler.plan().items).toEqual([]);
    const parent = group.lead;
    const next = [3, 4].map((tokenId) => ({ parent, tokenId }));
    harness.scheduler.continueBeams(group, next, 0);
    harness.scheduler.audit();
    expect(answers(group)).toEqual([[3], [4]]);
    harness.step(() => []);
    expect(counts(harness.begin())).toEqual([1, 1]);
  });

  test("one that is aborted leaves the search to the others", () => {
    const harness = new Harness();
    const group = addBeams(harness, 3);
    stepBeams(harness, group, [0, 1, 2]);
    harness.scheduler.abort(idOf(group.sequences[1]));
    expect(counts(stepBeams(harness, group, [1, 0]))).toEqual([1, 1]);
  });
});

describe("[SC4] [SC18] a search that can never run is refused", () => {
  test("more blocks than the pool has, with both numbers", () => {
    const harness = new Harness({ blocks: 10, blockTokens: 4 });
    const make = (size: number, maxTokens: number) =>
      harness.makeGroup(distinct(1, 9), size, { kind: "beams", stop: { maxTokens } });
    // Two blocks shared; 9 + 8 - 1 computed positions are 4 blocks, so two more for each beam.
    harness.scheduler.add(make(4, 8));
    const error = refusal(() => harness.scheduler.add(make(5, 8)));
    expect([error.code, error.param]).toEqual(["PROMPT_TOO_LONG", "beamWidth"]);
    expect(error.message).toMatch(/5 beams of up to 17 tokens need 12 blocks, the KV pool has 10;/);
    expect(harness.scheduler.stats().waiting).toBe(4);
  });

  test("without a prefix tree each beam may need its own prompt", () => {
    const harness = new Harness({ blocks: 10, blockTokens: 4, prefixCaching: false });
    const group = harness.makeGroup(distinct(1, 9), 3, { kind: "beams", stop: { maxTokens: 8 } });
    expect(refusal(() => harness.scheduler.add(group)).message).toMatch(/need 12 blocks/);
  });

  test("with a window a preempted prompt may be computed again for each beam", () => {
    const windows = [{ tokens: 6, sinkTokens: 0 }];
    const harness = new Harness({ blocks: 12, blockTokens: 4, windows, stepTokensMax: 16 });
    const make = (size: number) =>
      harness.makeGroup(distinct(1, 13), size, { kind: "beams", stop: { maxTokens: 8 } });
    // 13 + 8 - 1 computed positions are 5 blocks; 6 tokens lie in 3 blocks at most.
    harness.scheduler.add(make(3));
    expect(refusal(() => harness.scheduler.add(make(4))).message).toMatch(/need 14 blocks/);
  });

  test("more beams than may run", () => {
    const harness = new Harness({ runningSequencesMax: 2 });
    const group = harness.makeGroup(distinct(1, 9), 3, { kind: "beams" });
    expect(refusal(() => harness.scheduler.add(group)).message).toMatch(
      /at most 2 beams may run, current value is 3/,
    );
  });
});
