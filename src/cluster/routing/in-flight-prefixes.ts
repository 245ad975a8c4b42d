import type { Clock } from "#base";

/** Blocks of all prompts together, 8 bytes each, and prompts; beyond it none are remembered. */
const BLOCKS_MAX = 1 << 20;
const PROMPTS_MAX = 1 << 14;
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
  /** By worker and first block: one that begins otherwise need not be looked at. */
  readonly #workers = new Map<string, Map<number, Set<Prompt>>>();
  readonly #computed: { readonly untilMs: number; readonly remove: () => void }[] = [];
  #count = 0;
  #prompts = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Blocks of all prompts, counted again wherever they come again. */
  get blockCount(): number {
    return this.#count;
  }

  /**
   * Leading blocks of a prompt that the worker will have; `keys` as in `PromptBlocks`. A block's
   * name stands for all before it, too: a prompt that lacks the next block has no longer beginning.
   */
  leadingBlocks(workerId: string, keys: Uint32Array): number {
    const blocks = keys.length >>> 1;
    let leading = 0;
    const alike = blocks === 0 ? NO_PROMPTS : this.#workers.get(workerId)?.get(firstOf(keys));
    for (const { keys: other } of alike ?? NO_PROMPTS) {
      const most = Math.min(blocks, other.length >>> 1);
      while (leading < most && hasSameBlock(keys, other, leading)) leading++;
    }
    return leading;
  }

  add(workerId: string, keys: Uint32Array): PromptInFlight {
    this.#forgetAnnounced();
    const blocks = keys.length >>> 1;
    const isFull = this.#count + blocks > BLOCKS_MAX || this.#prompts === PROMPTS_MAX;
    if (blocks === 0 || isFull) return NOT_REMEMBERED;
    const prompt: Prompt = { keys };
    const first = firstOf(keys);
    const ofWorker = this.#workers.get(workerId) ?? new Map<number, Set<Prompt>>();
    const alike = ofWorker.get(first) ?? new Set<Prompt>();
    this.#workers.set(workerId, ofWorker.set(first, alike.add(prompt)));
    this.#count += blocks;
    this.#prompts++;
    let phase: "waiting" | "computed" | "removed" = "waiting";
    const remove = () => {
      phase = "removed";
      this.#count -= blocks;
      this.#prompts--;
      alike.delete(prompt);
      if (alike.size === 0) ofWorker.delete(first);
      if (ofWorker.size === 0) this.#workers.delete(workerId);
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
}

/** One that counts. */
interface Prompt {
  readonly keys: Uint32Array;
}

const NO_PROMPTS: ReadonlySet<Prompt> = new Set();
const NOT_REMEMBERED: PromptInFlight = { computed: () => {}, dropped: () => {} };

/** 53 bits of the first block's name; whole names are compared besides. */
function firstOf(keys: Uint32Array): number {
  return (keys[0] ?? 0) + ((keys[1] ?? 0) & 0x1fffff) * 2 ** 32;
}

function hasSameBlock(a: Uint32Array, b: Uint32Array, block: number): boolean {
  return a[2 * block] === b[2 * block] && a[2 * block + 1] === b[2 * block + 1];
}
