import { assert, EngineError } from "#base";
import type { KvCache } from "#kvcache";
import { type BeamContinuation, checkBeams, regroup } from "./beams.ts";
import { BlockNeeds } from "./block-needs.ts";
import type { SchedulerConfig } from "./config.ts";
import type { SequenceUpdate, StepPlan } from "./plan.ts";
import { planStep } from "./planner.ts";
import type { Sequence, SequenceId } from "./sequence.ts";
import { SequenceBooks } from "./sequence-books.ts";
import type { SequenceGroup } from "./sequence-group.ts";
import { SequenceGrowth } from "./sequence-growth.ts";
import { DECODING, type SequenceState, WAITING } from "./sequence-state.ts";
import { StatsBook, type StatsSinceStart } from "./stats-book.ts";
import { StepLog } from "./step-log.ts";
import { StepStarter } from "./step-starter.ts";
import type { SequenceEnd } from "./stop.ts";
import type { TransferEstimates } from "./transfer-estimates.ts";

/** The parts and limits of a scheduler. */
export interface SchedulerOptions {
  readonly config: SchedulerConfig;
  /** Only the scheduler may change it. */
  readonly cache: KvCache;
  /** The model's limit; the configuration and the pool may lower it. */
  readonly contextTokensMax: number;
  /** Plan a sequence's next token while its last one is being sampled. Default: false. */
  readonly overlapSteps?: boolean;
  /**
   * Rows of which one step can sample: one per sequence, and one per drafted token. Default:
   * `runningSequencesMax`, so that drafts get the rows that no sequence needs.
   */
  readonly sampledRowsMax?: number;
  /** Costs of moving contents. Without them preempted sequences are computed again. */
  readonly estimates?: TransferEstimates | null;
}

/** The scheduler's state at one moment; its counts are since the start. */
export interface SchedulerStats extends StatsSinceStart {
  readonly running: number;
  readonly waiting: number;
  /** Of both, sequences whose reader is behind; prompt tokens to be computed or found. */
  readonly paused: number;
  readonly uncomputedTokens: number;
  readonly freeBlocks: number;
  readonly heldBlocks: number;
  readonly cachedBlocks: number;
  readonly totalBlocks: number;
}

/** Advice for a prompt that the pool has no room for. */
const MORE_ROOM = "shorten it, or raise poolBytes";

/**
 * Decides which tokens each step computes, and keeps every sequence's state. A step passes `plan`
 * (reads only), `begin` (allocates and releases blocks), the device, `commit` (sequences grow and
 * end) or `fail`. Several steps may have begun; they run, and are committed, in order.
 */
export class Scheduler {
  /** Most tokens of a sequence, prompt included, by model, configuration and pool. */
  readonly contextTokensMax: number;
  readonly #config: SchedulerConfig;
  readonly #cache: KvCache;
  readonly #overlapSteps: boolean;
  readonly #estimates: TransferEstimates | null;
  readonly #needs: BlockNeeds;
  readonly #books: SequenceBooks;
  readonly #log: StepLog;
  readonly #stats = new StatsBook();
  readonly #starter: StepStarter;
  readonly #growth: SequenceGrowth;
  readonly #sampledRowsMax: number;
  #drafts = false;
  /** Counts changes, so that a plan made before one is not carried out behind it. */
  #revision = 0;

