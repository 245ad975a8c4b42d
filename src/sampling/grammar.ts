import type {
  GrammarCompiler as LibraryCompiler,
  CompiledGrammar as LibraryGrammar,
  GrammarMatcher as LibraryMatcher,
  TokenizerInfo,
} from "@mlc-ai/web-xgrammar";
import { assert, EngineError } from "#base";
import { type GrammarSource, grammarInvalid, grammarSource } from "./grammar-source.ts";
import type { StructuredOutput } from "./sampling-params.ts";
import { maskOf } from "./token-mask.ts";
import { loadXGrammar, type XGrammarInstance } from "./xgrammar-module.ts";

/** The vocabulary that grammars are compiled against. */
export interface GrammarCompilerOptions {
  /** Token spellings by id, as tokenizer.json has them; "" for ids without a token. */
  readonly tokens: readonly string[];
  /** How spellings stand for bytes. */
  readonly type: "byte_level" | "byte_fallback" | "raw";
  /** Columns of the logits; tokens beyond `tokens` are never allowed. */
  readonly vocabularySize: number;
  /** Tokens that end an output: allowed when, and only when, the grammar is complete. */
  readonly stopTokenIds: readonly number[];
}

/** Follows one sequence through a grammar. */
export interface GrammarMatcher {
  /**
   * Overwrites `row` [ceil(V / 32)] with the tokens that may come next, bit set = allowed. After
   * the end, only stop tokens. Throws ENGINE_STEP_FAILED if the library gives up.
   */
  fillBitmask(row: Uint32Array): Promise<void>;
  /** Takes the next token. False, and nothing changes, when the grammar does not allow it. */
  accept(token: number): boolean;
  /** Takes back the last `count` tokens. */
  rollback(count: number): void;
  /** A stop token was accepted: the output is complete. */
  isTerminated(): boolean;
  /** Gives its memory back. The matcher must not be used afterwards. */
  dispose(): void;
}

/** A grammar for a request's sequences. */
export interface CompiledGrammar {
  /** A matcher at the grammar's beginning, for one sequence. */
  createMatcher(): Promise<GrammarMatcher>;
  /** The request needs no more matchers; those it has live on. */
  dispose(): void;
}

/** Compiled grammars that are kept for the next request that asks for the same. */
const cachedGrammars = 64;

/** The library's instance that grammars live in, with the vocabulary already read. */
interface Home {
  readonly instance: XGrammarInstance;
  readonly tokenizer: TokenizerInfo;
  readonly compiler: LibraryCompiler;
}

/** A compiled grammar, freed when the cache and all requests let go of it. */
class SharedGrammar {
  readonly #grammar: LibraryGrammar;
  readonly #instance: XGrammarInstance;
  readonly #options: GrammarCompilerOptions;
  #holders = 0;

  constructor(
    grammar: LibraryGrammar,
    instance: XGrammarInstance,
    options: GrammarCompilerOptions,
  ) {
    this.#grammar = grammar;
    this.#instance = instance;
    this.#options = options;
  }

  retain(): void {
    this.#holders++;
  }

