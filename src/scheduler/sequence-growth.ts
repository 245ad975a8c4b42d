import type { KvCache } from "#kvcache";
import type { SequenceUpdate } from "./plan.ts";
import type { Sequence } from "./sequence.ts";
import type { SequenceBooks } from "./sequence-books.ts";
import { DECODING } from "./sequence-state.ts";
import type { BegunStep, StepLog } from "./step-log.ts";
import { endAfterNewest, type SequenceEnd } from "./stop.ts";

/** The parts that a sequence's growth changes. */
export interface SequenceGrowthParts {
  readonly cache: KvCache;
  readonly books: SequenceBooks;
  readonly log: StepLog;
  readonly contextTokensMax: number;
}

/** Appends sampled tokens to sequences, and ends those whose stop rules say so. */
export class SequenceGrowth {
  readonly #cache: KvCache;
  readonly #books: SequenceBooks;
  readonly #log: StepLog;
  readonly #contextTokensMax: number;

  constructor({ cache, books, log, contextTokensMax }: SequenceGrowthParts) {
    this.#cache = cache;
    this.#books = books;
    this.#log = log;
    this.#contextTokensMax = contextTokensMax;
  }

  /**
   * Appends tokens up to an end. Those before the last one confirm drafted tokens, if the step had
   * any: their keys and values stay, and the blocks of the others are released.
   */
  append(
    sequence: Sequence,
    tokenIds: readonly number[],
    newest: BegunStep,
    nowMs: number,
  ): SequenceUpdate {
    const { promptLength } = sequence;
    const context = { promptLength, contextTokensMax: this.#contextTokensMax };
    sequence.firstTokenMs ??= nowMs;
    if (sequence.draftTokens > 0) sequence.draftTokens = 0;
    let kept = 0;
    let end: SequenceEnd | null = null;
    for (; kept < tokenIds.length && end === null; kept++) {
      sequence.tokens.push(tokenIds[kept] ?? 0);
      end = endAfterNewest(sequence.tokens, sequence.stop, context);
    }
    if (sequence.scratchTokens > 0) this.#keepConfirmed(sequence, kept - 1);
    this.#log.publish(sequence, newest);
    if (end !== null) this.#books.end(sequence, end, { tail: true });
    else if (sequence.state.phase === "prefilling") sequence.state = DECODING;
    const keptIds = kept === tokenIds.length ? tokenIds : tokenIds.slice(0, kept);
    return { sequence, tokenIds: keptIds, finished: end !== null };
  }

  /** Rolls back the positions behind `confirmed` drafted tokens. */
  #keepConfirmed(sequence: Sequence, confirmed: number): void {
    sequence.computedTokens += confirmed;
    sequence.scratchTokens = 0;
    this.#cache.shrink(sequence.blockTable, this.#cache.blocksFor(sequence.computedTokens));
  }
}
