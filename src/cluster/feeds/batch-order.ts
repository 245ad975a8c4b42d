/** The order of one publisher's batches: which to apply, and where some are missing. */

/** What is to be done with a batch. */
export type BatchVerdict =
  /** It follows the last one. */
  | { readonly type: "next" }
  /** It was applied before. */
  | { readonly type: "known" }
  /** Batches from `from` on are missing before it. */
  | { readonly type: "gap"; readonly from: bigint }
  /** The publisher began anew. */
  | { readonly type: "restart" };

/**
 * Numbers begin with 0 at each start of a publisher, and have no gaps. Published ones ascend:
 * one that does not comes from another start.
 */
export class BatchOrder {
  /** The next number; null: nothing is known. */
  #next: bigint | null = null;
  /** The last that was published, and not replayed. */
  #published = -1n;

  /** The next number that is wanted; 0 where nothing is known. */
  get next(): bigint {
    return this.#next ?? 0n;
  }

  /** Whether all up to `next` is known. */
  get isFollowing(): boolean {
    return this.#next !== null;
  }

  /** What to do with a published batch. Nothing changes: `passed` says that it was applied. */
  verdict(sequence: bigint): BatchVerdict {
    if (sequence <= this.#published) return { type: "restart" };
    const { next } = this;
    if (sequence < next) return { type: "known" };
    return sequence === next ? { type: "next" } : { type: "gap", from: next };
  }

  /** A published batch was dealt with: all up to it is known, or given up. */
  passed(sequence: bigint): void {
    this.#published = sequence;
    if (sequence >= this.next) this.#next = sequence + 1n;
  }

  /** A replayed batch was applied. */
  replayed(sequence: bigint): void {
    this.#next = sequence + 1n;
  }

  /** Nothing is known any more. */
  forget(): void {
    this.#next = null;
    this.#published = -1n;
  }
}
