import { assert, type Clock, EngineError } from "#base";
import type { GrammarLibrary } from "./grammar-library.ts";
import { type GrammarMatcher, GrammarPace, NativeMatcher, WorkBudget } from "./grammar-matcher.ts";

interface SharedGrammarParts {
  readonly library: GrammarLibrary;
  readonly grammar: unknown;
  readonly stopTokenIds: readonly number[];
  /** Average work that a request's masks may cost per token. */
  readonly averageWorkMax: number;
  readonly clock: Clock;
}

interface GrammarHooks {
  /** A matcher of the grammar failed. */
  readonly onFailure: () => void;
  /** A request released the grammar. */
  readonly onReturn: () => void;
}

/** Bytes of an entry beside the grammar's own: its key and its place. */
const entryBytes = 512;
/** Refused grammars are cached, too: the next request with one costs nothing. */
const refusalsMax = 256;

/** A compiled grammar, freed when the cache, all requests and their matchers released it. */
export class SharedGrammar {
  readonly #parts: SharedGrammarParts;
  readonly #stopTokenIds: ReadonlySet<number>;
  readonly #hooks: GrammarHooks;
  readonly #pace: GrammarPace;
  readonly #compiledBytes: number;
  #holders = 0;

  constructor(parts: SharedGrammarParts, hooks: GrammarHooks) {
    this.#parts = parts;
    this.#stopTokenIds = new Set(parts.stopTokenIds);
    this.#hooks = hooks;
    this.#pace = new GrammarPace(parts.clock);
    this.#compiledBytes = this.bytes;
  }

  /** The grammar is unheld and its memory freed. */
  get freed(): boolean {
    return this.#holders === 0;
  }

  /** Current bytes: lexers grow with the outputs they process. */
  get bytes(): number {
    return entryBytes + this.#parts.library.grammarBytes(this.#parts.grammar);
  }

  /** Bytes that outputs added. */
  get growth(): number {
    return this.bytes - this.#compiledBytes;
  }

  retain(): void {
    this.#holders++;
  }

  release(): void {
    assert(this.#holders > 0, "Cannot release a grammar: it has no holder");
    this.#holders--;
    if (this.#holders === 0) this.#parts.library.freeGrammar(this.#parts.grammar);
  }

  /** Holds the grammar for one more request. */
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

/** Compiled grammars for later requests with the same source, within a number of bytes. */
export class GrammarCache {
  readonly #bytesMax: number;
  readonly #growthMax: number;
  /** By key, least recently used first. */
  readonly #grammars = new Map<string, SharedGrammar>();
  readonly #refusals = new Map<string, EngineError>();

  /**
   * `growthMax`: bytes by which outputs may have grown a grammar that one more request gets. Its
   * lexer keeps states of every output that it has seen, and all that use it fail at the limit:
   * well before, later requests get a grammar of their own. Default: any.
   */
  constructor(bytesMax: number, growthMax: number = Number.POSITIVE_INFINITY) {
    this.#bytesMax = bytesMax;
    this.#growthMax = growthMax;
  }

  find(key: string): SharedGrammar | undefined {
    const found = this.#grammars.get(key);
    if (found === undefined) return undefined;
    if (found.growth > this.#growthMax) {
      this.#forget(key, found);
      return undefined;
    }
    this.#grammars.delete(key);
    this.#grammars.set(key, found);
    return found;
  }

  /** Adds a compiled grammar; afterwards the caller may use it only through `lend`. */
  add(key: string, parts: SharedGrammarParts): SharedGrammar {
    // A failed grammar may have a broken lexer: it is removed, and the next request compiles it
    // again.
    const grammar: SharedGrammar = new SharedGrammar(parts, {
      onFailure: () => this.#forget(key, grammar),
      onReturn: () => this.#shrink(null),
    });
    grammar.retain();
    this.#grammars.set(key, grammar);
    this.#shrink(grammar);
    return grammar;
  }

  /** The error that refused this grammar before, or null. */
  refusal(key: string): EngineError | null {
    return this.#refusals.get(key) ?? null;
  }

  /** Records a refusal that is due to the grammar's content. */
  refuse(key: string, error: unknown): void {
    if (!(error instanceof EngineError) || error.code !== "GRAMMAR_INVALID") return;
    this.#refusals.set(key, error);
    for (const oldest of this.#refusals.keys()) {
      if (this.#refusals.size <= refusalsMax) return;
      this.#refusals.delete(oldest);
    }
  }

  /** Releases the oldest until all fit; never `newest`, which no request holds yet. */
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
