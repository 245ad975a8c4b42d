/** How a step is chosen. Everything here reads the scheduler's state; nothing changes it. */
import { assert } from "#base";
import { type KvCache, NO_MATCH, type PrefixMatch } from "#kvcache";
import { BlockLedger } from "./block-ledger.ts";
import type { SchedulerConfig } from "./config.ts";
import type { PlannedSequence, StepPlan } from "./plan.ts";
import { byPriority } from "./queue.ts";
import type { Sequence } from "./sequence.ts";
import { generatedTokensMax } from "./stop.ts";

/** What a plan is made from. */
export interface PlanningState {
  readonly config: SchedulerConfig;
  readonly cache: KvCache;
  readonly contextTokensMax: number;
  /** Plan a sequence's next token while the step that draws the one before is under way. */
  readonly overlapSteps: boolean;
  readonly running: readonly Sequence[];
  /** In order of admission. */
  readonly waiting: Iterable<Sequence>;
  readonly revision: number;
}

/** The next step: running sequences first, then, unless one had to be preempted, waiting ones. */
export function planStep(state: PlanningState): StepPlan {
  const planner = new StepPlanner(state);
  planner.planRunning();
  planner.planWaiting();
  return planner.finish();
}

class StepPlanner {
  readonly #state: PlanningState;
  readonly #ledger: BlockLedger;
  readonly #items: PlannedSequence[] = [];
  readonly #preempted: Sequence[] = [];
  /** Tokens that the step still has room for. */
  #budget: number;
  /** Blocks that prompts under way will yet take; admission leaves them alone. */
  #reserved = 0;

  constructor(state: PlanningState) {
    this.#state = state;
    this.#ledger = new BlockLedger(state.cache);
    this.#budget = state.config.stepTokensMax;
  }

