/** Compilers of grammars, for a model whose vocabulary comes later. */
import type { Clock } from "#base";
import type { EngineOptions } from "#engine/protocol";
import { GrammarCompiler } from "#sampling";
import type { GrammarVocabulary } from "#tokenizer";

export interface CompilerParts {
  readonly options: EngineOptions;
  readonly vocabularySize: number;
  readonly eosTokenIds: readonly number[];
  readonly clock: Clock;
}

/** Makes compilers of grammars, once a vocabulary is known. */
export function compilersOf(
  parts: CompilerParts,
): (vocabulary: GrammarVocabulary) => GrammarCompiler {
  const { options, vocabularySize, eosTokenIds, clock } = parts;
  return ({ bytes, ends }) =>
    new GrammarCompiler({
      tokens: { bytes, ends: ends.slice(0, vocabularySize) },
      options: options.grammar,
      vocabularySize,
      stopTokenIds: eosTokenIds,
      clock,
    });
}
