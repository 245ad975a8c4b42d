/**
 * Whether stored blocks are worth fetching, or computing them again is quicker.
 *
 * Source: R. Qin et al. 2025, "Mooncake: trading more storage for less computation", section 2.2.
 * Its formula (2) compares datasheet bandwidth with datasheet FLOPs. Here both sides are measured
 * on the running engine; the formula's shape stays: bytes grow with the tokens, computing grows
 * with the tokens and, through attention, with the positions before each of them.
 */
import { assert } from "#base";
import type { CacheLevel } from "#kvcache/contents";
import { SpeedMeter } from "./speed-meter.ts";

/** The cost of attention relative to a token's other work. */
export interface PrefillShape {
  /**
   * Work of one (query, key) pair over all layers and heads, in units of a token's work outside
   * attention. Multiply-adds of a pair are 2 * layers * heads * headDim, a token's the parameters.
   */
  readonly attentionWeight: number;
  /** Most positions that a query sees; null: all. */
  readonly window: number | null;
}

/** Settings of a `LoadCost`. */
export interface LoadCostOptions extends PrefillShape {
  readonly bytesPerBlock: number;
}

/** Stored blocks that could be fetched: they hold positions `start` up to `end`. */
export interface LoadChoice {
  /** The blocks' level now. */
  readonly level: CacheLevel;
  readonly blocks: number;
  readonly start: number;
  readonly end: number;
}

/**
 * After so many measured prefills without a read the disk's speed is forgotten: a speed that was
 * low once would otherwise prevent its own measurement.
 */
const PREFILLS_PER_PROBE = 1024;

/** `attentionWeight` of a decoder of this size. Of a mixture, count the parameters in use. */
export function attentionWeight(decoder: {
  readonly parameters: number;
  readonly layers: number;
  readonly heads: number;
  readonly headDim: number;
}): number {
  assert(decoder.parameters > 0, "Cannot weigh the attention of a model without parameters");
  return (2 * decoder.layers * decoder.heads * decoder.headDim) / decoder.parameters;
}

/**
 * Work of computing positions `start` up to `end` when those before `start` are computed: 1 per
 * token, and `attentionWeight` per pair of a query and a position that it sees.
 */
export function prefillWork(start: number, end: number, shape: PrefillShape): number {
  assert(0 <= start && start <= end, "Cannot compute a range that ends before it starts");
  const pairs = pairsBefore(end, shape.window) - pairsBefore(start, shape.window);
  return end - start + shape.attentionWeight * pairs;
}

/** Pairs of all queries before position `end`: half a square up to the window, then a strip. */
function pairsBefore(end: number, window: number | null): number {
  const square = Math.min(end, window ?? end);
  return (square * square) / 2 + (end - square) * square;
}

/**
 * Cost estimates from the engine's measurements so far. The `record` methods change them, the
 * others do not. A null estimate: not measured yet.
 */
export class LoadCost {
  readonly #options: LoadCostOptions;
  /** Work per millisecond. */
  readonly #prefill = new SpeedMeter();
  /** Bytes per millisecond between device and host memory, and from disk to host memory. */
  readonly #copy = new SpeedMeter();
  readonly #read = new SpeedMeter();
  #prefillsSinceRead = 0;

  constructor(options: LoadCostOptions) {
    this.#options = options;
  }

  /** A step computed positions `start` up to `end` of one prompt, and little else, in `ms`. */
  recordPrefill(start: number, end: number, ms: number): void {
    this.#prefill.record(prefillWork(start, end, this.#options), ms);
    this.#prefillsSinceRead++;
    if (this.#prefillsSinceRead < PREFILLS_PER_PROBE) return;
    this.#read.forget();
    this.#prefillsSinceRead = 0;
  }

  /** `bytes` went from device to host memory, or back, in `ms`. */
  recordCopy(bytes: number, ms: number): void {
    this.#copy.record(bytes, ms);
  }

  /** `bytes` came from disk; `ms` counts overlapping reads once. */
  recordRead(bytes: number, ms: number): void {
    this.#read.record(bytes, ms);
    this.#prefillsSinceRead = 0;
  }

  /** Computing `tokens` from position `start` on. */
  recomputeMs(tokens: number, start = 0): number | null {
    return scaled(prefillWork(start, start + tokens, this.#options), this.#prefill.perMs);
  }

  /** Moving `blocks` to host memory and back. */
  swapMs(blocks: number): number | null {
    return scaled(2 * blocks * this.#options.bytesPerBlock, this.#copy.perMs);
  }

  /** Bringing `blocks` to the device. From disk they pass through host memory. */
  loadMs(blocks: number, level: CacheLevel): number | null {
    if (level === 0) return 0;
    const bytes = blocks * this.#options.bytesPerBlock;
    const copyMs = scaled(bytes, this.#copy.perMs);
    if (level === 1) return copyMs;
    const readMs = scaled(bytes, this.#read.perMs);
    return readMs === null ? null : readMs + (copyMs ?? 0);
  }

  /**
   * Whether fetching takes less time than computing the same positions. While one of both is
   * unknown the result is true: fetching measures it, and is seldom wrong.
   */
  loadPays({ level, blocks, start, end }: LoadChoice): boolean {
    const loadMs = this.loadMs(blocks, level);
    const recomputeMs = this.recomputeMs(end - start, start);
    return loadMs === null || recomputeMs === null || loadMs < recomputeMs;
  }
}

function scaled(amount: number, perMs: number | null): number | null {
  return perMs === null ? null : amount / perMs;
}
