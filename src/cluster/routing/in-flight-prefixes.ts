import type { Clock } from "#base";

/** Blocks of all prompts together, some 40 bytes each; beyond it none are remembered. */
const BLOCKS_MAX = 1 << 20;
/** Until what was computed is announced: a step, a batch of events, the way here. */
const ANNOUNCED_MS = 2000;

/** One prompt on its way. */
export interface PromptInFlight {
  /** It is computed: its worker announces it from now on. */
  computed(): void;
  /** It will not be computed; nothing, once it is. */
  dropped(): void;
}

/**
 * Prompts that were handed to workers and are not announced yet. Those that come next with
 * the same beginning can count on them: a worker computes prompts in their order.
 */
export class InFlightPrefixes {
  readonly #clock: Clock;
  /** By worker, how many of its prompts have a block. */
  readonly #workers = new Map<string, Map<number, number>>();
  readonly #computed: { readonly untilMs: number; readonly remove: () => void }[] = [];
  #count = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Blocks of all prompts, counted again wherever they come again. */
  get blockCount(): number {
    return this.#count;
  }

  /** Leading blocks of a prompt that the worker will have; `keys` as in `PromptBlocks`. */
  leadingBlocks(workerId: string, keys: Uint32Array): number {
    const counts = this.#workers.get(workerId);
    if (counts === undefined) return 0;
    const blocks = keys.length >>> 1;
    for (let at = 0; at < blocks; at++) if (!counts.has(keyAt(keys, at))) return at;
    return blocks;
  }

  add(workerId: string, keys: Uint32Array): PromptInFlight {
    this.#forgetAnnounced();
    const blocks = keys.length >>> 1;
    if (this.#count + blocks > BLOCKS_MAX) return NOT_REMEMBERED;
    this.#change(workerId, keys, 1);
    this.#count += blocks;
    let phase: "waiting" | "computed" | "removed" = "waiting";
    const remove = () => {
      phase = "removed";
      this.#count -= blocks;
      this.#change(workerId, keys, -1);
    };
    return {
      computed: () => {
        if (phase !== "waiting") return;
        phase = "computed";
        this.#computed.push({ untilMs: this.#clock.nowMs() + ANNOUNCED_MS, remove });
      },
      dropped: () => {
        if (phase === "waiting") remove();
      },
    };
  }

  #forgetAnnounced(): void {
    const nowMs = this.#clock.nowMs();
    const kept = this.#computed.findIndex(({ untilMs }) => untilMs > nowMs);
    const due = this.#computed.splice(0, kept < 0 ? this.#computed.length : kept);
    for (const { remove } of due) remove();
  }

  #change(workerId: string, keys: Uint32Array, by: number): void {
    const counts = this.#workers.get(workerId) ?? new Map<number, number>();
    this.#workers.set(workerId, counts);
    for (let at = 0; at < keys.length >>> 1; at++) {
      const key = keyAt(keys, at);
      const count = (counts.get(key) ?? 0) + by;
      if (count > 0) counts.set(key, count);
      else counts.delete(key);
    }
    if (counts.size === 0) this.#workers.delete(workerId);
  }
}

const NOT_REMEMBERED: PromptInFlight = { computed: () => {}, dropped: () => {} };

/** 53 bits of a name: a guess may be wrong once in a lifetime. */
function keyAt(keys: Uint32Array, at: number): number {
  return (keys[2 * at] ?? 0) + ((keys[2 * at + 1] ?? 0) & 0x1fffff) * 2 ** 32;
}
