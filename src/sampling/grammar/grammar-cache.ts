import { assert, type Clock, EngineError } from "#base";
import type { GrammarLibrary } from "./grammar-library.ts";
import { type GrammarMatcher, GrammarPace, NativeMatcher, WorkBudget } from "./grammar-matcher.ts";

interface SharedGrammarParts {
  readonly library: GrammarLibrary;
  readonly grammar: unknown;
  readonly stopTokenIds: readonly number[];
  /** What a request's masks may cost for a token on average. */
  readonly averageWorkMax: number;
  readonly clock: Clock;
}

interface GrammarHooks {
  /** A matcher of the grammar failed. */
  readonly onFailure: () => void;
  /** A request has no more use for the grammar. */
  readonly onReturn: () => void;
}

/** What an entry takes beside the grammar's own bytes: its key and its place. */
const entryBytes = 512;
/** Grammars that were refused are remembered, too: the next request costs nothing. */
const refusalsMax = 256;

/** A compiled grammar, freed when the cache, all requests and their matchers let go of it. */
export class SharedGrammar {
  readonly #parts: SharedGrammarParts;
  readonly #stopTokenIds: ReadonlySet<number>;
  readonly #hooks: GrammarHooks;
  readonly #pace: GrammarPace;
  #holders = 0;

  constructor(parts: SharedGrammarParts, hooks: GrammarHooks) {
    this.#parts = parts;
    this.#stopTokenIds = new Set(parts.stopTokenIds);
    this.#hooks = hooks;
    this.#pace = new GrammarPace(parts.clock);
  }

  /** Nobody holds it any more. */
  get freed(): boolean {
    return this.#holders === 0;
  }

  /** What it takes now: lexers grow with what they have seen. */
  get bytes(): number {
    return entryBytes + this.#parts.library.grammarBytes(this.#parts.grammar);
  }

  retain(): void {
    this.#holders++;
  }

  release(): void {
    assert(this.#holders > 0, "Cannot release a grammar: nobody holds it");
    this.#holders--;
    if (this.#holders === 0) this.#parts.library.freeGrammar(this.#parts.grammar);
  }

  /** The grammar in the hands of one more request. */
  lend() {
    this.retain();
    let lent = true;
    const budget = new WorkBudget(this.#parts.averageWorkMax);
    return {
      createMatcher: async (): Promise<GrammarMatcher> => {
        assert(lent, "Cannot create a matcher: the grammar was disposed");
        return this.#createMatcher(budget);
      },
      dispose: () => {
        if (!lent) return;
        lent = false;
        this.release();
        this.#hooks.onReturn();
      },
    };
  }

  #createMatcher(budget: WorkBudget): GrammarMatcher {
    const { library, grammar } = this.#parts;
    this.retain();
    return new NativeMatcher({
      library,
      pace: this.#pace,
      create: () => library.createMatcher(grammar),
      stopTokenIds: this.#stopTokenIds,
      budget,
      onFailure: this.#hooks.onFailure,
      onDispose: () => this.release(),
    });
  }
}

/** Compiled grammars for the next requests that ask for the same, within a number of bytes. */
export class GrammarCache {
  readonly #bytesMax: number;
  /** By key, the least recently used first. */
  readonly #grammars = new Map<string, SharedGrammar>();
  readonly #refusals = new Map<string, EngineError>();

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  find(key: string): SharedGrammar | undefined {
    const found = this.#grammars.get(key);
    if (found === undefined) return undefined;
    this.#grammars.delete(key);
    this.#grammars.set(key, found);
    return found;
  }

  /** Takes a compiled grammar, which is then the caller's only through `lend`. */
  add(key: string, parts: SharedGrammarParts): SharedGrammar {
    // A grammar that failed once may have a lexer beyond use: the next request gets another.
    const grammar: SharedGrammar = new SharedGrammar(parts, {
      onFailure: () => this.#forget(key, grammar),
      onReturn: () => this.#shrink(null),
    });
    grammar.retain();
    this.#grammars.set(key, grammar);
    this.#shrink(grammar);
    return grammar;
  }

  /** Why a grammar was refused before, or null. */
  refusal(key: string): EngineError | null {
    return this.#refusals.get(key) ?? null;
  }

  /** Remembers that a grammar is refused, for what is in it alone. */
  refuse(key: string, error: unknown): void {
    if (!(error instanceof EngineError) || error.code !== "GRAMMAR_INVALID") return;
    this.#refusals.set(key, error);
    for (const oldest of this.#refusals.keys()) {
      if (this.#refusals.size <= refusalsMax) return;
      this.#refusals.delete(oldest);
    }
  }

  /** Lets go of the oldest until all fit; never of `newest`, which nobody holds yet. */
  #shrink(newest: SharedGrammar | null): void {
    let bytes = 0;
    for (const grammar of this.#grammars.values()) bytes += grammar.bytes;
    for (const [key, grammar] of this.#grammars) {
      if (bytes <= this.#bytesMax || grammar === newest) return;
      bytes -= grammar.bytes;
      this.#forget(key, grammar);
    }
  }

  #forget(key: string, grammar: SharedGrammar): void {
    if (this.#grammars.get(key) !== grammar) return;
    this.#grammars.delete(key);
    grammar.release();
  }

  clear(): void {
    for (const [key, grammar] of this.#grammars) this.#forget(key, grammar);
    this.#refusals.clear();
  }
}
