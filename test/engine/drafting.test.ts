import { describe, expect, test } from "vitest";
import { SamplingParams, SequenceSampling } from "#sampling";
import type { Sequence } from "#scheduler";
import { Lookup, LookupSource, type TokenTree } from "#speculative";
import { DraftPolicy } from "../../src/engine/loop/draft-policy.ts";
import { Drafting } from "../../src/engine/loop/drafting.ts";
import { LookupDrafts } from "../../src/engine/loop/lookup-drafts.ts";
import type { DraftContext } from "../../src/engine/loop/sequence-drafter.ts";
import type { SequenceTask } from "../../src/engine/loop/sequence-task.ts";
import { distinct, Harness } from "../scheduler/harness.ts";
import { lookupTask } from "./lookup-task.ts";

/** Records what a step made of drafts: `[drafted, output tokens]` of each sequence. */
function countsOf(steps: readonly (readonly [number, number])[]) {
  const harness = new Harness();
  const parts = { scheduler: harness.scheduler, policy: null };
  const drafting = new Drafting(parts);
  for (const [drafted, tokens] of steps) {
    const sequence = harness.add(distinct(1, 3));
    drafting.grown({ sequence, tokenIds: distinct(2, tokens), finished: false }, lookupTask(), {
      tokenIds: [],
      logprobs: null,
      candidates: null,
      drafted,
    });
  }
  return drafting.counts();
}

describe("V 5.2 (S7): what drafts did", () => {
  test.each([
    ["all confirmed", [[3, 4]], [1, 3, 3, [1, 1, 1]]],
    ["one of three", [[3, 2]], [1, 3, 1, [1, 0, 0]]],
    [
      "two sequences",
      [
        [2, 3],
        [1, 2],
      ],
      [2, 3, 3, [2, 1]],
    ],
    ["a draft of one", [[1, 2]], [1, 1, 1, [1]]],
    [
      "two of three, and one of three",
      [
        [3, 3],
        [3, 2],
      ],
      [2, 6, 3, [2, 1, 0]],
    ],
    ["no drafts", [[0, 1]], [0, 0, 0, []]],
    ["nothing confirmed", [[2, 1]], [1, 2, 0, [0, 0]]],
  ] as const)("%s", (_, steps, [drafts, draftedTokens, acceptedTokens, acceptedPerPosition]) => {
    const wanted = { drafts, draftedTokens, acceptedTokens, acceptedPerPosition };
    expect(countsOf(steps)).toEqual(wanted);
  });
});

/** A sequence of these tokens, and what looks up its drafts. */
function lookedUp(tokenIds: readonly number[]) {
  const harness = new Harness();
  const sequence = harness.add(tokenIds);
  const source = new LookupSource(Int32Array.from(tokenIds));
  const drafts = new LookupDrafts("lookup", new Lookup(source), { length: 8, width: 1 });
  return { sequence, drafts, next: (of = sequence) => drafts.next(of, null, context()) };
}

/** Without constraints. */
function openSampling(): SequenceSampling {
  const params = SamplingParams.parse({});
  const options = { params, seed: 1, promptTokens: [1], vocabularySize: 10, endTokenIds: [] };
  return new SequenceSampling(options);
}

function context(rests = false): DraftContext {
  return {
    sampling: openSampling(),
    foresees: true,
    rests,
    adaptive: false,
    triesNetwork: false,
    expected: () => 1,
  };
}

/** Looks up, and counts how often. */
class CountingDrafts extends LookupDrafts {
  made = 0;

  override next(...context: Parameters<LookupDrafts["next"]>): TokenTree | null {
    this.made++;
    return super.next(...context);
  }
}

describe("[SP21] a sequence holds up the next step only while a draft of it is proposed", () => {
  test("not while the budget takes nothing of its draft", () => {
    const { drafts, next } = lookedUp([1, 2, 3, 4, 1, 2]);
    expect(next()?.tokens.length).toBeGreaterThan(1);
    expect(drafts.active).toBe(false);
    drafts.proposed(2);
    expect(drafts.active).toBe(true);
    drafts.proposed(0);
    expect(drafts.active).toBe(false);
  });

  test("not when nothing is found any more", () => {
    const { drafts, next } = lookedUp([1, 2, 3, 4, 1, 2]);
    next();
    drafts.proposed(2);
    const { sequence: other } = lookedUp([1, 2, 3, 4, 5, 6]);
    expect(next(other)).toBe(null);
    expect(drafts.active).toBe(false);
  });
});

