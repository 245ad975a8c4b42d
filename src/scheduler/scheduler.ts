import { assert, EngineError, IntList } from "#base";
import type { KvCache } from "#kvcache";
import type { SchedulerConfig } from "./config.ts";
import type { PlannedSequence, SequenceUpdate, StepPlan } from "./plan.ts";
import { planStep } from "./planner.ts";
import { byPriority, WaitingQueue } from "./queue.ts";
import type { Sequence, SequenceId, SequenceState } from "./sequence.ts";
import { endAfterNewest, type SequenceEnd } from "./stop.ts";

/** What a scheduler decides over, and within which limits. */
export interface SchedulerOptions {
  readonly config: SchedulerConfig;
  /** Nobody else may change it. */
  readonly cache: KvCache;
  /** What the model allows; the configuration and the pool may lower it. */
  readonly contextTokensMax: number;
  /** Plan a sequence's next token while its last one is being drawn. Default: false. */
  readonly overlapSteps?: boolean;
}

/** The scheduler's books at one moment; counts of tokens and preemptions are since the start. */
export interface SchedulerStats {
  readonly running: number;
  readonly waiting: number;
  readonly freeBlocks: number;
  readonly heldBlocks: number;
  readonly cachedBlocks: number;
  readonly totalBlocks: number;
  readonly preemptions: number;
  /** Tokens of first admissions, and how many of them came from the cache. */
  readonly prefixQueriedTokens: number;
  readonly prefixHitTokens: number;
  /** The same for sequences that came back after a preemption. */
  readonly preemptedQueriedTokens: number;
  readonly preemptedHitTokens: number;
}

/** A step between `begin` and `commit`. */
interface BegunStep {
  readonly plan: StepPlan;
  /** Blocks made known to others while this was the newest step, in that order. */
  readonly published: IntList;
}

const WAITING: SequenceState = { phase: "waiting", for: "turn" };
const PREFILLING: SequenceState = { phase: "prefilling" };
const DECODING: SequenceState = { phase: "decoding" };

/**
 * Decides which tokens each step computes, and keeps every sequence's books. A step goes
 * `plan` (reads only), `begin` (blocks change hands), the device, `commit` (sequences grow and
 * end) or `fail`. Several steps may have begun; they run, and are committed, in order.
 */
export class Scheduler {
  /** Most tokens of a sequence, prompt included, by model, configuration and pool. */
  readonly contextTokensMax: number;
  readonly #config: SchedulerConfig;
  readonly #cache: KvCache;
  readonly #overlapSteps: boolean;
  readonly #sequences = new Map<SequenceId, Sequence>();
  readonly #waiting: WaitingQueue;
  /** In order of admission. */
  readonly #running: Sequence[] = [];
  readonly #begun: BegunStep[] = [];
  /** Counts changes, so that a plan made before one is not carried out behind it. */
  #revision = 0;
  #preemptions = 0;
  #queriedTokens = 0;
  #hitTokens = 0;
  #preemptedQueriedTokens = 0;
  #preemptedHitTokens = 0;

  constructor(options: SchedulerOptions) {
    const { config, cache } = options;
    // The last token of a sequence is drawn but never computed, so it needs no place in the pool.
    this.contextTokensMax = Math.min(
      options.contextTokensMax,
      config.contextTokensMax ?? options.contextTokensMax,
      cache.totalBlocks * cache.blockTokens + 1,
    );
    if (!config.chunkedPrefill && config.stepTokensMax < this.contextTokensMax) {
      throw new EngineError(
        "INVALID_ARGUMENT",
        `Cannot compute prompts in one step: stepTokensMax must be at least the context of ` +
          `${this.contextTokensMax} tokens, current value is ${config.stepTokensMax}; ` +
          `raise it, lower contextTokensMax, or turn chunkedPrefill on`,
        { param: "stepTokensMax" },
      );
    }
    this.#config = config;
    this.#cache = cache;
    this.#overlapSteps = options.overlapSteps ?? false;
    this.#waiting = new WaitingQueue(config.policy === "priority" ? byPriority : null);
  }

