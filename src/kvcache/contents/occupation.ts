/** What holds blocks for a request: its table, blocks that come for it, blocks that are sent. */
export type HeldBy = "table" | "received" | "sent";

/**
 * How much of the device one sequence takes, and for how long: the integral of its device blocks
 * over time (R. Qin et al. 2024, "Mooncake": a request's VRAM occupation cost).
 *
 * A block that several sequences share counts fully for each of them: it is what the sequence
 * would need alone, and does not change with what others do. So the figures of all requests
 * together are more than the device has where prefixes are shared. Blocks that come for a sequence
 * are held until it holds them itself, and those that are sent were its own before: the largest of
 * the three counts.
 */
export class Occupation {
  readonly #blocks: Record<HeldBy, number> = { table: 0, received: 0, sent: 0 };
  #held = 0;
  #blockMs = 0;
  #sinceMs = 0;

  /** Device blocks that the sequence's table holds now. */
  get tableBlocks(): number {
    return this.#blocks.table;
  }

  /** Blocks times milliseconds up to now. A clock that went back adds nothing. */
  blockMsAt(nowMs: number): number {
    return this.#blockMs + this.#held * Math.max(0, nowMs - this.#sinceMs);
  }

  /** Notes how many blocks are held from now on. Returns what has been added since the last. */
  note(by: HeldBy, blocks: number, nowMs: number): number {
    const before = this.#blockMs;
    this.#blockMs = this.blockMsAt(nowMs);
    this.#sinceMs = nowMs;
    this.#blocks[by] = blocks;
    const { table, received, sent } = this.#blocks;
    this.#held = Math.max(table, received, sent);
    return this.#blockMs - before;
  }
}
