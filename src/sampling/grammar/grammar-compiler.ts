import { createHash } from "node:crypto";
import { assert, type Clock, systemClock } from "#base";
import type { GrammarOptions } from "../config.ts";
import type { StructuredOutput } from "../sampling-params.ts";
import { GrammarCache, type SharedGrammar } from "./grammar-cache.ts";
import {
  GrammarFailure,
  type GrammarLibrary,
  loadGrammarLibrary,
  type TokenBytes,
} from "./grammar-library.ts";
import type { GrammarMatcher } from "./grammar-matcher.ts";
import { type GrammarSource, grammarInvalid, grammarSource } from "./grammar-source.ts";
import { GrammarTrials, nativeLimits } from "./grammar-trials.ts";

/** The vocabulary that grammars are compiled against, and the limits of grammars. */
export interface GrammarCompilerOptions {
  /** Tokens' bytes by id; empty for ids that no grammar may produce. */
  readonly tokens: TokenBytes;
  /** Columns of the logits; tokens beyond `tokens` are never allowed. */
  readonly vocabularySize: number;
  /** Tokens that end an output: allowed when, and only when, the grammar is complete. */
  readonly stopTokenIds: readonly number[];
  readonly options: GrammarOptions;
  /** Measures which grammars are slow. Default: the machine's. */
  readonly clock?: Clock;
}

/** A grammar for a request's sequences. */
export interface CompiledGrammar {
  /** A matcher at the grammar's beginning, for one sequence. */
  createMatcher(): Promise<GrammarMatcher>;
  /** Releases the grammar for new matchers; existing ones stay valid. */
  dispose(): void;
}

/** The library with the loaded vocabulary. */
interface Home {
  readonly library: GrammarLibrary;
  readonly vocabulary: unknown;
}

/** Of a grammar's memory, the part that may be full of earlier outputs when a request gets it. */
const SHARED_PART = 4;

/**
 * Compiles structured output to matchers, by llguidance.
 *
 * Nothing is compiled on the calling thread. A grammar is first tried in a separate process, which
 * its deadline, its memory limit or a fault of the library may end; if it passes, it is compiled
 * again on another thread of this process, at a cost that is known by then. Masks have limits of
 * their own, counted in work, not in time.
 */
export class GrammarCompiler {
  readonly #options: GrammarCompilerOptions;
  readonly #cache: GrammarCache;
  readonly #trials: GrammarTrials;
  /** Pending compilations, so that no grammar is compiled twice at the same time. */
  readonly #underWay = new Map<string, Promise<SharedGrammar>>();
  #home: Promise<Home> | null = null;
  #disposed = false;

  constructor(options: GrammarCompilerOptions) {
    this.#options = options;
    const { cacheBytesMax, memoryBytesMax } = options.options;
    this.#cache = new GrammarCache(cacheBytesMax, memoryBytesMax / SHARED_PART);
    this.#trials = new GrammarTrials(options.options);
  }

  /**
   * Compiles the grammar, or finds it in the cache. The caller disposes of the result. Throws
   * GRAMMAR_INVALID, and GRAMMAR_UNAVAILABLE where the library is missing.
   */
  async compile(output: StructuredOutput): Promise<CompiledGrammar> {
    const source = grammarSource(output, this.#options.options);
    const key = createHash("sha256").update(`${source.kind}:${source.text}`).digest("base64");
    const underWay = this.#underWay.get(key);
    // Nothing is awaited where nothing is under way: others would look meanwhile, and find neither.
    const known = this.#cache.find(key) ?? (underWay && (await underWay));
    // The cache may have freed the grammar of another request by now.
    if (known !== undefined && !known.freed) return known.lend();
    const made = this.#compile(key, source);
    this.#underWay.set(key, made);
    try {
      return (await made).lend();
    } finally {
      if (this.#underWay.get(key) === made) this.#underWay.delete(key);
    }
  }

  async #compile(key: string, source: GrammarSource): Promise<SharedGrammar> {
    const refused = this.#cache.refusal(key);
    if (refused !== null) throw refused;
    const home = this.#openHome();
    // The error of a missing library is clearer than that of a process that does not start.
    loadGrammarLibrary();
    home.catch(() => null); // a rejection is handled below
    try {
      const prepared = await this.#trials.prepare(source);
      const { library, vocabulary } = await home;
      const limits = nativeLimits(this.#options.options);
      const grammar = await library.compile(vocabulary, prepared.language, prepared.text, limits);
      const { stopTokenIds, clock = systemClock } = this.#options;
      const { averageWorkMax } = this.#options.options;
      return this.#cache.add(key, { library, grammar, stopTokenIds, averageWorkMax, clock });
    } catch (error) {
      const invalid =
        error instanceof GrammarFailure ? grammarInvalid(error.message, error) : error;
      this.#cache.refuse(key, invalid);
      throw invalid;
    }
  }

  #openHome(): Promise<Home> {
    assert(!this.#disposed, "Cannot compile a grammar: the compiler was disposed");
    this.#home ??= openHome(this.#options);
    return this.#home;
  }

  /** Ends pending compilations and releases cached grammars. Existing matchers stay valid. */
  dispose(): void {
    this.#disposed = true;
    this.#trials.dispose();
    this.#cache.clear();
    // Grammars hold the vocabulary for as long as they need it.
    void this.#home?.then(
      ({ library, vocabulary }) => library.freeVocabulary(vocabulary),
      () => null,
    );
    this.#home = null;
  }
}

async function openHome({ tokens, vocabularySize, stopTokenIds }: GrammarCompilerOptions) {
  const count = tokens.ends.length;
  assert(count <= vocabularySize, "Cannot compile grammars: more tokens than logits");
  const library = loadGrammarLibrary();
  return { library, vocabulary: await library.createVocabulary(tokens, stopTokenIds) };
}