  /**
   * Queues sequences, all or none. Throws PROMPT_TOO_LONG for a prompt that leaves no room for a
   * new token in the context or the pool, QUEUE_FULL when too many wait already, INVALID_ARGUMENT
   * when these alone are too many.
   */
  add(...sequences: readonly Sequence[]): void {
    for (const sequence of sequences) this.#checkLength(sequence);
    this.#checkQueue(sequences.length);
    for (const sequence of sequences) {
      assert(!this.#sequences.has(sequence.id), "Cannot queue a sequence twice");
      this.#sequences.set(sequence.id, sequence);
      this.#waiting.add(sequence);
    }
    this.#revision++;
  }

  /** The live sequence of that id; null when it ended or never was. */
  find(id: SequenceId): Sequence | null {
    return this.#sequences.get(id) ?? null;
  }

  /** Its grammar is compiled: it may be admitted. Ignored when it does not wait for one. */
  grammarReady(id: SequenceId): void {
    const sequence = this.find(id);
    if (sequence?.state.phase !== "waiting") return;
    sequence.state = WAITING;
    this.#revision++;
  }

  /** Ends a sequence whose caller went away. Its blocks are given back now. */
  abort(id: SequenceId): Sequence | null {
    return this.finish(id, { reason: "abort", stopReason: null });
  }

  /**
   * Ends a sequence from outside: a stop string, a failed grammar, a caller that went away. Its
   * blocks are given back now, even while a step computes it: steps run in the order they began,
   * so whoever gets the blocks writes them later. What the step still draws is dropped. null when
   * the sequence had ended before.
   */
  finish(id: SequenceId, end: SequenceEnd): Sequence | null {
    const sequence = this.find(id);
    if (sequence === null) return null;
    this.#end(sequence, end);
    this.#revision++;
    return sequence;
  }

  /** What the next step should do. Changes nothing. */
  plan(): StepPlan {
    return planStep({
      config: this.#config,
      cache: this.#cache,
      contextTokensMax: this.contextTokensMax,
      overlapSteps: this.#overlapSteps,
      running: this.#running,
      waiting: this.#waiting,
      revision: this.#revision,
    });
  }

  /** Carries out the newest plan's decisions about blocks; its items can be computed then. */
  begin(plan: StepPlan, nowMs: number): void {
    assert(plan.revision === this.#revision, "Cannot begin a plan of another state");
    const step: BegunStep = { plan, published: new IntList() };
    this.#begun.push(step);
    for (const sequence of plan.preempted) this.#preempt(sequence);
    this.#admit(plan, nowMs);
    for (const item of plan.items) this.#beginItem(item, step);
    this.#revision++;
  }

  /**
   * Takes in what the oldest begun step drew: `drawn[i]` for `plan.items[i]`, one or more tokens
   * where the item samples, else none. Returns an update for each sequence that got tokens; late
   * tokens of ended sequences are dropped.
   */
  commit(
    plan: StepPlan,
    drawn: readonly (readonly number[])[],
    nowMs: number,
  ): readonly SequenceUpdate[] {
    const step = this.#begun[0];
    assert(step?.plan === plan, "Cannot commit a step before those that began earlier");
    assert(drawn.length === plan.items.length, "Cannot commit without an entry per item");
    const newest = this.#begun[this.#begun.length - 1] ?? step;
    const updates: SequenceUpdate[] = [];
    plan.items.forEach((item, index) => {
      const tokenIds = drawn[index] ?? [];
      assert(item.samples === tokenIds.length > 0, "Cannot commit: tokens do not fit the plan");
      if (!item.samples) return;
      item.sequence.awaitedTokens--;
      if (item.sequence.finished) return;
      updates.push(this.#append(item.sequence, tokenIds, newest, nowMs));
    });
    this.#begun.shift();
    this.#revision++;
    return updates;
  }

  /**
   * Ends, with an error, the sequences of a begun step that threw, and of the steps begun behind
   * it, which read what it never wrote. What they made known to others is forgotten. Returns the
   * sequences that ended now; all others go on.
   */
  fail(plan: StepPlan): readonly Sequence[] {
    const index = this.#begun.findIndex((step) => step.plan === plan);
    assert(index >= 0, "Cannot fail a step that has not begun");
    const ended: Sequence[] = [];
    const failed = this.#begun.splice(index);
    for (const step of failed.reverse()) {
      this.#cache.unpublish(step.published);
      for (const { sequence, samples } of step.plan.items) {
        if (samples) sequence.awaitedTokens--;
        if (sequence.finished) continue;
        this.#end(sequence, { reason: "error", stopReason: null });
        ended.push(sequence);
      }
    }
    this.#revision++;
    return ended;
  }

  /** Takes the blocks of all running sequences; they wait again, in the same order. */
  preemptAll(): void {
    for (const sequence of this.#running.slice().reverse()) this.#preempt(sequence);
    this.#revision++;
  }

  /** Forgets all cached prefixes; false, and nothing happens, while sequences hold blocks. */
  resetPrefixCache(): boolean {
    const done = this.#cache.reset();
    this.#revision++;
    return done;
  }

  stats(): SchedulerStats {
    const { free, held, cached, total } = this.#cache.counts();
    return {
      running: this.#running.length,
      waiting: this.#waiting.length,
      freeBlocks: free,
      heldBlocks: held,
      cachedBlocks: cached,
      totalBlocks: total,
      preemptions: this.#preemptions,
      prefixQueriedTokens: this.#queriedTokens,
      prefixHitTokens: this.#hitTokens,
      preemptedQueriedTokens: this.#preemptedQueriedTokens,
      preemptedHitTokens: this.#preemptedHitTokens,
    };
  }

  /** Checks that sequences, queues and blocks agree. Costs a scan of the pool; for tests. */
  audit(): void {
    const waiting = [...this.#waiting];
    assert(
      this.#sequences.size === waiting.length + this.#running.length,
      "A sequence is in no queue, or in two",
    );
    for (const sequence of waiting) {
      assert(sequence.state.phase === "waiting", "A sequence that runs is in the queue");
      assert(sequence.blockTable.length === 0, "A waiting sequence holds blocks");
    }
    for (const { state, blockTable, computedTokens } of this.#running) {
      assert(state.phase === "prefilling" || state.phase === "decoding", "An idle sequence runs");
      const blocks = this.#cache.blocksFor(computedTokens);
      assert(blockTable.length === blocks, "A sequence holds more or fewer blocks than it fills");
    }
    this.#cache.audit(this.#running.map((sequence) => sequence.blockTable));
  }

  #checkLength(sequence: Sequence): void {
    assert(sequence.promptLength > 0, "Cannot continue an empty prompt");
    const most = this.contextTokensMax - 1;
    if (sequence.promptLength <= most) return;
    throw new EngineError(
      "PROMPT_TOO_LONG",
      `Cannot admit request: prompt must fit ${most} tokens, ` +
        `current value is ${sequence.promptLength}; shorten it`,
      { param: "prompt" },
    );
  }

  #checkQueue(coming: number): void {
    const most = this.#config.waitingSequencesMax;
    const waiting = this.#waiting.length + coming;
    if (waiting <= most) return;
    const cannot = `Cannot queue request: at most ${most} sequences may wait, current value is`;
    if (coming > most)
      throw new EngineError("INVALID_ARGUMENT", `${cannot} ${coming}; ask for less`);
    throw new EngineError("QUEUE_FULL", `${cannot} ${waiting}; try again later`);
  }

  /** First all stored prefixes, so that no allocation of this step evicts one of them. */
  #admit(plan: StepPlan, nowMs: number): void {
    const admitted = new Set<Sequence>();
    for (const { sequence, start, admission } of plan.items) {
      if (admission === null) continue;
      admitted.add(sequence);
      this.#cache.adopt(sequence.blockTable, admission);
      this.#countQuery(sequence, start);
      sequence.computedTokens = start;
      sequence.firstScheduledMs ??= nowMs;
      sequence.state = PREFILLING;
      this.#running.push(sequence);
    }
    if (admitted.size > 0) this.#waiting.removeAll(admitted);
  }

  #countQuery(sequence: Sequence, hitTokens: number): void {
    if (sequence.preemptions === 0) sequence.cachedTokens = hitTokens;
    if (sequence.skipReadingPrefixCache || !this.#cache.prefixCaching) return;
    if (sequence.preemptions === 0) {
      this.#queriedTokens += sequence.tokens.length;
      this.#hitTokens += hitTokens;
    } else {
      this.#preemptedQueriedTokens += sequence.tokens.length;
      this.#preemptedHitTokens += hitTokens;
    }
  }

  #beginItem(item: PlannedSequence, step: BegunStep): void {
    const { sequence, start, count } = item;
    const { blockTable, tokens } = sequence;
    const shared = start / this.#cache.blockTokens;
    if (item.admission !== null && blockTable.length < shared) {
      this.#cache.extend(blockTable, tokens.view(), shared);
    }
    const blocks = this.#cache.blocksFor(start + count) - blockTable.length;
    const allocated = blocks <= 0 || this.#cache.allocate(blockTable, blocks);
    assert(allocated, "A plan asked for more blocks than there are");
    sequence.computedTokens = start + count;
    if (item.samples) sequence.awaitedTokens++;
    this.#publish(sequence, step);
  }

  /** Makes full blocks known as soon as their tokens are: steps that begin later may read them. */
  #publish(sequence: Sequence, step: BegunStep): void {
    const { blockTable, tokens, computedTokens } = sequence;
    const before = blockTable.publishedBlocks;
    this.#cache.publish(blockTable, tokens, Math.min(computedTokens, tokens.length));
    for (let index = before; index < blockTable.publishedBlocks; index++) {
      step.published.push(blockTable.get(index));
    }
  }