  release(): void {
    assert(this.#holders > 0, "Cannot release a grammar: nobody holds it");
    this.#holders--;
    if (this.#holders === 0) this.#grammar.dispose();
  }

  /** The grammar in the hands of one more request. */
  lend(): CompiledGrammar {
    this.retain();
    let lent = true;
    return {
      createMatcher: async () => {
        assert(lent, "Cannot create a matcher: the grammar was disposed");
        return await this.#createMatcher();
      },
      dispose: () => {
        if (lent) this.release();
        lent = false;
      },
    };
  }

  async #createMatcher(): Promise<GrammarMatcher> {
    const { GrammarMatcher: Library } = this.#instance.api;
    const matcher = await Library.createGrammarMatcher(this.#grammar);
    return new Matcher(matcher, this.#instance, this.#options);
  }
}

/**
 * Structured output to matchers, by xgrammar.
 *
 * A grammar is read twice: first in an instance that is thrown away if it aborts, so that a bad
 * request never touches the instance that running requests live in.
 */
export class GrammarCompiler {
  readonly #options: GrammarCompilerOptions;
  /** By source, the least recently used first. */
  readonly #cache = new Map<string, SharedGrammar>();
  #home: Home | null = null;
  #reader: XGrammarInstance | null = null;
  /** Ends when the last request that was made is served: one at a time. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(options: GrammarCompilerOptions) {
    this.#options = options;
  }

  /** Compiles, or finds it compiled. The caller disposes of the result. Throws GRAMMAR_INVALID. */
  async compile(output: StructuredOutput): Promise<CompiledGrammar> {
    const source = grammarSource(output);
    const made = this.#turn.then(() => this.#lend(source));
    this.#turn = made.catch(() => null); // its own caller hears of it
    return await made;
  }

  async #lend(source: GrammarSource): Promise<CompiledGrammar> {
    const key = `${source.kind}:${source.text}`;
    const known = this.#cache.get(key);
    const grammar = known ?? (await this.#compile(source));
    if (known === undefined) grammar.retain();
    this.#cache.delete(key);
    this.#cache.set(key, grammar);
    this.#forget(cachedGrammars);
    return grammar.lend();
  }

  /** Lets go of the oldest, down to `count`. */
  #forget(count: number): void {
    for (const [key, grammar] of this.#cache) {
      if (this.#cache.size <= count) return;
      this.#cache.delete(key);
      grammar.release();
    }
  }

  async #compile(source: GrammarSource): Promise<SharedGrammar> {
    const readable = await this.#read(source);
    const { compiler, instance } = await this.#openHome();
    try {
      const grammar = await compileSource(compiler, readable);
      return new SharedGrammar(grammar, instance, this.#options);
    } catch (error) {
      // Running matchers stay where they are; what comes gets a fresh instance.
      this.#home = null;
      this.#forget(0);
      throw grammarInvalid(instance.explain(error), error);
    }
  }

  /** Finds out whether the library can read `source`, where an abort harms nobody. */
  async #read(source: GrammarSource): Promise<ReadableSource> {
    this.#reader ??= loadXGrammar();
    const reader = this.#reader;
    try {
      const readable = await readableSource(reader, source);
      const grammar = await parseSource(reader, readable);
      grammar.dispose();
      return readable;
    } catch (error) {
      this.#reader = null;
      throw grammarInvalid(reader.explain(error), error);
    }
  }

  async #openHome(): Promise<Home> {
    this.#home ??= await openHome(this.#options);
    return this.#home;
  }

  /** Gives the memory of cached grammars back. Matchers live on. */
  dispose(): void {
    this.#forget(0);
    this.#home?.compiler.dispose();
    this.#home?.tokenizer.dispose();
    this.#home = null;
    this.#reader = null;
  }
}

async function openHome(options: GrammarCompilerOptions): Promise<Home> {
  const { type, vocabularySize } = options;
  const [tokens, stops] = [[...options.tokens], [...options.stopTokenIds]];
  assert(tokens.length <= vocabularySize, "Cannot compile grammars: more tokens than logits");
  const instance = loadXGrammar();
  const { api } = instance;
  const read = api.TokenizerInfo.createTokenizerInfo(tokens, type, false, vocabularySize, stops);
  const tokenizer = await read;
  // The library's own cache never forgets.
  const compiler = await api.GrammarCompiler.createGrammarCompiler(tokenizer, false);
  return { instance, tokenizer, compiler };
}

/** What grammars are compiled from: schemas are EBNF by then. */
type ReadableSource = GrammarSource & { readonly kind: "ebnf" | "tag" };

/** A string of limited length, as the library writes it in EBNF: with control characters. */
const limitedString = String.raw`[^"\\\r\n]`;
const limitedJsonString = String.raw`[^\0-\x1f\"\\\r\n]`;

/** Most whitespace between JSON tokens: pretty printing fits, a model that only indents ends. */
const whitespaceMax = 24;

/**
 * Schemas become EBNF, with whitespace between JSON tokens, and no members but those that the
 * schema names, as in OpenAI's strict mode. Strings with a length must be JSON's too.
 */
async function readableSource(
  { api }: XGrammarInstance,
  { kind, text }: GrammarSource,
): Promise<ReadableSource> {
  if (kind !== "schema") return { kind, text };
  const none = undefined; // the library's own indentation and separators
  const grammar = await api.Testings._jsonSchemaToEBNF(text, true, none, none, true, whitespaceMax);
  return { kind: "ebnf", text: grammar.replaceAll(limitedString, () => limitedJsonString) };
}

async function parseSource({ api }: XGrammarInstance, source: ReadableSource) {
  switch (source.kind) {
    case "ebnf":
      return await api.Grammar.fromEBNF(source.text);
    case "tag":
      return await api.Grammar.fromStructuralTag(source.text);
  }
}

async function compileSource(
  compiler: LibraryCompiler,
  source: ReadableSource,
): Promise<LibraryGrammar> {
  switch (source.kind) {
    case "ebnf":
      return await compiler.compileGrammar(source.text);
    case "tag":
      return await compiler.compileStructuralTag(source.text);
  }
}

class Matcher implements GrammarMatcher {
  readonly #matcher: LibraryMatcher;
  readonly #instance: XGrammarInstance;
  readonly #options: GrammarCompilerOptions;
  #accepted = 0;
  #disposed = false;

  constructor(
    matcher: LibraryMatcher,
    instance: XGrammarInstance,
    options: GrammarCompilerOptions,
  ) {
    this.#matcher = matcher;
    this.#instance = instance;
    this.#options = options;
  }

  async fillBitmask(row: Uint32Array): Promise<void> {
    assert(!this.#disposed, "Cannot fill a bitmask: the matcher was disposed");
    if (this.isTerminated()) {
      row.set(maskOf(this.#options.stopTokenIds, row.length));
      return;
    }
    try {
      const words = await this.#matcher.getNextTokenBitmask();
      row.set(words);
      this.#forbidPadding(row);
    } catch (error) {
      throw this.#failed(error);
    }
  }

  /** Ids without a token: the library allows them where it allows everything. */
  #forbidPadding(row: Uint32Array): void {
    const { length } = this.#options.tokens;
    const word = length >>> 5;
    row[word] = (row[word] ?? 0) & ((1 << (length & 31)) - 1);
    row.fill(0, word + 1);
  }

  accept(token: number): boolean {
    assert(!this.#disposed, "Cannot accept a token: the matcher was disposed");
    try {
      if (!this.#matcher.acceptToken(token)) return false;
    } catch (error) {
      throw this.#failed(error);
    }
    this.#accepted++;
    return true;
  }

  rollback(count: number): void {
    assert(count <= this.#accepted, `Cannot roll back ${count} tokens: ${this.#accepted} accepted`);
    if (count === 0) return;
    this.#matcher.rollBack(count);
    this.#accepted -= count;
  }

  isTerminated(): boolean {
    return this.#matcher.isTerminated();
  }

  #failed(error: unknown): EngineError {
    const reason = this.#instance.explain(error);
    return new EngineError(
      "ENGINE_STEP_FAILED",
      `Cannot follow the grammar: the library must accept it, ${reason}`,
      { cause: error },
    );
  }

  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    this.#matcher.dispose();
  }
}
