import { assert, type Clock, EngineError } from "#base";
import { GrammarFailure, type GrammarLibrary, noOutput } from "./grammar-library.ts";
import { grammarInvalid } from "./grammar-source.ts";

/** The state of one sequence in a grammar. */
export interface GrammarMatcher {
  /**
   * Overwrites `row` [ceil(V / 32)] with the tokens that may come next, bit set = allowed. After
   * the end, only stop tokens. Throws GRAMMAR_INVALID where the grammar reaches a limit.
   */
  fillBitmask(row: Uint32Array): Promise<void>;
  /**
   * The same behind tokens that will be rolled back. It takes nothing of the request's budget of
   * work, but throws GRAMMAR_INVALID where this mask alone takes more than that has for a token.
   */
  fillAhead(row: Uint32Array): void;
  /** Consumes the next token. False, without a change, when the grammar does not allow it. */
  accept(token: number): boolean;
  /** Removes the last `count` tokens; with them, an error that came behind them. */
  rollback(count: number): void;
  /**
   * Tokens that spell the text which alone may come next, at most `most`, about as the tokenizer
   * does; others may spell it, too. None where more than one text may come, or the end.
   */
  forced(most: number): Int32Array;
  /** A stop token was accepted: the output is complete. */
  isTerminated(): boolean;
  /** Whether the output is complete with this token, before it is accepted. */
  ends(token: number): boolean;
  /** Masks of its grammar take so long that a step should not wait for many of them. */
  readonly slow: boolean;
  /** They take so little on average that a step may make some more, behind drafted tokens. */
  readonly quick: boolean;
  /** Releases its memory. The matcher must not be used afterwards. */
  dispose(): void;
}

/** A call of the library that takes longer marks its grammar as slow. */
const slowMs = 1;
/** This many shorter calls in a row end that. */
const shortCalls = 64;
/** Calls of a quick grammar take so long on average, of about the last `calls`. */
const quickMean = { ms: slowMs / 4, calls: 32 };

/**
 * Whether a grammar is slow or quick, by its measured calls; without a measurement it is slow. Work
 * alone is no measure: the library counts items, not their time. One call that was disturbed makes
 * a grammar slow, but does not change its mean by much.
 */
export class GrammarPace {
  readonly #clock: Clock;
  #short = 0;
  #meanMs = 2 * quickMean.ms;
  slow = true;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get quick(): boolean {
    return this.#meanMs <= quickMean.ms;
  }

  /** Runs work for the grammar and records its time. */
  timed<Result>(work: () => Result): Result {
    const startMs = this.#clock.nowMs();
    try {
      return work();
    } finally {
      const ms = this.#clock.nowMs() - startMs;
      const isShort = ms <= slowMs;
      this.#short = isShort ? this.#short + 1 : 0;
      this.slow = isShort ? this.slow && this.#short < shortCalls : true;
      this.#meanMs += (ms - this.#meanMs) / quickMean.calls;
    }
  }
}

/** Tokens whose work may be spent at once. */
const burstTokens = 64;

/** Average work that the masks of one request may cost, over all its sequences. */
export class WorkBudget {
  readonly #perToken: number;
  #left: number;

  constructor(perToken: number) {
    this.#perToken = perToken;
    this.#left = perToken * burstTokens;
  }

