/** Searches in the smallest pool that takes them, beside sequences that get in their way. */
import { describe, expect, test } from "vitest";
import type { CacheWindow } from "#kvcache";
import type { SequenceGroup } from "#scheduler";
import { Dice } from "../fuzz/dice.ts";
import { sized } from "../support/full.ts";
import { distinct, Harness, type HarnessOptions } from "./harness.ts";

const SEEDS = Array.from({ length: sized(300, 3000) }, (_, index) => index + 1);
const STEPS_MAX = 3000;

interface Search {
  readonly width: number;
  readonly prompt: readonly number[];
  readonly maxTokens: number;
}

const groupIn = (harness: Harness, { width, prompt, maxTokens }: Search): SequenceGroup =>
  harness.makeGroup(prompt, width, { kind: "beams", priority: 1, stop: { maxTokens } });

/** The first pool that a search is not refused by. */
function smallestPool(options: HarnessOptions, search: Search): number {
  for (let blocks = 1; blocks < 1000; blocks++) {
    const harness = new Harness({ ...options, blocks });
    try {
      harness.scheduler.add(groupIn(harness, search));
      return blocks;
    } catch {
      // One block more.
    }
  }
  throw new Error("No pool takes the search");
}

/** Tokens that a search draws until it ends. */
function lengthOf({ scheduler }: Harness, { prompt, maxTokens }: Search): number {
  return Math.min(maxTokens, scheduler.contextTokensMax - prompt.length);
}

/** One step. Returns whether beams drew; they go on at random, `left` times with this one. */
function step(
  harness: Harness,
  group: SequenceGroup,
  left: number,
  below: (limit: number) => number,
): boolean {
  const plan = harness.begin();
  const drawn = plan.items.map(({ sequence, samples }) =>
    sequence.isBeam ? null : samples ? [7] : [],
  );
  harness.scheduler.commit(plan, drawn, ++harness.nowMs);
  if (!plan.items.some((item) => item.sequence.isBeam && item.samples)) return false;
  const beams = group.live;
  if (left === 1) {
    harness.scheduler.finishGroup(group, { reason: "length", stopReason: null });
    return true;
  }
  const next = beams.map((beam, place) => ({
    parent: beams[below(beams.length)] ?? beam,
    tokenId: 10 * place,
  }));
  harness.scheduler.continueBeams(group, next, harness.nowMs);
  return true;
}

describe("[SC18] a search that is taken ends, however small the pool", () => {
  test.for(SEEDS)("seed %i", (seed) => {
    const dice = new Dice(seed);
    const below = (limit: number) => dice.below(limit);
    const window = (): CacheWindow => ({ tokens: 3 + below(35), sinkTokens: below(3) });
    const windows = [below(4) === 0 ? null : window(), ...(below(3) === 0 ? [window()] : [])];
    const search: Search = {
      width: 2 + below(4),
      prompt: distinct(1, 1 + below(20) + below(2) * 20),
      maxTokens: 2 + below(20),
    };
    const options: HarnessOptions = {
      ...{ blockTokens: 4, windows, stepTokensMax: 8 + below(60), runningSequencesMax: 8 },
      preemption: (["auto", "swap", "recompute"] as const)[below(3)] ?? "auto",
      prefixCaching: below(5) > 0,
      chunkedPrefill: below(6) > 0,
      hostBlocks: below(4) * 30,
      policy: below(2) === 0 ? "fcfs" : "priority",
      returnHeadroomBlocks: below(2),
    };
    const whole = { ...options, stepTokensMax: 128, modelContext: 128 };
    const limits = options.chunkedPrefill === false ? whole : options;
    const blocks = smallestPool(limits, search);
    const harness = new Harness({ ...limits, blocks });
    const { scheduler } = harness;
    const most = Math.min(40, scheduler.contextTokensMax - 2);
    const addOther = () => {
      const prompt = distinct(2 + below(3), 1 + below(most));
      harness.add(prompt, { priority: below(3), stop: { maxTokens: 1 + below(most) } });
    };
    for (let others = below(3); others > 0; others--) addOther();
    const group = groupIn(harness, search);
    scheduler.add(group);
    const length = lengthOf(harness, search);
    let drew = 0;
    let steps = 0;
    for (; group.live.length > 0 && steps < STEPS_MAX; steps++) {
      if (steps < 200 && below(3) === 0 && scheduler.stats().waiting < 8) addOther();
      if (steps < 200 && below(8) === 0) scheduler.preemptAll();
      if (step(harness, group, length - drew, below)) drew++;
      scheduler.audit();
    }
    expect(drew).toBe(length);
    harness.drain();
    expect(harness.cache.poolStats().held).toBe(0);
  });
});
