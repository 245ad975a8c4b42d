import { assert } from "#base";
import type { KvEventDiff, LevelBlockId } from "#kvcache/contents";
import { BlockHeap } from "./block-heap.ts";
import {
  type BlockLease,
  type BlockRetention,
  checkPriority,
  PRIORITY_DEFAULT,
} from "./retention.ts";

/**
 * The priority of each block of one level, and its deadline. Time comes from the caller. A block
 * whose duration is over has priority 35 like any other, also one that had less.
 */
export class RetentionBook {
  readonly #blocks: number;
  readonly #priorities: Uint8Array;
  /** Created with the first duration: most caches never have one. */
  #timers: Timers | null = null;

  /** Blocks 0 up to `blocks`, each of priority 35 without an end. */
  constructor(blocks: number) {
    this.#blocks = blocks;
    this.#priorities = new Uint8Array(blocks).fill(PRIORITY_DEFAULT);
  }

  /** 0 to 100. */
  priorityOf(block: LevelBlockId): number {
    const priority = this.#priorities[block];
    assert(priority !== undefined, "Cannot find the priority of a block of another level");
    return priority;
  }

  /** How long the priority outlives the last holder; null: for ever. */
  durationOf(block: LevelBlockId): number | null {
    return this.#timers?.durationOf(block) ?? null;
  }

  /** A block's priority and times, for another block that gets its contents. */
  leaseOf(block: LevelBlockId): BlockLease {
    const timers = this.#timers;
    return {
      priority: this.priorityOf(block),
      durationMs: timers?.durationOf(block) ?? null,
      deadlineMs: timers?.deadlineOf(block) ?? null,
    };
  }

  /** Blocks whose duration is running. */
  get runningCount(): number {
    return this.#timers?.runningCount ?? 0;
  }

  /** The block is allocated anew: its retention is void. */
  reset(block: LevelBlockId): void {
    this.#priorities[block] = PRIORITY_DEFAULT;
    if (this.#timers !== null) this.#timers.forget(block);
  }

  /** All blocks are allocated anew. */
  clear(): void {
    this.#priorities.fill(PRIORITY_DEFAULT);
    this.#timers = null;
  }

  /** Sets a block's priority, without an end. */
  setPriority(block: LevelBlockId, priority: number): void {
    checkPriority(priority);
    this.#priorities[block] = priority;
    this.#timers?.forget(block);
  }

  /**
   * Applies the newest holder's retention: its priority counts, a lower one too, and its duration,
   * null included. A holder without retention does not claim, and leaves both as they are. Returns
   * the change of priority, null where there is none.
   */
  claim(block: LevelBlockId, { priority, durationMs }: BlockRetention): KvEventDiff | null {
    const oldValue = this.priorityOf(block);
    const newValue = priority ?? oldValue;
    this.setPriority(block, newValue);
    if (durationMs !== null) {
      this.#timers ??= new Timers(this.#blocks);
      this.#timers.keep(block, durationMs);
    }
    return newValue === oldValue ? null : { newValue, oldValue };
  }

  /**
   * Applies the lease of the block that the contents came from: its running duration goes on,
   * whether the new block is held or not.
   */
  inherit(block: LevelBlockId, lease: BlockLease): void {
    this.claim(block, lease);
    if (lease.deadlineMs !== null) this.#timers?.start(block, lease.deadlineMs);
  }

  /** The block is held again: its duration stops, and starts from the beginning at its release. */
  retained(block: LevelBlockId): void {
    if (this.#timers !== null) this.#timers.stop(block);
  }

  /**
   * The last holder released the block: its duration starts, if there is one, the priority differs
   * from the default, and it does not run already.
   */
  released(block: LevelBlockId, nowMs: number): void {
    const timers = this.#timers;
    if (timers === null || this.priorityOf(block) === PRIORITY_DEFAULT) return;
    const durationMs = timers.durationOf(block);
    if (durationMs === null || timers.deadlineOf(block) !== null) return;
    timers.start(block, nowMs + durationMs);
  }

  /**
   * Ends the durations due by `nowMs`, the earliest first: such blocks have priority 35 from now
   * on, and `expired` receives each with its old priority.
   */
  expire(nowMs: number, expired: (block: LevelBlockId, oldPriority: number) => void): void {
    if (this.#timers === null) return;
    for (let due = this.#timers.takeDue(nowMs); due !== null; due = this.#timers.takeDue(nowMs)) {
      const oldPriority = this.priorityOf(due);
      this.#priorities[due] = PRIORITY_DEFAULT;
      expired(due, oldPriority);
    }
  }
}

/** The durations of blocks without holders, and the deadlines that are running. */
class Timers {
  /** [blocks] milliseconds; 0: no end. */
  readonly #durations: Float64Array;
  /** By deadline, then by the order of release. */
  readonly #running: BlockHeap;
  #turn = 0;

  constructor(blocks: number) {
    this.#durations = new Float64Array(blocks);
    this.#running = new BlockHeap(blocks);
  }

  get runningCount(): number {
    return this.#running.count;
  }

  durationOf(block: LevelBlockId): number | null {
    const durationMs = this.#durations[block] ?? 0;
    return durationMs === 0 ? null : durationMs;
  }

  keep(block: LevelBlockId, durationMs: number): void {
    assert(
      Number.isFinite(durationMs) && durationMs > 0,
      "Cannot retain a block: its duration must be more than 0",
    );
    this.#durations[block] = durationMs;
  }

  forget(block: LevelBlockId): void {
    this.#durations[block] = 0;
    this.stop(block);
  }

  deadlineOf(block: LevelBlockId): number | null {
    return this.#running.has(block) ? this.#running.rankOf(block) : null;
  }

  start(block: LevelBlockId, deadlineMs: number): void {
    this.#running.push(block, deadlineMs, this.#turn++);
  }

  stop(block: LevelBlockId): void {
    if (this.#running.has(block)) this.#running.remove(block);
  }

  /** Takes out the earliest deadline that is not after `nowMs`; null when there is none. */
  takeDue(nowMs: number): LevelBlockId | null {
    const first = this.#running.top();
    if (first === null || this.#running.rankOf(first) > nowMs) return null;
    this.#running.remove(first);
    return first;
  }
}