  constructor(options: SchedulerOptions) {
    const { config, cache } = options;
    this.#needs = new BlockNeeds(cache, config);
    this.contextTokensMax = Math.min(
      options.contextTokensMax,
      config.contextTokensMax ?? options.contextTokensMax,
      // The last token is sampled but never computed, so it needs no place in the pool.
      this.#needs.poolTokens + 1,
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
    const parts = { cache, books: this.#books, log: this.#log };
    this.#starter = new StepStarter({ ...parts, stats: this.#stats });
    this.#growth = new SequenceGrowth({ ...parts, contextTokensMax: this.contextTokensMax });
    this.#sampledRowsMax = options.sampledRowsMax ?? config.runningSequencesMax;
  }

  /**
   * Queues the sequences of requests, all or none. Throws PROMPT_TOO_LONG for a prompt that leaves
   * no room for a new token in the context or the pool, and for beams that the pool can never hold
   * together; QUEUE_FULL when too many wait already; INVALID_ARGUMENT when these alone are too many
   * to wait, or beams too many to run.
   */
  add(...groups: readonly SequenceGroup[]): void {
    for (const group of groups) {
      this.#checkLength(Math.max(...group.sequences.map(({ tokens }) => tokens.length)));
      this.#checkBeams(group);
    }
    const sequences = groups.reduce((sum, group) => sum + group.sequences.length, 0);
    this.#checkQueue(groups.length, sequences);
    for (const group of groups) this.#books.add(group);
    this.#revision++;
  }

  /** What `add` would throw, before sequences are made. `length`: with tokens from elsewhere. */
  checkRoom(length: number, sequences: number): void {
    this.#checkLength(length);
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
   * A sequence's load from disk ended, or failed: it may be admitted, with the blocks that there
   * are. Ignored when it does not wait for one.
   */
  loadDone(id: SequenceId): void {
    const sequence = this.find(id);
    if (sequence?.state.phase !== "waiting" || sequence.state.for !== "load") return;
    sequence.state = WAITING;
    this.#revision++;
  }

  /**
   * The group's reader is behind: it computes nothing until `resume`, keeps its blocks, and is the
   * first to be preempted. Tokens of steps under way still arrive. A search has no reader before
   * its end, and goes on.
   */
  pause(group: SequenceGroup): void {
    if (group.kind === "beams" || group.paused || group.live.length === 0) return;
    this.#books.pause(group);
    this.#revision++;
  }

  /** Undoes `pause`: the group goes on from where it is, or was when it was preempted. */
  resume(group: SequenceGroup): void {
    if (!group.paused) return;
    this.#books.unpause(group);
    this.#revision++;
  }

  /** Ends a sequence whose caller went away. Its blocks are released now. */
  abort(id: SequenceId): Sequence | null {
    return this.finish(id, { reason: "abort", stopReason: null });
  }

  /**
   * Ends a sequence from outside: a stop string, a failed grammar, a caller that went away. Its
   * blocks are released now, even while a step computes it: steps run in the order they began, so
   * the next holders write the blocks later. Tokens that the step still samples are dropped. null
   * when the sequence had ended before.
   */
  finish(id: SequenceId, end: SequenceEnd): Sequence | null {
    const sequence = this.find(id);
    if (sequence === null) return null;
    // A step under way may yet fail: its part of the last block may not be written.
    const tail = this.#log.isEmpty && end.reason !== "error" && !sequence.isBeam;
    this.#books.end(sequence, end, { tail });
    this.#revision++;
    return sequence;
  }

  /** Drafted tokens behind the newest one, the likeliest continuation first (SC31). */
  propose(id: SequenceId, draftTokens: number, likelyTokens = draftTokens): void {
    const sequence = this.find(id);
    if (sequence === null || sequence.draftTokens + draftTokens === 0) return;
    sequence.draftTokens = draftTokens;
    sequence.likelyTokens = likelyTokens;
    this.#drafts = true;
    this.#revision++;
  }

  /** Plans the next step (SC29 for `prefillTokensMax`). Changes nothing. */
  plan(prefillTokensMax = Number.POSITIVE_INFINITY): StepPlan {
    assert(!this.#log.verifies, "Cannot plan while a step verifies drafts: commit it first");
    return planStep({
      config: this.#config,
      cache: this.#cache,
      contextTokensMax: this.contextTokensMax,
      overlapSteps: this.#overlapSteps,
      estimates: this.#estimates,
      needs: this.#needs,
      running: this.#books.running,
      waiting: this.#books.waiting,
      swapped: this.#books.swapped,
      reservedSeats: this.#books.reservedSeats,
      prefillTokensMax,
      sampledRowsMax: this.#sampledRowsMax,
      drafts: this.#drafts,
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
   * Commits the tokens that the oldest begun step sampled: `sampled[i]` for `plan.items[i]`, one or
   * more tokens where the item samples, else none. A beam's item has none either way:
   * `continueBeams` continues the search. Returns an update for each sequence that got tokens; late
   * tokens of ended sequences are dropped.
   */
  commit(
    plan: StepPlan,
    sampled: readonly (readonly number[] | null)[],
    nowMs: number,
  ): readonly SequenceUpdate[] {
    this.#log.checkOldest(plan);
    assert(sampled.length === plan.items.length, "Cannot commit without an entry per item");
    const { newest } = this.#log;
    const updates: SequenceUpdate[] = [];
    plan.items.forEach(({ sequence, samples, drafted }, index) => {
      const tokenIds = sampled[index] ?? [];
      const hasTokens = samples && !sequence.isBeam;
      assert(hasTokens === tokenIds.length > 0, "Cannot commit: tokens do not fit the plan");
      const tooMany = drafted > 0 && tokenIds.length > drafted + 1;
      assert(!tooMany, "Cannot commit more tokens than were sampled");
      if (!hasTokens) return;
      sequence.awaitedTokens--;
      if (!sequence.finished) updates.push(this.#growth.append(sequence, tokenIds, newest, nowMs));
    });
    this.#log.commitOldest();
    this.#revision++;
    return updates;
  }

  /**
   * Continues a search whose beams sampled in the step that was committed last: each hypothesis of
   * `next`, at most as many as there are live beams, gets a sequence, which then has its tokens and
   * shares its blocks. Returns these in order; beams that are left over have ended. Stop rules do
   * not apply: when the search is over the caller ends it with `finishGroup`.
   */
  continueBeams(
    group: SequenceGroup,
    next: readonly BeamContinuation[],
    nowMs: number,
  ): readonly Sequence[] {
    assert(group.kind === "beams", "Cannot regroup sequences that are not beams");
    const beams = regroup(group, next, this.#cache);
    for (const sequence of group.live) {
      sequence.awaitedTokens = 0;
      sequence.firstTokenMs ??= nowMs;
      if (!beams.includes(sequence)) {
        this.#books.end(sequence, { reason: "stop", stopReason: null }, { tail: false });
      } else if (sequence.state.phase === "prefilling") {
        sequence.state = DECODING;
      }
    }
    this.#revision++;
    return beams;
  }

  /** Ends all live sequences of a group. */
  finishGroup(group: SequenceGroup, end: SequenceEnd): void {
    for (const { id } of group.live.toReversed()) this.finish(id, end);
  }

  /**
   * Ends, with an error, the sequences of a begun step that threw, and of the steps begun behind
   * it, which read blocks that it never wrote. The blocks that they published are forgotten.
   * Returns the sequences that ended now; all others go on.
   */
  fail(plan: StepPlan): readonly Sequence[] {
    const ended: Sequence[] = [];
    for (const step of this.#log.fail(plan)) {
      for (const { sequence, samples } of step.plan.items) {
        if (samples) sequence.awaitedTokens--;
        if (sequence.finished) continue;
        // Sequences that wait to fork from it would wait for ever.
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

  /** Preempts all sequences; they wait again, in the same order. */
  preemptAll(): void {
    const running = this.#books.running.slice();
    this.#books.unswap([...this.#books.swapped]);
    this.#books.preempt(running, "recompute");
    this.#stats.preempted(running.length, "recompute");
    this.#revision++;
  }

  /** Forgets all cached prefixes; false, and nothing happens, while sequences hold blocks. */
  resetPrefixCache(): boolean {
    const done = this.#cache.reset();
    this.#revision++;
    return done;
  }

  stats(): SchedulerStats {
    const { free, held, cached, total } = this.#cache.poolStats();
    return {
      ...this.#stats.sinceStart(),
      running: this.#books.running.length,
      waiting: this.#books.waitingCount,
      paused: this.#books.pausedCount,
      uncomputedTokens: this.#books.uncomputedTokens,
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

  /** Moves of a failed step may not have happened: their sequences are computed again. */
  #undoSwaps(plan: StepPlan): void {
    for (const { sequences } of plan.preempted) {
      this.#books.unswap(sequences.filter(({ blockTable }) => blockTable.swapped));
    }
    const returned = plan.returning.filter(({ state }) => isRunning(state));
    this.#books.preempt(returned, "recompute");
  }

  #checkLength(length: number): void {
    assert(length > 0, "Cannot continue an empty prompt");
    const most = this.contextTokensMax - 1;
    if (length > most) {
      // Otherwise it is the model or the configuration that bounds sequences.
      const isPoolBound = most === this.#needs.poolTokens;
      throw new EngineError(
        "PROMPT_TOO_LONG",
        `Cannot admit request: prompt must fit ${most} tokens, ` +
          `current value is ${length}; ${isPoolBound ? MORE_ROOM : "shorten it"}`,
        { param: "prompt" },
      );
    }
  }

  #checkBeams(group: SequenceGroup): void {
    if (group.kind === "samples") return;
    const { runningSequencesMax } = this.#config;
    const limits = { cache: this.#cache, needs: this.#needs, runningSequencesMax };
    checkBeams(group, { ...limits, contextTokensMax: this.contextTokensMax });
  }

  /** Further samples and paused groups do not count as requests: they leave the queue to others. */
  #checkQueue(coming: number, sequences: number): void {
    const most = this.#config.waitingSequencesMax;
    if (this.#books.waitingCount + sequences <= most) return;
    const cannot = `Cannot queue request: at most ${most} sequences may wait, current value is`;
    if (sequences > most) {
      throw new EngineError("INVALID_ARGUMENT", `${cannot} ${sequences}; ask for fewer`);
    }
    const waiting = this.#books.countWaiting();
    const requests = waiting.requests + coming;
    const samples = waiting.samples + sequences - coming;
    if (Math.max(requests, samples) <= most) return;
    const current = requests > most ? requests : samples;
    throw new EngineError("QUEUE_FULL", `${cannot} ${current}; try again later`);
  }
}

function isRunning({ phase }: SequenceState): boolean {
  return phase === "prefilling" || phase === "decoding";
}
