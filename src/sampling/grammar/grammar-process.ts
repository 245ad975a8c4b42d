/**
 * A process that tries grammars, one after another: it translates and compiles each, against a
 * vocabulary of single bytes. A grammar that takes too long, too much memory or breaks the library
 * ends this process (the guard is the library's), and nothing else.
 */
import { setPriority } from "node:os";
import { GrammarFailure, loadGrammarLibrary, type NativeLimits } from "./grammar-library.ts";
import type { GrammarSource } from "./grammar-source.ts";
import { type PreparedGrammar, preparedGrammar } from "./prepared-grammar.ts";

/** A request to the process. */
export interface TrialJob {
  readonly source: GrammarSource;
  readonly whitespaceMax: number;
  readonly compileMsMax: number;
  readonly memoryBytesMax: number;
  readonly limits: NativeLimits;
}

/**
 * The process's answer. `error`: the requirement that the grammar violates, and its actual value.
 */
export type TrialAnswer =
  | { readonly ready: true }
  | { readonly prepared: PreparedGrammar }
  | { readonly error: string; readonly isLimit: boolean };

/** Lower priority than generation. */
const niceness = 10;

try {
  setPriority(niceness);
} catch {
  // Some systems forbid it: the priority is optional.
}

const library = loadGrammarLibrary();
const ends = Uint32Array.from({ length: 256 }, (_, byte) => byte + 1);
const bytes = Uint8Array.from({ length: 256 }, (_, byte) => byte);
const vocabulary = await library.createVocabulary({ bytes, ends }, []);

/** Compiles, and computes the first mask: a grammar without any output has none. */
function tryOut(prepared: PreparedGrammar, limits: NativeLimits): void {
  const grammar = library.compileNow(vocabulary, prepared.language, prepared.text, limits);
  const matcher = library.createMatcher(grammar);
  try {
    library.fillMask(matcher, new Uint32Array(ends.length / 32));
  } finally {
    library.freeMatcher(matcher);
    library.freeGrammar(grammar);
  }
}

function answerTo(job: TrialJob): TrialAnswer {
  library.armGuard(job.memoryBytesMax, job.compileMsMax);
  try {
    const prepared = preparedGrammar(job.source, job.whitespaceMax);
    tryOut(prepared, job.limits);
    return { prepared };
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    return { error: message, isLimit: error instanceof GrammarFailure && error.isLimit };
  } finally {
    library.disarmGuard();
  }
}

process.on("message", (job: TrialJob) => process.send?.(answerTo(job)));
process.send?.({ ready: true } satisfies TrialAnswer);
