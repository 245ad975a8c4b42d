import { assert, EngineError } from "#base";
import type { KvCache } from "#kvcache";
import { type BeamContinuation, checkBeams, regroup } from "./beams.ts";
import type { SchedulerConfig } from "./config.ts";
import type { SequenceUpdate, StepPlan } from "./plan.ts";
import { planStep } from "./planner.ts";
import type { Sequence, SequenceId } from "./sequence.ts";
import { SequenceBooks } from "./sequence-books.ts";
import type { SequenceGroup } from "./sequence-group.ts";
import { DECODING, type SequenceState, WAITING } from "./sequence-state.ts";
import { type SchedulerCounts, SchedulerStatistics } from "./statistics.ts";
import { type BegunStep, StepLog } from "./step-log.ts";
import { StepStarter } from "./step-starter.ts";
import { endAfterNewest, type SequenceEnd } from "./stop.ts";
import type { TransferEstimates } from "./transfer-estimates.ts";
import { type WindowBound, windowBound } from "./window-bound.ts";

/** What a scheduler decides over, and within which limits. */
export interface SchedulerOptions {
  readonly config: SchedulerConfig;
  /** Nobody else may change it. */
  readonly cache: KvCache;
  /** What the model allows; the configuration and the pool may lower it. */
  readonly contextTokensMax: number;
  /** Plan a sequence's next token while its last one is being drawn. Default: false. */
  readonly overlapSteps?: boolean;
  /** What moving contents costs. Without them preempted sequences are computed again. */
  readonly estimates?: TransferEstimates | null;
}

/** The scheduler's books at one moment; its counts are since the start. */
export interface SchedulerStats extends SchedulerCounts {
  readonly running: number;
  readonly waiting: number;
  /** Of both, those whose reader is behind. */
  readonly paused: number;
  readonly freeBlocks: number;
  readonly heldBlocks: number;
  readonly cachedBlocks: number;
  readonly totalBlocks: number;
}