  planRunning(): void {
    for (const sequence of this.#state.running) {
      if (this.#budget === 0) return;
      if (this.#preempted.length > 0 && this.#preempted.includes(sequence)) continue;
      const start = sequence.computedTokens;
      const count = this.#capped(this.#knownTokens(sequence) - start);
      if (count === 0) continue;
      const blocks = this.#newBlocks(sequence, start + count);
      if (this.#makeRoom(sequence, blocks)) this.#add(sequence, start, count, null);
    }
  }

  planWaiting(): void {
    // Whoever lost its blocks comes back before anyone new takes them.
    if (this.#preempted.length > 0) return;
    let slots = this.#state.config.runningSequencesMax - this.#state.running.length;
    for (const sequence of this.#state.waiting) {
      if (this.#budget === 0 || slots === 0) return;
      // Keeps its place, and those behind it need not wait for its grammar.
      if (sequence.state.phase === "waiting" && sequence.state.for === "grammar") continue;
      if (!this.#admit(sequence)) return;
      slots--;
    }
  }

  finish(): StepPlan {
    return {
      items: this.#items,
      preempted: this.#preempted,
      tokens: this.#state.config.stepTokensMax - this.#budget,
      revision: this.#state.revision,
    };
  }

  /** False: it does not fit now, and nobody may overtake it. */
  #admit(sequence: Sequence): boolean {
    // Preempted while a step draws its token: it cannot be recomputed before that arrives.
    if (sequence.awaitedTokens > 0) return false;
    const { cache, config } = this.#state;
    const tokens = sequence.tokens.view();
    const match = this.#matchOf(sequence, tokens);
    const prefixBlocks = this.#sharedBlocks(sequence, tokens, match.blocks.length);
    const start = prefixBlocks * cache.blockTokens;
    const remaining = tokens.length - start;
    if (!config.chunkedPrefill && remaining > this.#budget) return false;

    // The whole prompt must fit before its first piece starts.
    const whole = cache.blocksFor(tokens.length) - prefixBlocks;
    const needed = whole + this.#ledger.costOf(match) + this.#reserved;
    if (needed > this.#ledger.available) return false;

    const count = this.#capped(remaining);
    this.#ledger.claim(match);
    this.#ledger.take(cache.blocksFor(start + count) - prefixBlocks);
    this.#add(sequence, start, count, match);
    return true;
  }

  #matchOf(sequence: Sequence, tokens: Int32Array): PrefixMatch {
    if (sequence.skipReadingPrefixCache) return NO_MATCH;
    return this.#state.cache.match(sequence.blockTable.scope, tokens);
  }

  /**
   * Leading blocks of a prompt that are stored (`matched`) or that an earlier item of this very
   * step computes, whichever is more.
   */
  #sharedBlocks(sequence: Sequence, tokens: Int32Array, matched: number): number {
    const { blockTokens, prefixCaching } = this.#state.cache;
    if (!prefixCaching || sequence.skipReadingPrefixCache) return matched;
    const limit = Math.floor((tokens.length - 1) / blockTokens);
    let best = matched;
    for (const { sequence: other, start, count } of this.#items) {
      // A step that computes one token rarely fills a block: not worth a look.
      if (count === 1 || other.blockTable.scope !== sequence.blockTable.scope) continue;
      const filled = Math.min(limit, Math.floor((start + count) / blockTokens));
      if (filled <= best) continue;
      best = Math.max(best, commonBlocks(other.tokens.view(), tokens, blockTokens, filled, best));
    }
    return best;
  }

  /** Preempts until `blocks` are there; false when that took the sequence's own. */
  #makeRoom(sequence: Sequence, blocks: number): boolean {
    while (blocks > this.#ledger.available) {
      const victim = this.#victim();
      this.#preempt(victim);
      if (victim === sequence) return false;
    }
    this.#ledger.take(blocks);
    return true;
  }

  /** Who suffers first: the latest started, or by policy the least urgent. */
  #victim(): Sequence {
    const { running, config } = this.#state;
    let victim = running[running.length - 1 - this.#preempted.length];
    if (config.policy === "priority") {
      victim = undefined;
      for (const sequence of running) {
        if (this.#preempted.includes(sequence)) continue;
        if (victim === undefined || byPriority(victim, sequence) < 0) victim = sequence;
      }
    }
    assert(victim !== undefined, "Cannot make room: no sequence holds blocks");
    return victim;
  }

  #preempt(victim: Sequence): void {
    // By priority the victim may have come before whom it makes room for: it is in the plan then.
    const index = this.#items.findIndex((item) => item.sequence === victim);
    const [planned] = index < 0 ? [] : this.#items.splice(index, 1);
    if (planned !== undefined) {
      const end = planned.start + planned.count;
      this.#budget += planned.count;
      this.#reserved -= this.#blocksBehind(victim, end);
      this.#ledger.refund(this.#newBlocks(victim, end));
    }
    this.#ledger.drop(victim.blockTable);
    this.#preempted.push(victim);
  }

  #add(sequence: Sequence, start: number, count: number, admission: PrefixMatch | null): void {
    const end = start + count;
    const samples = end === this.#knownTokens(sequence);
    this.#items.push({ sequence, start, count, samples, admission });
    this.#budget -= count;
    this.#reserved += this.#blocksBehind(sequence, end);
  }

  /** Tokens there are, or will be when the steps under way end, and that the model may read. */
  #knownTokens(sequence: Sequence): number {
    const { tokens, awaitedTokens, promptLength } = sequence;
    const { overlapSteps, contextTokensMax } = this.#state;
    if (!overlapSteps || awaitedTokens === 0) return tokens.length;
    // The last token's row is never computed: nothing is drawn from it.
    const room = generatedTokensMax(sequence.stop, { promptLength, contextTokensMax });
    return Math.min(tokens.length + awaitedTokens, promptLength + room - 1);
  }

  #capped(count: number): number {
    const longest = this.#state.config.longPrefillTokensMax ?? count;
    return Math.min(count, longest, this.#budget);
  }

  /** Blocks to add to the sequence's table for positions below `end`. */
  #newBlocks(sequence: Sequence, end: number): number {
    return Math.max(0, this.#state.cache.blocksFor(end) - sequence.blockTable.length);
  }

  /** Blocks that the rest of a prompt, from `end` on, will take. */
  #blocksBehind(sequence: Sequence, end: number): number {
    const { cache } = this.#state;
    return Math.max(0, cache.blocksFor(sequence.tokens.length) - cache.blocksFor(end));
  }
}

/** Leading equal blocks of two token lists, `most` at most; 0 if no more than `least` are. */
function commonBlocks(
  a: Int32Array,
  b: Int32Array,
  blockTokens: number,
  most: number,
  least: number,
): number {
  // Where prompts differ, they mostly differ in the first block that is not stored.
  for (let at = least * blockTokens; at < (least + 1) * blockTokens; at++) {
    if (a[at] !== b[at]) return 0;
  }
  let common = 0;
  while (common < most * blockTokens && a[common] === b[common]) common++;
  return Math.floor(common / blockTokens);
}
