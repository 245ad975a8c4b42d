import { assert, IntList } from "#base";
import type { KvCache } from "#kvcache";
import type { StepPlan } from "./plan.ts";
import type { Sequence } from "./sequence.ts";

/** A step between `begin` and `commit`. */
export interface BegunStep {
  readonly plan: StepPlan;
  /** Blocks published while this was the newest step: see `KvCache.publish`. */
  readonly published: IntList;
}

/**
 * The steps that have begun and are not committed, oldest first, and the blocks that each
 * published.
 */
export class StepLog {
  readonly #cache: KvCache;
  readonly #begun: BegunStep[] = [];

  constructor(cache: KvCache) {
    this.#cache = cache;
  }

  begin(plan: StepPlan): BegunStep {
    const step: BegunStep = { plan, published: new IntList() };
    this.#begun.push(step);
    return step;
  }

  /** Checks that a plan's step is the one to be committed. */
  checkOldest(plan: StepPlan): void {
    assert(this.#begun[0]?.plan === plan, "Cannot commit a step before those that began earlier");
  }

  /** The step that began last. There must be one. */
  get newest(): BegunStep {
    const newest = this.#begun.at(-1);
    assert(newest !== undefined, "Cannot publish outside of a step");
    return newest;
  }

  /** Whether a step under way verifies drafted tokens. */
  get verifies(): boolean {
    for (const { plan } of this.#begun) if (plan.drafted > 0) return true;
    return false;
  }

  /** Whether no step is under way. */
  get isEmpty(): boolean {
    return this.#begun.length === 0;
  }

  /** Takes the oldest step out: it is committed. */
  commitOldest(): void {
    this.#begun.shift();
  }

  /** Takes out the plan's step and all behind it, newest first, and forgets what they published. */
  fail(plan: StepPlan): readonly BegunStep[] {
    const index = this.#begun.findIndex((step) => step.plan === plan);
    assert(index >= 0, "Cannot fail a step that has not begun");
    const failed = this.#begun.splice(index).reverse();
    for (const step of failed) this.#cache.forgetPublished(step.published);
    return failed;
  }

  /**
   * Publishes full blocks as soon as their tokens are known: steps that begin later may read them.
   */
  publish(sequence: Sequence, step: BegunStep): void {
    const { blockTable, tokens, computedTokens } = sequence;
    // Its full blocks are published when they are back on the device.
    if (blockTable.swapped) return;
    const filled = Math.min(computedTokens, tokens.length);
    // Most steps fill no block.
    if (filled < (blockTable.publishedBlocks + 1) * this.#cache.blockTokens) return;
    this.#cache.publish(blockTable, tokens, filled, step.published);
  }
}
