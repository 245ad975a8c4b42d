/** Grammars without a library, for engines on which tests say what happens. */
import type { GrammarMatcher } from "#sampling";
import type { StructuredCompiler } from "../../src/engine/loop/engine.ts";
import { pretendMatcher } from "../support/pretend-matcher.ts";
import { tokenBytesOf } from "../support/token-bytes.ts";
import { ScriptedEngine, type ScriptedOptions } from "./scripted-engine.ts";

export const broken = () => {
  throw new Error("memory access out of bounds");
};

/** A grammar that allows everything, but for what a test replaces; freeing any of it fails. */
export function pretendGrammars(replaced: Partial<GrammarMatcher>): StructuredCompiler {
  const matcher = pretendMatcher(replaced);
  const compiled = { createMatcher: async () => matcher, dispose: broken };
  return { compile: async () => compiled, dispose: broken };
}

/** An engine whose grammars are all the same matcher. */
export function grammarEngine(
  matcher: Partial<GrammarMatcher>,
  options: ScriptedOptions,
): ScriptedEngine {
  const createCompiler = () => pretendGrammars(matcher);
  const scripted = new ScriptedEngine({ ...options, createCompiler });
  scripted.engine.useVocabulary(tokenBytesOf(["a"]));
  return scripted;
}
