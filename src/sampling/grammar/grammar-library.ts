/** The C functions of the grammar library (native/grammar), with errors as exceptions. */
import koffi, { type LibraryHandle, type TypeObject } from "koffi";
import { EngineError, findNativeFile, messageOf } from "#base";

/** Limits of one grammar; native/grammar/src/grammar.rs explains them. */
export interface NativeLimits {
  readonly bytes: number;
  readonly lexerStates: number;
  readonly symbols: number;
  readonly compileWork: number;
  readonly stepWork: number;
  readonly stepItems: number;
  readonly rowItems: number;
  readonly stackBytes: number;
}

/** Tokens' bytes, concatenated, and the end of each. */
export interface TokenBytes {
  readonly bytes: Uint8Array;
  readonly ends: Uint32Array;
}

/** Addresses are the library's own objects: the code that creates one frees it. */
export interface GrammarLibrary {
  /** Ends this process beyond `bytes` or after `milliseconds`. */
  armGuard(bytes: number, milliseconds: number): void;
  disarmGuard(): void;
  createVocabulary(tokens: TokenBytes, stopTokenIds: readonly number[]): Promise<unknown>;
  freeVocabulary(vocabulary: unknown): void;
  /** Compiles on another thread. Rejects with the library's message. */
  compile(
    vocabulary: unknown,
    language: "json" | "lark",
    text: string,
    limits: NativeLimits,
  ): Promise<unknown>;
  /** The same, on this thread. */
  compileNow(
    vocabulary: unknown,
    language: "json" | "lark",
    text: string,
    limits: NativeLimits,
  ): unknown;
  /** Bytes of a grammar and its matchers. */
  grammarBytes(grammar: unknown): number;
  freeGrammar(grammar: unknown): void;
  createMatcher(grammar: unknown): unknown;
  /** Returns the work of the mask. Throws GrammarFailure, as the functions below do. */
  fillMask(matcher: unknown, mask: Uint32Array): number;
  accept(matcher: unknown, token: number): boolean;
  rollback(matcher: unknown, count: number): void;
  /** Writes the tokens of the text that alone may follow. Returns how many there are. */
  forced(matcher: unknown, tokens: Int32Array): number;
  freeMatcher(matcher: unknown): void;
}

/** An error of the library. */
export class GrammarFailure extends Error {
  override readonly name = "GrammarFailure";
  /** The grammar is valid, but exceeds the limits. */
  readonly isLimit: boolean;

  constructor(message: string, isLimit: boolean) {
    super(message);
    this.isLimit = isLimit;
  }
}

/** The ABI version in native/grammar/src/lib.rs. */
const abi = 3;
const errorBytes = 2_048;

const remedy = "install Rust (https://rustup.rs) and run node tools/build-grammar.mjs";

let loaded: GrammarLibrary | null = null;

/** Throws GRAMMAR_UNAVAILABLE where there is no library for this platform. */
export function loadGrammarLibrary(): GrammarLibrary {
  loaded ??= open();
  return loaded;
}

/**
 * Why structured output is unavailable on this machine, with the remedy; null where it is
 * available.
 */
export function grammarProblem(): string | null {
  try {
    loadGrammarLibrary();
    return null;
  } catch (error) {
    return messageOf(error);
  }
}

function unavailable(reason: string, cause?: unknown): EngineError {
  const message = `Cannot constrain the output: the grammar library must be installed, ${reason}`;
  return new EngineError("GRAMMAR_UNAVAILABLE", `${message}; ${remedy}`, { cause });
}

function open(): GrammarLibrary {
  const path = findNativeFile("grammar");
  if (path === null) throw unavailable(`none for ${process.platform}-${process.arch} is`);
  let handle: LibraryHandle;
  try {
    handle = koffi.load(path);
  } catch (cause) {
    throw unavailable(`${path} cannot be loaded`, cause);
  }
  const version: number = handle.func("uint32_t perigee_grammar_abi()")();
  if (version !== abi) throw unavailable(`${path} is of version ${version}, not ${abi}`);
  return bind(handle);
}

/** The error of a grammar with a prefix that no token can continue. */
export const noOutput = "it must allow an output, it allows none";

/** llguidance's messages have several lines and its own names. */
function inOneLine(text: string): string {
  if (text.startsWith("NoExtensionBias")) return noOutput;
  const regex = /regex parse error:[\s\S]*?^error: (.*)$/m.exec(text)?.[1];
  if (regex !== undefined)
    return `a regular expression must be readable, this one is not: ${regex}`;
  const [line = ""] = text.trim().split("\n");
  const reason = line
    .replace(/^at \d+\(\d+\): /, "")
    .replace(/^Unimplemented keys: (.*)$/, "keywords must be supported, $1 are not");
  return reason === "" ? "the library gives no reason" : reason;
}