/** What helps a prompt that the pool has no room for. */
const MORE_ROOM = "shorten it, or raise poolBytes";

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
  readonly #estimates: TransferEstimates | null;
  readonly #windowBound: WindowBound | null;
  readonly #books: SequenceBooks;
  readonly #log: StepLog;
  readonly #statistics = new SchedulerStatistics();
  readonly #starter: StepStarter;
  /** Counts changes, so that a plan made before one is not carried out behind it. */
  #revision = 0;

  constructor(options: SchedulerOptions) {
    const { config, cache } = options;
    this.#windowBound = windowBound(cache, config);
    // The last token of a sequence is drawn but never computed, so it needs no place in the pool.
    const poolTokens = cache.totalBlocks * cache.blockTokens + 1;
    this.contextTokensMax = Math.min(
      options.contextTokensMax,
      config.contextTokensMax ?? options.contextTokensMax,
      this.#windowBound === null ? poolTokens : Number.POSITIVE_INFINITY,
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
    this.#estimates = options.estimates ?? null;
    this.#books = new SequenceBooks(config, cache);
    this.#log = new StepLog(cache);
    this.#starter = new StepStarter({
      cache,
      books: this.#books,
      log: this.#log,
      statistics: this.#statistics,
    });
  }

  /**
   * Queues the sequences of requests, all or none. Throws PROMPT_TOO_LONG for a prompt that leaves
   * no room for a new token in the context or the pool, and for beams that the pool can never hold
   * together; QUEUE_FULL when too many wait already; INVALID_ARGUMENT when these alone are too many
   * to wait, or beams too many to run.
   */
  add(...groups: readonly SequenceGroup[]): void {
    for (const group of groups) {
      this.#checkLength(group.lead.promptLength);
      this.#checkBeams(group);
    }
    const sequences = groups.reduce((sum, group) => sum + group.sequences.length, 0);
    this.#checkQueue(groups.length, sequences);
    for (const group of groups) this.#books.add(group);
    this.#revision++;
  }

  /** Throws what `add` would for so long a prompt and so many sequences, before they are made. */
  checkRoom(promptLength: number, sequences: number): void {
    this.#checkLength(promptLength);
    this.#checkQueue(1, sequences);
  }

  /** The live sequence of that id; null when it ended or never was. */
  find(id: SequenceId): Sequence | null {
    return this.#books.find(id);
  }

  /** Its grammar is compiled: it may be admitted. Ignored when it does not wait for one. */
  grammarReady(id: SequenceId): void {
    const sequence = this.find(id);
    if (sequence?.state.phase !== "waiting" || sequence.state.for !== "grammar") return;
    sequence.state = WAITING;
    this.#revision++;
  }

  /**
   * What was fetched from disk for a sequence is there, or could not be: it may be admitted, with
   * what there is. Ignored when it does not wait for that.
   */
  loadDone(id: SequenceId): void {
    const sequence = this.find(id);
    if (sequence?.state.phase !== "waiting" || sequence.state.for !== "load") return;
    sequence.state = WAITING;
    this.#revision++;
  }

  /**
   * Its reader is behind: the group computes nothing until `resume`, holds what it has, and is the
   * first to give way. What steps under way draw for it still comes. A search has no reader before
   * its end, and goes on.
   */
  pause(group: SequenceGroup): void {
    if (group.kind === "beams" || group.paused || group.live.length === 0) return;
    this.#books.pause(group);
    this.#revision++;
  }

  /** Undoes `pause`: the group goes on from where it is, or was when it gave way. */
  resume(group: SequenceGroup): void {
    if (!group.paused) return;
    this.#books.unpause(group);
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
    // A step under way may yet fail: what it writes of the last block is not known to be there.
    const tail = this.#log.isEmpty && end.reason !== "error" && !sequence.isBeam;
    this.#books.end(sequence, end, { tail });
    this.#revision++;
    return sequence;
  }

  /** What the next step should do (SC29 for `prefillTokensMax`). Changes nothing. */
  plan(prefillTokensMax = Number.POSITIVE_INFINITY): StepPlan {
    return planStep({
      config: this.#config,
      cache: this.#cache,
      contextTokensMax: this.contextTokensMax,
      overlapSteps: this.#overlapSteps,
      estimates: this.#estimates,
      windowBound: this.#windowBound,
      running: this.#books.running,
      waiting: this.#books.waiting,
      swapped: this.#books.swapped,
      reservedSlots: this.#books.reservedSlots,
      prefillTokensMax,
      revision: this.#revision,
    });
  }

  /** Carries out the newest plan's decisions about blocks; its items can be computed then. */
  begin(plan: StepPlan, nowMs: number): void {
    assert(plan.revision === this.#revision, "Cannot begin a plan of another state");
    this.#starter.start(plan, nowMs);
    this.#revision++;
  }

  /**
   * Takes in what the oldest begun step drew: `drawn[i]` for `plan.items[i]`, one or more tokens
   * where the item samples, else none. A beam's item brings none either way: `continueBeams` says
   * how the search goes on. Returns an update for each sequence that got tokens; late tokens of
   * ended sequences are dropped.
   */
  commit(
    plan: StepPlan,
    drawn: readonly (readonly number[] | null)[],
    nowMs: number,
  ): readonly SequenceUpdate[] {
    this.#log.checkOldest(plan);
    assert(drawn.length === plan.items.length, "Cannot commit without an entry per item");
    const { newest } = this.#log;
    const updates: SequenceUpdate[] = [];
    plan.items.forEach(({ sequence, samples }, index) => {
      const tokenIds = drawn[index] ?? [];
      const draws = samples && !sequence.isBeam;
      assert(draws === tokenIds.length > 0, "Cannot commit: tokens do not fit the plan");
      if (!draws) return;
      sequence.awaitedTokens--;
      if (!sequence.finished) updates.push(this.#append(sequence, tokenIds, newest, nowMs));
    });
    this.#log.commitOldest();
    this.#revision++;
    return updates;
  }

  /**
   * Goes on with a search whose beams drew in the step that was committed last: each hypothesis of
   * `next`, at most as many as there are live beams, gets a sequence, which then has its tokens
   * and shares its blocks. Returns these in order; beams that are left over have ended. Stop rules
   * do not apply: when the search is over the caller ends it with `finishGroup`.
   */
  continueBeams(
    group: SequenceGroup,
    next: readonly BeamContinuation[],
    nowMs: number,
  ): readonly Sequence[] {
    assert(group.kind === "beams", "Cannot regroup sequences that are not beams");
    const slots = regroup(group, next, this.#cache);
    for (const sequence of group.live) {
      sequence.awaitedTokens = 0;
      sequence.firstTokenMs ??= nowMs;
      if (!slots.includes(sequence)) {
        this.#books.end(sequence, { reason: "stop", stopReason: null }, { tail: false });
      } else if (sequence.state.phase === "prefilling") {
        sequence.state = DECODING;
      }
    }
    this.#revision++;
    return slots;
  }

  /** Ends all live sequences of a group. */
  finishGroup(group: SequenceGroup, end: SequenceEnd): void {
    for (const { id } of group.live.toReversed()) this.finish(id, end);
  }

  /**
   * Ends, with an error, the sequences of a begun step that threw, and of the steps begun behind
   * it, which read what it never wrote. What they made known to others is forgotten. Returns the
   * sequences that ended now; all others go on.
   */
  fail(plan: StepPlan): readonly Sequence[] {
    const ended: Sequence[] = [];
    for (const step of this.#log.fail(plan)) {
      for (const { sequence, samples } of step.plan.items) {
        if (samples) sequence.awaitedTokens--;
        if (sequence.finished) continue;
        // Who waits for a fork of it would wait for nothing.
        for (const ending of [...sequence.group.awaitingFork.toReversed(), sequence]) {
          this.#books.end(ending, { reason: "error", stopReason: null }, { tail: false });
          ended.push(ending);
        }
      }
      this.#undoSwaps(step.plan);
    }
    this.#revision++;
    return ended;
  }

  /** Takes the blocks of all sequences; they wait again, in the same order. */
  preemptAll(): void {
    const running = this.#books.running.slice();
    this.#books.unswap([...this.#books.swapped]);
    this.#books.preempt(running, "recompute");
    this.#statistics.preempted(running.length, "recompute");
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
      ...this.#statistics.counts(),
      running: this.#books.running.length,
      waiting: this.#books.waitingCount,
      paused: this.#books.pausedCount,
      freeBlocks: free,
      heldBlocks: held,
      cachedBlocks: cached,
      totalBlocks: total,
    };
  }

  /** Checks that sequences, queues and blocks agree. Costs a scan of the pool; for tests. */
  audit(): void {
    this.#books.audit();
  }

  /** What a failed step was to move may not have moved: its owners are computed again. */
  #undoSwaps(plan: StepPlan): void {
    for (const { sequences } of plan.preempted) {
      this.#books.unswap(sequences.filter(({ blockTable }) => blockTable.swapped));
    }
    const returned = plan.returning.filter(({ state }) => isRunning(state));
    this.#books.preempt(returned, "recompute");
  }

  #checkLength(promptLength: number): void {
    assert(promptLength > 0, "Cannot continue an empty prompt");
    const most = this.contextTokensMax - 1;
    if (promptLength > most) {
      const { totalBlocks, blockTokens } = this.#cache;
      // Otherwise it is the model or the configuration that bounds sequences.
      const isPoolBound = most === totalBlocks * blockTokens;
      throw new EngineError(
        "PROMPT_TOO_LONG",
        `Cannot admit request: prompt must fit ${most} tokens, ` +
          `current value is ${promptLength}; ${isPoolBound ? MORE_ROOM : "shorten it"}`,
        { param: "prompt" },
      );
    }
  }

  #checkBeams(group: SequenceGroup): void {
    if (group.kind === "samples") return;
    const { contextTokensMax } = this;
    const { runningSequencesMax } = this.#config;
    checkBeams(group, { cache: this.#cache, contextTokensMax, runningSequencesMax });
  }

  /** Many samples of one request leave the queue to others, and so do paused readers. */
  #checkQueue(coming: number, sequences: number): void {
    const most = this.#config.waitingSequencesMax;
    if (this.#books.waitingCount + sequences <= most) return;
    const cannot = `Cannot queue request: at most ${most} sequences may wait, current value is`;
    if (sequences > most) {
      throw new EngineError("INVALID_ARGUMENT", `${cannot} ${sequences}; ask for less`);
    }
    const waiting = this.#books.countWaiting();
    const requests = waiting.requests + coming;
    const samples = waiting.samples + sequences - coming;
    if (Math.max(requests, samples) <= most) return;
    const current = requests > most ? requests : samples;
    throw new EngineError("QUEUE_FULL", `${cannot} ${current}; try again later`);
  }

  #append(
    sequence: Sequence,
    tokenIds: readonly number[],
    newest: BegunStep,
    nowMs: number,
  ): SequenceUpdate {
    const { promptLength } = sequence;
    const context = { promptLength, contextTokensMax: this.contextTokensMax };
    sequence.firstTokenMs ??= nowMs;
    let kept = 0;
    let end: SequenceEnd | null = null;
    for (; kept < tokenIds.length && end === null; kept++) {
      sequence.tokens.push(tokenIds[kept] ?? 0);
      end = endAfterNewest(sequence.tokens, sequence.stop, context);
    }
    this.#log.publish(sequence, newest);
    if (end !== null) this.#books.end(sequence, end, { tail: true });
    else if (sequence.state.phase === "prefilling") sequence.state = DECODING;
    const keptIds = kept === tokenIds.length ? tokenIds : tokenIds.slice(0, kept);
    return { sequence, tokenIds: keptIds, finished: end !== null };
  }
}

function isRunning({ phase }: SequenceState): boolean {
  return phase === "prefilling" || phase === "decoding";
}
