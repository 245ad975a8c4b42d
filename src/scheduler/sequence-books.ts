import { assert } from "#base";
import type { KvCache } from "#kvcache";
import type { SchedulerConfig } from "./config.ts";
import type { PreemptionMode } from "./plan.ts";
import { byPriority, WaitingQueue } from "./queue.ts";
import type { Sequence, SequenceId } from "./sequence.ts";
import type { SequenceGroup } from "./sequence-group.ts";
import { DECODING, PREFILLING, type SequenceState, WAITING } from "./sequence-state.ts";
import type { SequenceEnd } from "./stop.ts";

/**
 * Where each live sequence is: in the queue, running, in host memory until it returns, or waiting
 * for its group's lead. Moves sequences between these places, with their blocks; which ones, and
 * when, is decided elsewhere.
 */
export class SequenceBooks {
  readonly #seats: number;
  readonly #cache: KvCache;
  readonly #sequences = new Map<SequenceId, Sequence>();
  readonly #waiting: WaitingQueue;
  /** Preempted sequences whose contents are in host memory. */
  readonly #swapped: WaitingQueue;
  /** In order of admission, the sequences of a group side by side. */
  readonly #running: Sequence[] = [];
  /** Groups of which only the lead runs, and others are to fork from it. */
  readonly #forking = new Set<SequenceGroup>();
  /** Sequences that wait for a fork: they are in no queue. */
  #awaitingFork = 0;
  /** Live sequences of paused groups. */
  #paused = 0;

  constructor(config: SchedulerConfig, cache: KvCache) {
    this.#seats = config.runningSequencesMax;
    this.#cache = cache;
    const order = config.policy === "priority" ? byPriority : null;
    this.#waiting = new WaitingQueue(order);
    this.#swapped = new WaitingQueue(order);
  }

  get running(): readonly Sequence[] {
    return this.#running;
  }

  /** Sequences that wait for a turn, in order. */
  get waiting(): Iterable<Sequence> {
    return this.#waiting;
  }

  /** Sequences that wait to return from host memory, in order. */
  get swapped(): Iterable<Sequence> {
    return this.#swapped;
  }

  /** Live sequences that do not run. */
  get waitingCount(): number {
    return this.#sequences.size - this.#running.length;
  }