  #append(
    sequence: Sequence,
    tokenIds: readonly number[],
    newest: BegunStep,
    nowMs: number,
  ): SequenceUpdate {
    const context = {
      promptLength: sequence.promptLength,
      contextTokensMax: this.contextTokensMax,
    };
    sequence.firstTokenMs ??= nowMs;
    let kept = 0;
    let end: SequenceEnd | null = null;
    for (; kept < tokenIds.length && end === null; kept++) {
      sequence.tokens.push(tokenIds[kept] ?? 0);
      end = endAfterNewest(sequence.tokens, sequence.stop, context);
    }
    this.#publish(sequence, newest);
    if (end !== null) this.#end(sequence, end);
    else if (sequence.state.phase === "prefilling") sequence.state = DECODING;
    const keptIds = kept === tokenIds.length ? tokenIds : tokenIds.slice(0, kept);
    return { sequence, tokenIds: keptIds, finished: end !== null };
  }

  #preempt(sequence: Sequence): void {
    this.#stopRunning(sequence);
    sequence.state = WAITING;
    sequence.preemptions++;
    this.#preemptions++;
    this.#waiting.addBack(sequence);
  }

  #end(sequence: Sequence, end: SequenceEnd): void {
    if (sequence.state.phase === "waiting") this.#waiting.remove(sequence);
    else this.#stopRunning(sequence);
    sequence.state = { phase: "finished", ...end };
    this.#sequences.delete(sequence.id);
  }

  #stopRunning(sequence: Sequence): void {
    const index = this.#running.lastIndexOf(sequence);
    assert(index >= 0, "Cannot stop a sequence that does not run");
    this.#running.splice(index, 1);
    this.#cache.release(sequence.blockTable);
    sequence.computedTokens = 0;
  }
}
