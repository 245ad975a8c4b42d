import { describe, expect, test } from "vitest";
import type { StepPlan } from "#scheduler";
import { distinct, Harness } from "./harness.ts";

/** One sequence behind its prompt, with a draft. */
function decoding(options: ConstructorParameters<typeof Harness>[0] = {}, prompt = 5) {
  const harness = new Harness({ blockTokens: 4, ...options });
  const sequence = harness.add(distinct(1, prompt), {});
  harness.step();
  return { harness, sequence };
}

const drafted = (plan: StepPlan): number[] => plan.items.map((item) => item.drafted);

describe("[SC31] drafted tokens are verified in a step", () => {
  test("confirmed ones stay, and the blocks of the others are released", () => {
    const { harness, sequence } = decoding();
    harness.scheduler.propose(sequence.id, 7);
    const plan = harness.begin();
    expect(drafted(plan)).toEqual([7]);
    expect(plan.tokens).toBe(8);
    // 5 of the prompt, one sampled, seven drafted.
    expect(sequence.blockTable.length).toBe(4);
    const [update] = harness.commit(plan, () => [11, 12, 13]);
    expect(update?.tokenIds).toEqual([11, 12, 13]);
    expect(sequence.computedTokens).toBe(8);
    expect(sequence.tokens.length).toBe(9);
    expect(sequence.blockTable.length).toBe(2);
    expect(drafted(harness.begin())).toEqual([0]);
  });

  test("a draft of which nothing is confirmed gives one token, and leaves nothing behind", () => {
    const { harness, sequence } = decoding();
    harness.scheduler.propose(sequence.id, 7);
    harness.step(() => [11]);
    expect([sequence.computedTokens, sequence.tokens.length]).toEqual([6, 7]);
    expect(harness.scheduler.stats().heldBlocks).toBe(2);
  });

  test("no drafted token can be found by others, and confirmed ones can", () => {
    const { harness, sequence } = decoding();
    harness.scheduler.propose(sequence.id, 7);
    const plan = harness.begin();
    const { scope } = sequence.blockTable;
    const find = (tokens: readonly number[]) =>
      harness.cache.match(scope, Int32Array.from(tokens)).tokens;
    const known = [...sequence.tokens.view()];
    expect(find([...known, 11, 12, 13, 0])).toBe(4);
    harness.commit(plan, () => [11, 12, 13]);
    expect(find([...known, 11, 12, 13, 0])).toBe(8);
  });

  test("drafts are verified while others wait for a seat", () => {
    const { harness, sequence } = decoding({ runningSequencesMax: 1, sampledRowsMax: 8 });
    harness.add(distinct(2, 5), {});
    harness.scheduler.propose(sequence.id, 3);
    expect(drafted(harness.begin())).toEqual([3]);
  });

  test("the likeliest continuations of all sequences come before others", () => {
    const { harness, sequence } = decoding({ runningSequencesMax: 8 });
    const other = harness.add(distinct(2, 5), {});
    harness.step();
    // Eight rows: two that sample without drafts, two and three likely ones, and one more.
    harness.scheduler.propose(sequence.id, 7, 2);
    harness.scheduler.propose(other.id, 5, 3);
    expect(drafted(harness.begin())).toEqual([3, 3]);
  });

  test("V 5.2 (S8): chunks of a prompt have no drafts", () => {
    const harness = new Harness({ stepTokensMax: 50, runningSequencesMax: 4 });
    const { id } = harness.add(distinct(1, 80));
    const items = Array.from({ length: 3 }, () => {
      harness.scheduler.propose(id, 3);
      return harness.step().items.map(({ count, drafted: more }) => [count, more]);
    });
    expect(items).toEqual([[[50, 0]], [[30, 0]], [[1, 3]]]);
  });

  test("drafts get what the budget leaves, and delay no prompt", () => {
    const { harness, sequence } = decoding({ stepTokensMax: 16, runningSequencesMax: 4 });
    harness.add(distinct(2, 10));
    harness.scheduler.propose(sequence.id, 9);
    const plan = harness.begin();
    expect(plan.items.map(({ count, drafted: more }) => [count, more])).toEqual([
      [1, 2],
      [10, 0],
    ]);
    expect(plan.tokens).toBe(13);
  });

  test("each drafted token takes a row of those that a step can sample", () => {
    const { harness, sequence } = decoding({ sampledRowsMax: 3 });
    harness.scheduler.propose(sequence.id, 9);
    expect(drafted(harness.begin())).toEqual([2]);
  });

  test("drafts take free blocks only, and preempt no sequence", () => {
    const { harness, sequence } = decoding({ blocks: 3 });
    harness.scheduler.propose(sequence.id, 20);
    const plan = harness.begin();
    expect(plan.preempted).toEqual([]);
    // Three blocks of four tokens, six of which are known.
    expect(drafted(plan)).toEqual([6]);
  });

  test("a sequence drafts no token behind its end", () => {
    const harness = new Harness({ blockTokens: 4 });
    const sequence = harness.add(distinct(1, 5), { stop: { maxTokens: 4 } });
    harness.step();
    harness.scheduler.propose(sequence.id, 9);
    const plan = harness.begin();
    expect(drafted(plan)).toEqual([2]);
    const [update] = harness.commit(plan, () => [1, 2, 3]);
    expect(update).toMatchObject({ tokenIds: [1, 2, 3], finished: true });
    expect(harness.scheduler.stats().heldBlocks).toBe(0);
  });

  test("an end in the middle of confirmed tokens drops those behind it", () => {
    const harness = new Harness({ blockTokens: 4 });
    const sequence = harness.add(distinct(1, 5), { stop: { stopTokenIds: new Set([12]) } });
    harness.step();
    harness.scheduler.propose(sequence.id, 5);
    const [update] = harness.commit(harness.begin(), () => [11, 12, 13, 14]);
    expect(update).toMatchObject({ tokenIds: [11, 12], finished: true });
    expect(sequence.tokens.length).toBe(8);
  });

  test("no step is planned while one verifies drafts", () => {
    const { harness, sequence } = decoding({ overlapSteps: true });
    harness.scheduler.propose(sequence.id, 3);
    const plan = harness.begin();
    expect(() => harness.scheduler.plan()).toThrow("verifies drafts");
    harness.commit(plan, () => [1]);
    expect(() => harness.scheduler.plan()).not.toThrow();
  });

  test("a token that is still being sampled is not drafted behind", () => {
    const { harness, sequence } = decoding({ overlapSteps: true });
    harness.begin();
    harness.scheduler.propose(sequence.id, 3);
    expect(drafted(harness.begin())).toEqual([0]);
  });

  test("a draft is for one state of its sequence, and can be taken back", () => {
    const { harness, sequence } = decoding();
    harness.scheduler.propose(sequence.id, 3);
    harness.scheduler.propose(sequence.id, 0);
    expect(drafted(harness.step())).toEqual([0]);
    harness.scheduler.propose(sequence.id, 3);
    harness.step(() => [5]);
    expect(drafted(harness.step())).toEqual([0]);
  });

  test("a sequence that ends under way releases its drafts, too", () => {
    const { harness, sequence } = decoding();
    harness.scheduler.propose(sequence.id, 9);
    const plan = harness.begin();
    harness.scheduler.abort(sequence.id);
    expect(harness.scheduler.stats().heldBlocks).toBe(0);
    expect(harness.commit(plan, () => [1, 2])).toEqual([]);
  });

  test("more tokens than were sampled cannot be committed", () => {
    const { harness, sequence } = decoding();
    harness.scheduler.propose(sequence.id, 1);
    const plan = harness.begin();
    expect(() => harness.commit(plan, () => [1, 2, 3])).toThrow("more tokens than were sampled");
  });
});