  /** Prompt tokens of those in the queue and those that run that have no keys and values yet. */
  get uncomputedTokens(): number {
    let tokens = 0;
    for (const sequence of this.#running) tokens += uncomputedOf(sequence);
    for (const sequence of this.#waiting) tokens += uncomputedOf(sequence);
    return tokens;
  }

  /** Live sequences of paused groups. */
  get pausedCount(): number {
    return this.#paused;
  }

  /**
   * Counts waiting sequences, paused groups apart: requests without a running sequence, and all
   * further samples.
   */
  countWaiting(): { readonly requests: number; readonly samples: number } {
    const waiting = [...this.#sequences.values()].filter(
      ({ state, group }) => state.phase === "waiting" && !group.paused,
    );
    const groups = new Set(waiting.map(({ group }) => group));
    for (const { group } of this.#running) groups.delete(group);
    return { requests: groups.size, samples: waiting.length - groups.size };
  }

  /** Seats that running leads keep for sequences that will fork from them. */
  get reservedSeats(): number {
    let seats = 0;
    for (const group of this.#forking) seats += group.forkSeats(this.#seats);
    return seats;
  }

  /** The live sequence of that id; null when it ended or never was. */
  find(id: SequenceId): Sequence | null {
    return this.#sequences.get(id) ?? null;
  }

  /** Adds a group; its lead joins the queue, or all sequences of one that was begun elsewhere. */
  add(group: SequenceGroup): void {
    const waiting = group.forked ? group.sequences : [group.lead];
    for (const sequence of group.sequences) {
      assert(!this.#sequences.has(sequence.id), "Cannot queue a sequence twice");
      this.#sequences.set(sequence.id, sequence);
    }
    this.#awaitingFork += group.sequences.length - waiting.length;
    for (const sequence of waiting) this.#waiting.add(sequence);
  }

  /** All live sequences of a group stay where they are, until `unpause`. */
  pause(group: SequenceGroup): void {
    group.paused = true;
    this.#paused += group.live.length;
  }

  unpause(group: SequenceGroup): void {
    group.paused = false;
    this.#paused -= group.live.length;
  }

  /** Starts sequences of the queue. Their tables have been filled. */
  admit(sequences: ReadonlySet<Sequence>): void {
    this.#waiting.removeAll(sequences);
    for (const sequence of sequences) this.#run(sequence, PREFILLING);
  }

  /** Swaps sequences in from host memory: they go on where they were. */
  resume(sequences: readonly Sequence[]): void {
    if (sequences.length === 0) return;
    const done = this.#cache.swapIn(sequences.map(({ blockTable }) => blockTable));
    assert(done, "A plan asked for more blocks than there are");
    this.#swapped.removeAll(new Set(sequences));
    for (const sequence of sequences) {
      this.#run(sequence, sequence.generatedTokens > 0 ? DECODING : PREFILLING);
    }
  }

  /** The lead samples its first token: `forks` run from now on, the others wait for a turn. */
  fork(lead: Sequence, forks: readonly Sequence[]): void {
    const { group } = lead;
    const children = group.awaitingFork;
    group.forked = true;
    this.#forking.delete(group);
    this.#awaitingFork -= children.length;
    for (const child of children.toReversed()) {
      if (forks.includes(child)) continue;
      child.state = WAITING;
      this.#waiting.addBack(child);
    }
    for (const child of forks) {
      this.#cache.fork(lead.blockTable, child.blockTable);
      child.computedTokens = lead.computedTokens;
      child.maySharePartialBlock = true;
      this.#run(child, PREFILLING);
    }
    if (forks.length > 0) lead.maySharePartialBlock = true;
  }

  /** Preempts running sequences of one group: they wait in front, in the same order. */
  preempt(sequences: readonly Sequence[], mode: PreemptionMode): void {
    if (mode === "swap") {
      const done = this.#cache.swapOut(sequences.map(({ blockTable }) => blockTable));
      assert(done, "A plan asked for more host memory than there is");
    }
    for (const sequence of sequences.toReversed()) {
      this.#stopRunning(sequence);
      sequence.state = WAITING;
      sequence.preemptions++;
      if (mode === "swap") this.#swapped.addBack(sequence);
      else this.#forgetComputed(sequence);
    }
  }

  /** Releases the host blocks of swapped sequences: they are computed again. */
  unswap(sequences: readonly Sequence[]): void {
    for (const sequence of sequences.toReversed()) {
      this.#swapped.remove(sequence);
      this.#forgetComputed(sequence);
    }
  }

  /** Ends a live sequence and releases its blocks; a partly filled one can be found if asked. */
  end(sequence: Sequence, end: SequenceEnd, keep: { readonly tail: boolean }): void {
    const { state, tokens, computedTokens } = sequence;
    this.#sequences.delete(sequence.id);
    if (sequence.group.paused) this.#paused--;
    const heir = this.#heirOf(sequence);
    this.#leave(sequence, heir);
    if (heir !== null) {
      heir.state = state.phase === "waiting" && state.for === "grammar" ? state : WAITING;
    }
    // Nothing was computed from the last token, or only by a step that may still fail.
    const computed = Math.min(computedTokens, tokens.length - 1);
    this.#cache.release(sequence.blockTable, keep.tail ? { tokens, computed } : null);
    sequence.computedTokens = 0;
    sequence.scratchTokens = 0;
    sequence.state = { phase: "finished", ...end };
  }

  /** Checks that places, states and blocks agree. Costs a scan of the pool; for tests. */
  audit(): void {
    const waiting = [...this.#waiting, ...this.#swapped];
    assert(
      this.#sequences.size === waiting.length + this.#running.length + this.#awaitingFork,
      "A sequence is in no queue, or in two",
    );
    for (const { blockTable } of this.#swapped) {
      assert(blockTable.swapped, "A sequence that waits to return has nothing in host memory");
    }
    for (const sequence of waiting) {
      const { state } = sequence;
      assert(state.phase === "waiting", "A sequence that runs is in the queue");
      assert(state.for !== "fork", "A sequence that waits for a fork is in the queue");
    }
    const running = new Set(this.#running);
    const live = [...this.#sequences.values()];
    const paused = live.filter(({ group }) => group.paused).length;
    assert(paused === this.#paused, "More or fewer sequences are paused than are counted");
    for (const sequence of live) this.#auditSequence(sequence, running);
    this.#cache.audit(live.map(({ blockTable }) => blockTable));
  }

  #auditSequence(sequence: Sequence, running: ReadonlySet<Sequence>): void {
    const { state, blockTable, computedTokens, scratchTokens } = sequence;
    const runs = state.phase === "prefilling" || state.phase === "decoding";
    assert(runs === running.has(sequence), "An idle sequence runs");
    assert(runs ? !blockTable.swapped : true, "A sequence runs without its contents");
    const written = computedTokens + scratchTokens;
    const blocks = runs || blockTable.swapped ? this.#cache.blocksFor(written) : 0;
    assert(blockTable.length === blocks, "A sequence holds more or less than it has computed");
  }

  /** The new lead when this one ends: the next that waits for a fork; null: none. */
  #heirOf(sequence: Sequence): Sequence | null {
    const { group } = sequence;
    if (group.forked || sequence !== group.lead) return null;
    const [heir] = group.awaitingFork;
    if (heir === undefined) return null;
    group.lead = heir;
    this.#awaitingFork--;
    return heir;
  }

  /** Removes a sequence from its place; the heir, if any, waits there, or in front if it ran. */
  #leave(sequence: Sequence, heir: Sequence | null): void {
    const { state } = sequence;
    const waits = state.phase === "waiting";
    if (waits && state.for === "fork") {
      this.#awaitingFork--;
    } else if (waits && !sequence.blockTable.swapped) {
      if (heir === null) this.#waiting.remove(sequence);
      else this.#waiting.replace(sequence, heir);
    } else {
      if (waits) this.#swapped.remove(sequence);
      else this.#stopRunning(sequence);
      if (heir !== null) this.#waiting.addBack(heir);
    }
  }

  /**
   * Inserts it behind the others of its group, so that these are found, and preempted, together.
   */
  #run(sequence: Sequence, state: SequenceState): void {
    const { group } = sequence;
    const isAlone = group.sequences.length === 1;
    const last = isAlone ? -1 : this.#running.findLastIndex((other) => other.group === group);
    if (last < 0) this.#running.push(sequence);
    else this.#running.splice(last + 1, 0, sequence);
    sequence.state = state;
    if (!isAlone && !group.forked) this.#forking.add(group);
  }

  /** The caller releases or moves its blocks. */
  #stopRunning(sequence: Sequence): void {
    const index = this.#running.lastIndexOf(sequence);
    assert(index >= 0, "Cannot stop a sequence that does not run");
    this.#running.splice(index, 1);
    this.#forking.delete(sequence.group);
  }

  /** Returns it to the queue with only its tokens. Its published blocks may still be found. */
  #forgetComputed(sequence: Sequence): void {
    this.#cache.release(sequence.blockTable);
    sequence.computedTokens = 0;
    sequence.scratchTokens = 0;
    sequence.maySharePartialBlock = false;
    this.#waiting.addBack(sequence);
  }
}

function uncomputedOf({ promptLength, computedTokens }: Sequence): number {
  return Math.max(0, promptLength - computedTokens);
}
