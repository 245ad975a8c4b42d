import { assert } from "#base";
import type { KvCache } from "#kvcache";
import type { SchedulerConfig } from "./config.ts";
import { byPriority, WaitingQueue } from "./queue.ts";
import { PREFILLING, type Sequence, type SequenceId, WAITING } from "./sequence.ts";
import type { SequenceGroup } from "./sequence-group.ts";
import type { SequenceEnd } from "./stop.ts";

/**
 * Where each live sequence is: in the queue, running, waiting for its group's lead. Sequences
 * change place here, and their blocks with them; who does so, and when, is decided elsewhere.
 */
export class SequenceBooks {
  readonly #slots: number;
  readonly #cache: KvCache;
  readonly #sequences = new Map<SequenceId, Sequence>();
  readonly #waiting: WaitingQueue;
  /** In order of admission, the sequences of a group side by side. */
  readonly #running: Sequence[] = [];
  /** Groups of which only the lead runs, and others are to fork from it. */
  readonly #forking = new Set<SequenceGroup>();
  #awaitingFork = 0;

  constructor(config: SchedulerConfig, cache: KvCache) {
    this.#slots = config.runningSequencesMax;
    this.#cache = cache;
    this.#waiting = new WaitingQueue(config.policy === "priority" ? byPriority : null);
  }

  get running(): readonly Sequence[] {
    return this.#running;
  }

  /** Who waits for a turn, in order. */
  get waiting(): Iterable<Sequence> {
    return this.#waiting;
  }

  /** Live sequences that do not run. */
  get waitingCount(): number {
    return this.#sequences.size - this.#running.length;
  }

  /** Slots that running leads keep for those that will fork from them. */
  get reservedSlots(): number {
    let slots = 0;
    for (const group of this.#forking) slots += group.forkSlots(this.#slots);
    return slots;
  }

  /** The live sequence of that id; null when it ended or never was. */
  find(id: SequenceId): Sequence | null {
    return this.#sequences.get(id) ?? null;
  }

  /** Its lead joins the queue. */
  add(group: SequenceGroup): void {
    for (const sequence of group.sequences) {
      assert(!this.#sequences.has(sequence.id), "Cannot queue a sequence twice");
      this.#sequences.set(sequence.id, sequence);
    }
    this.#awaitingFork += group.sequences.length - 1;
    this.#waiting.add(group.lead);
  }

  /** Waiting sequences run from now on. Their tables have been filled. */
  admit(sequences: ReadonlySet<Sequence>): void {
    if (sequences.size === 0) return;
    this.#waiting.removeAll(sequences);
    for (const sequence of sequences) {
      sequence.state = PREFILLING;
      this.#run(sequence);
      const { group } = sequence;
      if (!group.forked && group.sequences.length > 1) this.#forking.add(group);
    }
  }

  /** The lead draws its first token: `forks` run from now on, the others wait for a turn. */
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
      child.state = PREFILLING;
      child.maySharePartialBlock = true;
      this.#run(child);
    }
    if (forks.length > 0) lead.maySharePartialBlock = true;
  }

  /** Running sequences give their blocks back and wait in front, in the same order. */
  preempt(sequences: readonly Sequence[]): void {
    for (const sequence of sequences.toReversed()) {
      this.#stopRunning(sequence);
      sequence.state = WAITING;
      sequence.preemptions++;
      this.#waiting.addBack(sequence);
    }
  }

  /** Ends a live sequence. Its blocks are given back. */
  end(sequence: Sequence, end: SequenceEnd): void {
    const { state } = sequence;
    this.#sequences.delete(sequence.id);
    const heir = this.#heirOf(sequence);
    if (state.phase !== "waiting") {
      this.#stopRunning(sequence);
      if (heir !== null) this.#waiting.addBack(heir);
    } else if (state.for === "fork") this.#awaitingFork--;
    else if (heir === null) this.#waiting.remove(sequence);
    else this.#waiting.replace(sequence, heir);
    if (heir !== null) {
      heir.state = state.phase === "waiting" && state.for === "grammar" ? state : WAITING;
    }
    sequence.state = { phase: "finished", ...end };
  }

  /** Checks that places, states and blocks agree. Costs a scan of the pool; for tests. */
  audit(): void {
    const waiting = [...this.#waiting];
    assert(
      this.#sequences.size === waiting.length + this.#running.length + this.#awaitingFork,
      "A sequence is in no queue, or in two",
    );
    for (const sequence of waiting) {
      const { state } = sequence;
      assert(state.phase === "waiting", "A sequence that runs is in the queue");
      assert(state.for !== "fork", "A sequence that waits for a fork is in the queue");
    }
    const running = new Set(this.#running);
    for (const sequence of this.#sequences.values()) this.#auditSequence(sequence, running);
    this.#cache.audit([...this.#sequences.values()].map(({ blockTable }) => blockTable));
  }

  #auditSequence(sequence: Sequence, running: ReadonlySet<Sequence>): void {
    const { state, blockTable, computedTokens } = sequence;
    const runs = state.phase === "prefilling" || state.phase === "decoding";
    assert(runs === running.has(sequence), "An idle sequence runs");
    const blocks = runs ? this.#cache.blocksFor(computedTokens) : 0;
    assert(blockTable.length === blocks, "A sequence holds more or less than it has computed");
  }

  /** Who becomes the lead when this one ends: the next that waits for a fork; null: nobody. */
  #heirOf(sequence: Sequence): Sequence | null {
    const { group } = sequence;
    if (group.forked || sequence !== group.lead) return null;
    const [heir] = group.awaitingFork;
    if (heir === undefined) return null;
    group.lead = heir;
    this.#awaitingFork--;
    return heir;
  }

  /** Behind the others of its group, so that these are found, and preempted, together. */
  #run(sequence: Sequence): void {
    const { group } = sequence;
    const last =
      group.sequences.length === 1
        ? -1
        : this.#running.findLastIndex((other) => other.group === group);
    if (last < 0) this.#running.push(sequence);
    else this.#running.splice(last + 1, 0, sequence);
  }

  #stopRunning(sequence: Sequence): void {
    const index = this.#running.lastIndexOf(sequence);
    assert(index >= 0, "Cannot stop a sequence that does not run");
    this.#running.splice(index, 1);
    this.#forking.delete(sequence.group);
    this.#cache.release(sequence.blockTable);
    sequence.computedTokens = 0;
    sequence.maySharePartialBlock = false;
  }
}