/** The reason of a failure, in memory that the library writes. */
class ErrorText {
  readonly #text = Buffer.alloc(errorBytes);
  readonly struct = { text: this.#text, bytes: errorBytes };

  failure(isLimit = false): GrammarFailure {
    const end = this.#text.indexOf(0);
    const text = this.#text.toString("utf8", 0, end === -1 ? errorBytes : end);
    // llguidance reports rows that are too long as errors of the parser.
    return new GrammarFailure(inOneLine(text), isLimit || /row has \d+ items/.test(text));
  }
}

const languages = { json: 0, lark: 1 } as const;

const noLimits: NativeLimits = {
  ...{ bytes: 0, lexerStates: 0, symbols: 0, compileWork: 0 },
  ...{ stepWork: 0, stepItems: 0, rowItems: 0, stackBytes: 0 },
};

/** The fields in the order of the library's struct. */
function nativeLimits(limits: NativeLimits) {
  return {
    bytes: limits.bytes,
    lexer_states: limits.lexerStates,
    symbols: limits.symbols,
    compile_work: limits.compileWork,
    step_work: limits.stepWork,
    step_items: limits.stepItems,
    row_items: limits.rowItems,
    stack_bytes: limits.stackBytes,
  };
}

/** The library's functions as C declares them. */
function functionsOf(handle: LibraryHandle) {
  const error = koffi.pointer(koffi.struct({ text: "void *", bytes: "uint32_t" }));
  const names = Object.keys(nativeLimits(noLimits));
  const limits = koffi.pointer(koffi.struct(Object.fromEntries(names.map((n) => [n, "uint64_t"]))));
  const native = (name: string, result: string, ...types: (string | TypeObject)[]) =>
    handle.func(`perigee_${name}`, result, types);
  const count = "uint32_t";
  const [bytes, words] = ["const uint8_t *", "const uint32_t *"];
  return {
    armGuard: native("guard_arm", "void", "int64_t", count),
    disarmGuard: native("guard_disarm", "void"),
    createVocabulary: native(
      ...(["vocabulary_create", "void *"] as const),
      ...[bytes, words, count, words, count, error],
    ),
    freeVocabulary: native("vocabulary_free", "void", "void *"),
    compile: native(
      ...(["grammar_compile", "void *"] as const),
      ...["void *", count, bytes, count, limits, error],
    ),
    grammarBytes: native("grammar_bytes", "int64_t", "void *"),
    freeGrammar: native("grammar_free", "void", "void *"),
    createMatcher: native("matcher_create", "void *", "void *", error),
    fillMask: native("matcher_mask", "int64_t", "void *", "void *", count, error),
    accept: native("matcher_accept", "int64_t", "void *", count, error),
    rollback: native("matcher_rollback", "int64_t", "void *", count, error),
    forced: native("matcher_forced", "int64_t", "void *", "void *", count, error),
    freeMatcher: native("matcher_free", "void", "void *"),
  };
}

function compileArguments(...given: Parameters<GrammarLibrary["compile"]>): readonly unknown[] {
  const [vocabulary, language, text, limits] = given;
  const source = Buffer.from(text);
  return [vocabulary, languages[language], source, source.length, nativeLimits(limits)];
}

function bind(handle: LibraryHandle): GrammarLibrary {
  const native = functionsOf(handle);
  // Calls of one thread are sequential: one buffer is enough for the errors of synchronous calls.
  const reason = new ErrorText();
  const checked = (value: number): number => {
    if (value < 0) throw reason.failure(value === -2);
    return value;
  };
  const made = (value: unknown): unknown => {
    if (value === null) throw reason.failure();
    return value;
  };
  return {
    ...native,
    createVocabulary: (tokens, stopTokenIds) => {
      const stops = Uint32Array.from(stopTokenIds);
      const { bytes, ends } = tokens;
      return madeLater(native.createVocabulary, [bytes, ends, ends.length, stops, stops.length]);
    },
    compile: (...given) => madeLater(native.compile, compileArguments(...given)),
    compileNow: (...given) => made(native.compile(...compileArguments(...given), reason.struct)),
    grammarBytes: (grammar) => Number(native.grammarBytes(grammar)),
    createMatcher: (grammar) => made(native.createMatcher(grammar, reason.struct)),
    fillMask: (matcher, mask) =>
      checked(Number(native.fillMask(matcher, mask, mask.length, reason.struct))),
    accept: (matcher, token) => checked(Number(native.accept(matcher, token, reason.struct))) === 1,
    rollback: (matcher, count) => {
      checked(Number(native.rollback(matcher, count, reason.struct)));
    },
    forced: (matcher, tokens) =>
      checked(Number(native.forced(matcher, tokens, tokens.length, reason.struct))),
  };
}

type NativeCall = ReturnType<LibraryHandle["func"]>;

/** Result of a call on another thread, which reads `given` until then. */
async function madeLater(call: NativeCall, given: readonly unknown[]): Promise<unknown> {
  const reason = new ErrorText();
  const made = await new Promise<unknown>((resolve, reject) => {
    call.async(...given, reason.struct, (error: unknown, value: unknown) => {
      if (error === null || error === undefined) resolve(value);
      else reject(error);
    });
  });
  // `given` is referenced until here, so that it is not garbage-collected while the library reads
  // it.
  if (made === null || given.length === 0) throw reason.failure();
  return made;
}
