import { describe, expect, test } from "vitest";
import type { TransferEstimates } from "#scheduler";
import {
  counts,
  distinct,
  Harness,
  type HarnessOptions,
  idOf,
  preempted,
  sequences,
} from "./harness.ts";

/** Four blocks of four positions on each side: V 5.3's setting. */
const small = (options: HarnessOptions = {}): Harness =>
  new Harness({
    ...{ blocks: 4, hostBlocks: 4, blockTokens: 4, prefixCaching: false },
    ...{ preemption: "swap", returnHeadroomBlocks: 0, ...options },
  });

const estimates = (costs: {
  recompute: number | null;
  swap: number | null;
}): TransferEstimates => ({
  recomputeMs: (tokens) => (costs.recompute === null ? null : costs.recompute * tokens),
  swapMs: (blocks) => (costs.swap === null ? null : costs.swap * blocks),
  loadPays: () => true,
});

const moves = (harness: Harness): string[] =>
  harness.cache.takeMoves().map(({ kind, from, to }) => `${kind} ${from} ${to}`);

const modes = (harness: Harness): string[] => harness.step().preempted.map(({ mode }) => mode);

describe("[SC19] swap", () => {
  test("V 5.3 (V4): out and in, each block once, free blocks follow", () => {
    const harness = small();
    const [a, b] = harness.addLengths(8, 8);
    harness.step();
    const before = [...(b?.blockTable.view() ?? [])];
    expect(harness.step().preempted).toMatchObject([{ sequences: [b], mode: "swap" }]);
    const out = moves(harness);
    expect(out).toEqual([`offload ${before[0]} 4`, `offload ${before[1]} 5`]);
    expect(harness.cache.poolStats(1)).toMatchObject({ held: 2, free: 2 });
    expect(harness.cache.poolStats()).toMatchObject({ held: 3, free: 1 });
    expect(b?.state.phase).toBe("waiting");
    harness.scheduler.abort(idOf(a));
    const plan = harness.step();
    expect(plan.returning).toEqual([b]);
    expect(plan.items).toMatchObject([{ sequence: b, start: 8, count: 1 }]);
    expect(moves(harness).map((move) => move.split(" ").slice(0, 2))).toEqual([
      ["onboard", "4"],
      ["onboard", "5"],
    ]);
    expect(harness.cache.poolStats(1)).toMatchObject({ held: 0, free: 4 });
  });

  test("V 5.3 (V4): a sequence that ends while its contents are in host memory leaves nothing there", () => {
    const harness = small();
    const [, b] = harness.addLengths(8, 8);
    harness.step();
    harness.step();
    harness.scheduler.abort(idOf(b));
    expect(harness.cache.poolStats(1)).toMatchObject({ held: 0, free: 4 });
    expect(harness.scheduler.abort(idOf(b))).toBeNull();
    harness.scheduler.audit();
  });

  test("sequences of a group share their blocks there, too, and the last one writes in place", () => {
    const harness = small({ blocks: 6, hostBlocks: 6 });
    const [first] = harness.addLengths(12);
    harness.step();
    const group = harness.addGroup(distinct(2, 6), 2);
    harness.step();
    expect(harness.step().preempted).toMatchObject([
      { sequences: [...group.sequences], mode: "swap" },
    ]);
    expect(harness.scheduler.stats()).toMatchObject({ preemptions: 2, swapPreemptions: 2 });
    expect(harness.cache.poolStats(1).held).toBe(2);
    harness.cache.takeMoves();
    harness.scheduler.abort(idOf(first));
    expect(harness.step().returning).toEqual([...group.sequences]);
    const kinds = moves(harness).map((move) => move.split(" ")[0]);
    expect(kinds).toEqual(["onboard", "onboard", "copy"]);
  });

  test("without room in host memory they are computed again", () => {
    const harness = small({ hostBlocks: 1 });
    harness.addLengths(8, 8);
    harness.step();
    expect(modes(harness)).toEqual(["recompute"]);
  });

  test("a second victim of the same step counts what the first one takes", () => {
    const harness = small({ blocks: 6, hostBlocks: 3, stepTokensMax: 64 });
    harness.addLengths(8, 8, 8);
    harness.step(() => [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    expect(modes(harness)).toEqual(["swap", "recompute"]);
  });

  const cases = [
    { name: "unknown costs", costs: { recompute: null, swap: null }, mode: "recompute" },
    { name: "an unknown cost of moving", costs: { recompute: 9, swap: null }, mode: "recompute" },
    { name: "slow computing", costs: { recompute: 9, swap: 1 }, mode: "swap" },
    { name: "slow moving", costs: { recompute: 1, swap: 9 }, mode: "recompute" },
  ];
  test.for(cases)("auto with $name: $mode", ({ costs, mode }) => {
    const harness = small({ preemption: "auto", estimates: estimates(costs) });
    harness.addLengths(8, 8);
    harness.step();
    expect(modes(harness)).toEqual([mode]);
  });

  test("[SC10] a late token of one that is moved out arrives, and it goes on behind it", () => {
    const harness = small({ overlapSteps: true });
    const [a, b] = harness.addLengths(8, 7);
    const late = harness.begin();
    const next = harness.begin();
    expect(preempted(next)).toEqual([b]);
    harness.commit(late, () => [5]);
    harness.commit(next);
    harness.scheduler.abort(idOf(a));
    const plan = harness.step();
    expect(plan.returning).toEqual([b]);
    expect(plan.items).toMatchObject([{ sequence: b, start: 7, count: 1, samples: true }]);
    expect(b?.tokens.get(7)).toBe(5);
  });

  test("[SC13] a sequence that was to be moved with a step that fails is computed again", () => {
    const harness = small();
    const [a, b] = harness.addLengths(8, 8);
    harness.step();
    const plan = harness.begin();
    expect(preempted(plan)).toEqual([b]);
    expect(harness.scheduler.fail(plan)).toEqual([a]);
    harness.scheduler.audit();
    expect(harness.cache.poolStats(1).held).toBe(0);
    expect(harness.step().items).toMatchObject([{ sequence: b, start: 0, count: 9 }]);
  });

  test("[SC6] all are computed again when all are preempted from outside", () => {
    const harness = small();
    const made = harness.addLengths(8, 8);
    harness.step();
    harness.step();
    harness.scheduler.preemptAll();
    harness.scheduler.audit();
    expect(harness.scheduler.resetPrefixCache()).toBe(true);
    expect(sequences(harness.step())).toEqual([made[0]]);
    expect(counts(harness.step())).toEqual([1]);
  });
});

describe("[SC20] the way back", () => {
  /** Two groups of two that share a prompt, then grow apart; the second is moved out. */
  const twoGroups = (options: HarnessOptions = {}) => {
    const harness = small({ blocks: 8, hostBlocks: 8, ...options });
    const first = harness.addGroup(distinct(1, 8), 2);
    const second = harness.addGroup(distinct(2, 8), 2);
    let plan = harness.step();
    while (plan.preempted.length === 0) plan = harness.step();
    return { harness, first, second, plan };
  };

  test("V 5.3 (V5): the last group is swapped out, and comes back before a new one", () => {
    const { harness, first, second, plan } = twoGroups();
    expect(plan.preempted).toMatchObject([{ sequences: [...second.sequences], mode: "swap" }]);
    const newcomer = harness.add(distinct(3, 4));
    const out = moves(harness);
    expect(harness.step().items.length).toBe(2);
    expect(newcomer.state.phase).toBe("waiting");
    harness.scheduler.finishGroup(first, { reason: "stop", stopReason: null });
    const back = harness.step();
    expect(back.returning).toEqual([...second.sequences]);
    expect(sequences(back)).toEqual([...second.sequences, newcomer]);
    const inverse = out.map((move) => move.split(" ")[2]).sort();
    expect(
      moves(harness)
        .map((move) => move.split(" ")[1])
        .sort(),
    ).toEqual(inverse);
  });

  test("V 5.3 (V5): a budget of one token brings one sequence back", () => {
    const harness = small({ stepTokensMax: 3, runningSequencesMax: 3, blocks: 6, hostBlocks: 6 });
    const made = harness.addLengths(4, 4, 4);
    for (let step = 0; step < 6; step++) harness.step();
    harness.scheduler.abort(idOf(made[0]));
    expect(harness.scheduler.stats().running).toBeLessThanOrEqual(2);
    harness.drain(400);
    expect(made.slice(1).every((sequence) => sequence?.finished)).toBe(true);
  });

  test("V 5.3 (V5): a sequence that cannot resume keeps its place, and none overtakes it", () => {
    const { harness, second } = twoGroups();
    const newcomer = harness.add(distinct(3, 4));
    const plan = harness.step();
    expect(plan.returning).toEqual([]);
    expect(newcomer.state.phase).toBe("waiting");
    expect(second.sequences.map(({ blockTable }) => blockTable.swapped)).toEqual([true, true]);
  });

  test("[SC9] by priority a more urgent newcomer starts first", () => {
    const harness = small({ policy: "priority", blocks: 5, hostBlocks: 6 });
    const low = harness.add(distinct(1, 8), { priority: 5 });
    const high = harness.add(distinct(2, 12), { priority: 1, stop: { maxTokens: 3 } });
    harness.step();
    const out = harness.step();
    expect(preempted(out)).toEqual([low]);
    harness.step();
    expect(high.finished).toBe(true);
    const urgent = harness.add(distinct(3, 16), { priority: 0 });
    const plan = harness.step();
    expect(sequences(plan)).toEqual([urgent]);
    expect(plan.returning).toEqual([]);
  });

  test("samples that no longer fit together come back as far as they fit", () => {
    const harness = small({ blocks: 4, hostBlocks: 12 });
    const stop = { maxTokens: 9 };
    const group = harness.addGroup(distinct(1, 4), 4, { stop });
    harness.drain(200);
    expect(group.sequences.map(({ generatedTokens }) => generatedTokens)).toEqual([9, 9, 9, 9]);
    expect(harness.scheduler.stats().swapPreemptions).toBeGreaterThan(0);
    expect(harness.cache.poolStats(1).held).toBe(0);
  });
});

describe("[SC21] room for what comes", () => {
  /** 32 answers of up to 250 tokens in a pool for half of them: how often one is preempted. */
  const costs = (returnHeadroomBlocks: number, preemption: "swap" | "recompute") => {
    const harness = new Harness({
      ...{ blocks: 100, hostBlocks: 200, prefixCaching: false, runningSequencesMax: 32 },
      ...{ preemption, returnHeadroomBlocks },
    });
    const wanted = Array.from({ length: 32 }, (_, index) => 150 + 3 * index);
    const made = wanted.map((maxTokens, index) =>
      harness.add(distinct(index + 1, 8), { stop: { maxTokens } }),
    );
    const steps = harness.drain().length;
    expect(made.map(({ generatedTokens }) => generatedTokens)).toEqual(wanted);
    return { preemptions: harness.scheduler.stats().preemptions, steps };
  };

  test.for(["swap", "recompute"] as const)("by %s, a shortage is not entered again", (mode) => {
    const without = costs(0, mode);
    const withRoom = costs(1, mode);
    expect(withRoom.preemptions).toBeLessThan(0.75 * without.preemptions);
    expect(withRoom.steps).toBeLessThan(1.1 * without.steps);
  });

  test("without other running sequences, a sequence needs no room but its own", () => {
    const harness = new Harness({ blocks: 2, blockTokens: 4, returnHeadroomBlocks: 50 });
    const [a, b] = harness.addLengths(4, 4);
    harness.step();
    expect(preempted(harness.step())).toEqual([b]);
    expect(sequences(harness.step())).toEqual([a]);
    harness.scheduler.abort(idOf(a));
    expect(sequences(harness.step())).toEqual([b]);
  });
});