  /** Records a mask's work. Throws GRAMMAR_INVALID when the budget is exceeded. */
  spend(work: number): void {
    const most = this.#perToken * burstTokens;
    this.#left = Math.min(this.#left + this.#perToken, most) - work;
    if (this.#left < 0) throw this.#exceeded();
  }

  /** Checks the work of one mask alone, which is not recorded. Throws GRAMMAR_INVALID. */
  checkOne(work: number): void {
    if (work > this.#perToken) throw this.#exceeded();
  }

  #exceeded(): EngineError {
    const wanted = `its output must take at most ${this.#perToken} steps of work for a token`;
    return grammarInvalid(
      `${wanted} on average (grammar.averageWorkMax), it takes more; simplify it`,
    );
  }
}

export interface MatcherParts {
  readonly library: GrammarLibrary;
  /** Creates the native matcher at its first use: waiting sequences need none. */
  readonly create: () => unknown;
  readonly stopTokenIds: ReadonlySet<number>;
  readonly budget: WorkBudget;
  readonly pace: GrammarPace;
  /** Called after a failure of the library, when the grammar should not be lent again. */
  readonly onFailure: () => void;
  /** Called when the matcher is disposed of. */
  readonly onDispose: () => void;
}

/** Setting of each of the library's limits, by a word of its message. */
const settings: readonly (readonly [RegExp, string])[] = [
  [/bytes/, "grammar.memoryBytesMax"],
  [/state/, "grammar.lexerStatesMax"],
  [/row/, "grammar.ambiguityMax"],
  [/item/, "grammar.tokenItemsMax"],
  [/expression|fuel|lexer/, "grammar.tokenWorkMax"],
];

function limitReached(failure: GrammarFailure): EngineError {
  const setting = settings.find(([pattern]) => pattern.test(failure.message))?.[1];
  const named = setting === undefined ? "the limits" : `the limit ${setting}`;
  return grammarInvalid(
    `its output must stay within ${named}, it does not (${failure.message}); simplify it`,
    failure,
  );
}

/** A matcher of the library's. */
export class NativeMatcher implements GrammarMatcher {
  readonly #parts: MatcherParts;
  #matcher: unknown = null;
  /** Accepted tokens: after an error the native matcher is made again from them. */
  readonly #accepted: number[] = [];
  #failed = false;
  #terminated = false;
  #disposed = false;

  constructor(parts: MatcherParts) {
    this.#parts = parts;
  }

  async fillBitmask(row: Uint32Array): Promise<void> {
    const matcher = this.#opened();
    this.#parts.budget.spend(this.#guarded(() => this.#parts.library.fillMask(matcher, row)));
  }

  fillAhead(row: Uint32Array): void {
    const matcher = this.#opened();
    this.#parts.budget.checkOne(this.#guarded(() => this.#parts.library.fillMask(matcher, row)));
  }

  accept(token: number): boolean {
    const matcher = this.#opened();
    const taken = this.#guarded(() => this.#parts.library.accept(matcher, token));
    if (!taken) return false;
    this.#accepted.push(token);
    this.#terminated = this.ends(token);
    return true;
  }

  rollback(count: number): void {
    const { length } = this.#accepted;
    assert(count <= length, `Cannot roll back ${count} tokens: ${length} accepted`);
    if (count === 0) return;
    // Before that: a failure is not repeated by tokens that are taken back.
    this.#accepted.length -= count;
    this.#terminated = false;
    if (this.#failed) return;
    const matcher = this.#opened();
    this.#guarded(() => this.#parts.library.rollback(matcher, count));
  }

  forced(most: number): Int32Array {
    const matcher = this.#opened();
    const tokens = new Int32Array(most);
    const found = this.#guarded(() => this.#parts.library.forced(matcher, tokens));
    return tokens.subarray(0, found);
  }

  isTerminated(): boolean {
    return this.#terminated;
  }

  ends(token: number): boolean {
    return this.#parts.stopTokenIds.has(token);
  }

  get slow(): boolean {
    return this.#parts.pace.slow;
  }

  get quick(): boolean {
    return this.#parts.pace.quick;
  }

  /** The library's matcher, with all accepted tokens. After an error it is another one. */
  #opened(): unknown {
    assert(!this.#disposed, "Cannot use a matcher: it was disposed");
    if (this.#failed) this.#free();
    if (this.#matcher !== null) return this.#matcher;
    const { library, create } = this.#parts;
    const matcher = create();
    this.#matcher = matcher;
    this.#failed = false;
    for (const token of this.#accepted) this.#guarded(() => library.accept(matcher, token));
    return matcher;
  }

  #free(): void {
    if (this.#matcher !== null) this.#parts.library.freeMatcher(this.#matcher);
    this.#matcher = null;
  }

  #guarded<Result>(work: () => Result): Result {
    try {
      return this.#parts.pace.timed(work);
    } catch (error) {
      this.#failed = true;
      this.#parts.onFailure();
      if (error instanceof GrammarFailure && error.isLimit) throw limitReached(error);
      const reason = error instanceof Error ? error.message : String(error);
      // Detected only when the output gets there: a prefix may be allowed that no output completes.
      if (reason === noOutput) throw grammarInvalid(`${reason} that begins like this one`, error);
      throw new EngineError(
        "ENGINE_STEP_FAILED",
        `Cannot follow the grammar: the library must accept it, ${reason}`,
        { cause: error },
      );
    }
  }

  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    this.#free();
    this.#parts.onDispose();
  }
}