describe("[SP33] while nothing of any draft is used", () => {
  /** Sequences whose drafts no step verifies, since none was measured. */
  function unused() {
    const harness = new Harness();
    const parts = { scheduler: harness.scheduler, policy: new DraftPolicy(64) };
    const drafting = new Drafting(parts);
    const tokenIds = [1, 2, 3, 4, 1, 2];
    const drafted: { readonly sequence: Sequence; readonly task: SequenceTask }[] = [];
    const drafters: CountingDrafts[] = [];
    const add = (count: number): void => {
      for (let place = 0; place < count; place++) {
        const sequence = harness.add(tokenIds);
        const lookup = new Lookup(new LookupSource(Int32Array.from(tokenIds)));
        const drafter = new CountingDrafts("lookup", lookup, { length: 8, width: 1 });
        drafters.push(drafter);
        const task = { ...lookupTask(), sampling: openSampling(), drafter };
        drafted.push({ sequence, task });
      }
      harness.step();
    };
    /** Drafts that so many steps make. */
    const madeIn = (steps: number): number => {
      const made = () => drafters.reduce((sum, { made }) => sum + made, 0);
      const before = made();
      for (let step = 0; step < steps; step++) {
        for (const { sequence, task } of drafted) {
          drafting.grown({ sequence, tokenIds: [1], finished: false }, task);
        }
        drafting.allot();
      }
      return made() - before;
    };
    return { add, madeIn };
  }

  test("one step in eight has drafts, and then of all sequences", () => {
    const { add, madeIn } = unused();
    add(2);
    // That no sequence has a network is known in the fourth step.
    expect(madeIn(3 + 32)).toBe(2 * 35);
    expect(madeIn(64)).toBe(2 * 8);
  });

  test("all steps have some when the number of sequences changes", () => {
    const { add, madeIn } = unused();
    add(2);
    madeIn(35 + 64);
    add(1);
    madeIn(8);
    expect(madeIn(8)).toBe(24);
  });
});

describe("[SP35] a sequence whose drafts no step verifies", () => {
  /** The sequence, and what follows of it shows as it grows by these tokens. */
  function followed(prompt: readonly number[], ...growth: readonly number[]) {
    const { sequence, drafts } = lookedUp(prompt);
    drafts.follow(sequence, 1);
    const shown = growth.map((token) => {
      sequence.tokens.push(token);
      return drafts.follow(sequence, 1);
    });
    return { sequence, drafts, shown };
  }

  test("is compared with what was looked up, token by token", () => {
    const { shown } = followed([1, 2, 3, 4, 1, 2], 3, 4, 9);
    expect(shown).toEqual([
      { kind: "lookup", matched: 2, right: 1, ended: false },
      { kind: "lookup", matched: 3, right: 1, ended: false },
      { kind: "lookup", matched: 4, right: 0, ended: true },
    ]);
  });

  test("has what is left of that as its draft", () => {
    const { sequence, drafts } = followed([1, 2, 3, 4, 5, 6, 1, 2], 3, 4);
    const adaptive = { ...context(), adaptive: true };
    expect([...(drafts.next(sequence, null, adaptive)?.tokens ?? [])]).toEqual([4, 5, 6]);
    expect([drafts.likelyTokens, drafts.matched]).toEqual([2, 4]);
  });

  test("is looked up for at one token of eight, other ones of each sequence", () => {
    const { sequence, drafts } = lookedUp([1, 2, 3, 4, 5, 6, 7, 8, 9]);
    let [looked, last] = [0, 0];
    const lookup = Lookup.prototype.draft;
    Lookup.prototype.draft = function count(...of: Parameters<typeof lookup>) {
      looked++;
      last = of[0].length;
      return lookup.apply(this, of);
    };
    try {
      drafts.follow(sequence, 8);
      expect(looked).toBe(1);
      for (let token = 10; token < 10 + 32; token++) {
        sequence.tokens.push(token);
        drafts.follow(sequence, 8);
      }
    } finally {
      Lookup.prototype.draft = lookup;
    }
    expect(looked).toBe(1 + 4);
    expect((last + sequence.id) % 8).toBe(0);
  });
});
