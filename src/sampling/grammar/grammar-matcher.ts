import { assert, type Clock, EngineError } from "#base";
import { GrammarFailure, type GrammarLibrary, noOutput } from "./grammar-library.ts";
import { grammarInvalid } from "./grammar-source.ts";

/** Follows one sequence through a grammar. */
export interface GrammarMatcher {
  /**
   * Overwrites `row` [ceil(V / 32)] with the tokens that may come next, bit set = allowed. After
   * the end, only stop tokens. Throws GRAMMAR_INVALID where the grammar reaches a limit.
   */
  fillBitmask(row: Uint32Array): Promise<void>;
  /** Takes the next token. False, and nothing changes, when the grammar does not allow it. */
  accept(token: number): boolean;
  /** Takes back the last `count` tokens. */
  rollback(count: number): void;
  /** A stop token was accepted: the output is complete. */
  isTerminated(): boolean;
  /** Whether the output is complete with this token, before it is accepted. */
  ends(token: number): boolean;
  /** Its grammar's masks take so long that a step should not wait for many of them. */
  readonly slow: boolean;
  /** Gives its memory back. The matcher must not be used afterwards. */
  dispose(): void;
}

/** A call of the library that takes longer makes its grammar a slow one. */
const slowMs = 1;
/** So many calls in a row that take less make it a quick one again. */
const quickCalls = 64;

/**
 * Whether a grammar is slow, by what was seen of it so far; one of which nothing was seen is. Work
 * alone does not tell: the library counts what it looks at, not how long that takes.
 */
export class GrammarPace {
  readonly #clock: Clock;
  #quick = 0;
  slow = true;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Does something for the grammar, and takes note of how long that takes. */
  timed<Result>(work: () => Result): Result {
    const startMs = this.#clock.nowMs();
    try {
      return work();
    } finally {
      const isQuick = this.#clock.nowMs() - startMs <= slowMs;
      this.#quick = isQuick ? this.#quick + 1 : 0;
      this.slow = isQuick ? this.slow && this.#quick < quickCalls : true;
    }
  }
}

/** Tokens whose work may be done at once. */
const burstTokens = 64;

/** What the masks of one request may cost on average, all its sequences together. */
export class WorkBudget {
  readonly #perToken: number;
  #left: number;

  constructor(perToken: number) {
    this.#perToken = perToken;
    this.#left = perToken * burstTokens;
  }

  /** Takes note of a mask's work. Throws GRAMMAR_INVALID when there was too much of it. */
  spend(work: number): void {
    const most = this.#perToken * burstTokens;
    this.#left = Math.min(this.#left + this.#perToken, most) - work;
    if (this.#left >= 0) return;
    const wanted = `its output must take at most ${this.#perToken} steps of work for a token`;
    throw grammarInvalid(
      `${wanted} on average (grammar.averageWorkMax), it takes more; simplify it`,
    );
  }
}

export interface MatcherParts {
  readonly library: GrammarLibrary;
  /** Made when it is first asked for: sequences that wait need none. */
  readonly create: () => unknown;
  readonly stopTokenIds: ReadonlySet<number>;
  readonly budget: WorkBudget;
  readonly pace: GrammarPace;
  /** Hears of a failure of the library, after which the grammar should not be lent again. */
  readonly onFailure: () => void;
  /** Hears that the matcher was disposed of. */
  readonly onDispose: () => void;
}

/** Which setting a limit of the library's is, by a word of what it says. */
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
  #accepted = 0;
  #terminated = false;
  #disposed = false;

  constructor(parts: MatcherParts) {
    this.#parts = parts;
  }

  async fillBitmask(row: Uint32Array): Promise<void> {
    const matcher = this.#opened();
    this.#parts.budget.spend(this.#guarded(() => this.#parts.library.fillMask(matcher, row)));
  }

  accept(token: number): boolean {
    const matcher = this.#opened();
    const taken = this.#guarded(() => this.#parts.library.accept(matcher, token));
    if (!taken) return false;
    this.#accepted++;
    this.#terminated = this.ends(token);
    return true;
  }

  rollback(count: number): void {
    assert(count <= this.#accepted, `Cannot roll back ${count} tokens: ${this.#accepted} accepted`);
    if (count === 0) return;
    const matcher = this.#opened();
    this.#guarded(() => this.#parts.library.rollback(matcher, count));
    this.#accepted -= count;
    this.#terminated = false;
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

  #opened(): unknown {
    assert(!this.#disposed, "Cannot use a matcher: it was disposed");
    this.#matcher ??= this.#parts.create();
    return this.#matcher;
  }

  #guarded<Result>(work: () => Result): Result {
    try {
      return this.#parts.pace.timed(work);
    } catch (error) {
      this.#parts.onFailure();
      if (error instanceof GrammarFailure && error.isLimit) throw limitReached(error);
      const reason = error instanceof Error ? error.message : String(error);
      // Seen only when the output gets there: parts of it may end, and the whole never.
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
    if (this.#matcher !== null) this.#parts.library.freeMatcher(this.#matcher);
    this.#parts.onDispose();
  }
}
