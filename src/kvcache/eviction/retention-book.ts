import { assert } from "#base";
import type { BlockId, KvEventDiff } from "#kvcache/contents";
import { BlockHeap } from "./block-heap.ts";
import {
  type BlockLease,
  type BlockRetention,
  checkPriority,
  PRIORITY_DEFAULT,
} from "./retention.ts";

/**
 * What each block of one level is worth, and until when. Time comes from the caller. A block whose
 * time is up is worth 35 like any other, also one that was worth less.
 */
export class RetentionBook {
  readonly #blocks: number;
  readonly #priorities: Uint8Array;
  /** Made when the first duration comes: most caches never see one. */
  #timers: Timers | null = null;

  /** Blocks 0 up to `blocks`, each worth 35 without an end. */
  constructor(blocks: number) {
    this.#blocks = blocks;
    this.#priorities = new Uint8Array(blocks).fill(PRIORITY_DEFAULT);
  }

  /** 0 to 100. */
  priorityOf(block: BlockId): number {
    const priority = this.#priorities[block];
    assert(priority !== undefined, "Cannot tell the priority of a block of another level");
    return priority;
  }

  /** How long the priority outlives the last holder; null: for ever. */
  durationOf(block: BlockId): number | null {
    return this.#timers?.durationOf(block) ?? null;
  }

  /** All that is known of a block, for another one that gets its contents. */
  leaseOf(block: BlockId): BlockLease {
    const timers = this.#timers;
    return {
      priority: this.priorityOf(block),
      durationMs: timers?.durationOf(block) ?? null,
      deadlineMs: timers?.deadlineOf(block) ?? null,
    };
  }

  /** Blocks whose time runs. */
  get runningCount(): number {
    return this.#timers?.runningCount ?? 0;
  }

  /** The block is handed out anew: what was said of it is void. */
  reset(block: BlockId): void {
    this.#priorities[block] = PRIORITY_DEFAULT;
    if (this.#timers !== null) this.#timers.forget(block);
  }

  /** Every block is handed out anew. */
  clear(): void {
    this.#priorities.fill(PRIORITY_DEFAULT);
    this.#timers = null;
  }

  /** A block is worth this from now on, without an end. */
  setPriority(block: BlockId, priority: number): void {
    checkPriority(priority);
    this.#priorities[block] = priority;
    this.#timers?.forget(block);
  }

  /**
   * What the newest holder says: its priority counts, downwards too, and its duration, null
   * included. A holder that says nothing does not claim, and leaves both as they are. Returns how
   * the priority changed, null where it did not.
   */
  claim(block: BlockId, { priority, durationMs }: BlockRetention): KvEventDiff | null {
    const oldValue = this.priorityOf(block);
    const newValue = priority ?? oldValue;
    this.setPriority(block, newValue);
    if (durationMs !== null) {
      this.#timers ??= new Timers(this.#blocks);
      this.#timers.keep(block, durationMs);
    }
    return newValue === oldValue ? null : { newValue, oldValue };
  }

  /** Contents came from a block with this lease: time that runs there runs on here, held or not. */
  inherit(block: BlockId, lease: BlockLease): void {
    this.claim(block, lease);
    if (lease.deadlineMs !== null) this.#timers?.start(block, lease.deadlineMs);
  }

  /** The block is held again: its time stops, and starts from the beginning when it is let go. */
  retained(block: BlockId): void {
    if (this.#timers !== null) this.#timers.stop(block);
  }

  /**
   * The last holder let go: the block's time starts, if there is one to lose anything by, and it
   * does not run already.
   */
  released(block: BlockId, nowMs: number): void {
    const timers = this.#timers;
    if (timers === null || this.priorityOf(block) === PRIORITY_DEFAULT) return;
    const durationMs = timers.durationOf(block);
    if (durationMs === null || timers.deadlineOf(block) !== null) return;
    timers.start(block, nowMs + durationMs);
  }

  /**
   * Ends what was to end by `nowMs`, the earliest first: such blocks are worth 35 from now on, and
   * `expired` hears of each, and of what it was worth.
   */
  expire(nowMs: number, expired: (block: BlockId, oldPriority: number) => void): void {
    if (this.#timers === null) return;
    for (let due = this.#timers.takeDue(nowMs); due !== null; due = this.#timers.takeDue(nowMs)) {
      const oldPriority = this.priorityOf(due);
      this.#priorities[due] = PRIORITY_DEFAULT;
      expired(due, oldPriority);
    }
  }
}

/** How long blocks are kept once nobody holds them, and which of them are counting. */
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

  durationOf(block: BlockId): number | null {
    const durationMs = this.#durations[block] ?? 0;
    return durationMs === 0 ? null : durationMs;
  }

  keep(block: BlockId, durationMs: number): void {
    assert(Number.isFinite(durationMs) && durationMs > 0, "Cannot keep a block for no time");
    this.#durations[block] = durationMs;
  }

  forget(block: BlockId): void {
    this.#durations[block] = 0;
    this.stop(block);
  }

  deadlineOf(block: BlockId): number | null {
    return this.#running.has(block) ? this.#running.rankOf(block) : null;
  }

  start(block: BlockId, deadlineMs: number): void {
    this.#running.push(block, deadlineMs, this.#turn++);
  }

  stop(block: BlockId): void {
    if (this.#running.has(block)) this.#running.remove(block);
  }

  /** Takes out the earliest deadline that is not after `nowMs`; null when there is none. */
  takeDue(nowMs: number): BlockId | null {
    const first = this.#running.top();
    if (first === null || this.#running.rankOf(first) > nowMs) return null;
    this.#running.remove(first);
    return first;
  }
}
