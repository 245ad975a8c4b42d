/** Carries a plan out: allocates and releases blocks, so that the step's items can be computed. */
import { assert } from "#base";
import type { KvCache } from "#kvcache";
import type { PlannedLoad, PlannedSequence, StepPlan } from "./plan.ts";
import type { Sequence } from "./sequence.ts";
import type { SequenceBooks } from "./sequence-books.ts";
import { WAITING_FOR_LOAD } from "./sequence-state.ts";
import type { StatsBook } from "./stats-book.ts";
import type { BegunStep, StepLog } from "./step-log.ts";

/** The parts of a starter. */
export interface StepStarterParts {
  readonly cache: KvCache;
  readonly books: SequenceBooks;
  readonly log: StepLog;
  readonly stats: StatsBook;
}

/** Carries out the decisions of a plan. It cannot fail: the plan counted the blocks. */
export class StepStarter {
  readonly #parts: StepStarterParts;

  constructor(parts: StepStarterParts) {
    this.#parts = parts;
  }

  /** Starts the step of the newest plan. */
  start(plan: StepPlan, nowMs: number): void {
    const { cache, books, log, stats } = this.#parts;
    cache.advance(nowMs);
    const step = log.begin(plan);
    for (const { sequences, mode } of plan.preempted) {
      books.preempt(sequences, mode);
      stats.preempted(sequences.length, mode);
    }
    this.#admit(plan, nowMs);
    for (const load of plan.loads) this.#load(load);
    for (const item of plan.items) {
      if (item.forkOf === null) this.#startItem(item, plan, step);
      else this.#startFork(item, nowMs);
    }
    if (cache.hasWindow) this.#dropUnseen(plan);
  }

  /** Holds all stored prefixes first, so that no allocation of this step evicts one of them. */
  #admit(plan: StepPlan, nowMs: number): void {
    const { cache, books } = this.#parts;
    // Most steps admit none.
    let admitted: Set<Sequence> | null = null;
    for (const { sequence, admission } of plan.items) {
      if (admission === null) continue;
      admitted ??= new Set();
      admitted.add(sequence);
      cache.hold(sequence.blockTable, admission);
    }
    books.resume(plan.returning);
    for (const sequence of plan.returning) this.#retain(sequence, 0);
    if (admitted === null) return;
    for (const { sequence, start, admission } of plan.items) {
      if (admission === null) continue;
      cache.settle(sequence.blockTable, admission);
      this.#countQuery(sequence, start);
      sequence.computedTokens = start;
      sequence.firstScheduledMs ??= nowMs;
    }
    books.admit(admitted);
  }

  /** Where host memory has no room for the blocks on disk they are computed instead. */
  #load({ sequence, match }: PlannedLoad): void {
    sequence.loaded = true;
    if (!this.#parts.cache.startLoad(match, sequence.id)) return;
    sequence.state = WAITING_FOR_LOAD;
    this.#parts.stats.loading();
  }

  /** A sequence that resumes is counted separately: it finds the blocks that it stored itself. */
  #countQuery(sequence: Sequence, hitTokens: number): void {
    if (sequence.preemptions === 0) {
      sequence.cachedTokens = Math.min(hitTokens, sequence.promptLength);
    }
    const reads = sequence.group.forked || !sequence.skipReadingPrefixCache;
    if (reads && this.#parts.cache.prefixCaching) {
      this.#parts.stats.queried(sequence, hitTokens);
    }
  }

  /**
   * Gives the sequence the blocks that its positions of this step need: those that an earlier item
   * computes, a copy of one that it shares, new ones. Its full blocks are published from here on.
   */
  #startItem(item: PlannedSequence, plan: StepPlan, step: BegunStep): void {
    const { cache, log } = this.#parts;
    const { sequence, start, count, drafted } = item;
    const { blockTable, tokens } = sequence;
    const before = item.admission === null ? blockTable.length : 0;
    if (item.admission !== null) {
      const shared = Math.floor(start / cache.blockTokens);
      if (blockTable.length < shared) cache.extend(blockTable, tokens.view(), shared);
    }
    if (sequence.maySharePartialBlock) this.#ownPartialBlock(sequence, start);
    const blocks = cache.blocksFor(start + count + drafted) - blockTable.length;
    const allocated = blocks <= 0 || cache.allocate(blockTable, blocks);
    assert(allocated, "A plan asked for more blocks than there are");
    if (sequence.retention !== null) this.#retain(sequence, before);
    sequence.computedTokens = start + count;
    if (drafted > 0) sequence.scratchTokens = drafted;
    log.publish(sequence, step);
    if (!item.samples) return;
    sequence.awaitedTokens++;
    if (start + count === sequence.promptLength && !sequence.group.forked) this.#fork(item, plan);
  }

  /** Copies the block that `start` lies in, if another table still holds it. */
  #ownPartialBlock(sequence: Sequence, start: number): void {
    sequence.maySharePartialBlock = false;
    const copied = this.#parts.cache.makeWritable(sequence.blockTable, start);
    assert(copied, "A plan asked for more blocks than there are");
  }

  /** Sets the request's retention of the table's blocks from `first` on. */
  #retain({ blockTable, retention }: Sequence, first: number): void {
    if (retention === null) return;
    const { prompt, decode } = retention;
    for (let index = first; index < blockTable.length; index++) {
      const wanted = index < prompt.length ? (prompt[index] ?? null) : decode;
      this.#parts.cache.setRetention(blockTable, index, wanted);
    }
  }

  /**
   * Releases the blocks that no query of a later step sees. The step that begins now still reads
   * them, and those under way: their next holders write them in a later step.
   */
  #dropUnseen(plan: StepPlan): void {
    for (const { sequence } of plan.items) {
      this.#parts.cache.dropLeading(sequence.blockTable, sequence.computedTokens);
    }
  }

  /** Once the lead's table has all blocks of the prompt, the others share them. */
  #fork(item: PlannedSequence, plan: StepPlan): void {
    const { books, stats } = this.#parts;
    const { sequence } = item;
    const isAlone = sequence.group.sequences.length === 1;
    const place = isAlone ? -1 : plan.items.indexOf(item);
    const forks = isAlone ? [] : plan.items.filter(({ forkOf }) => forkOf === place);
    books.fork(
      sequence,
      forks.map((fork) => fork.sequence),
    );
    stats.forked(forks.length);
  }

  /** Its blocks came with the lead's item; it samples from that item's last row. */
  #startFork({ sequence }: PlannedSequence, nowMs: number): void {
    sequence.cachedTokens = sequence.group.lead.cachedTokens;
    sequence.firstScheduledMs ??= nowMs;
    sequence.awaitedTokens++;
  }
}
