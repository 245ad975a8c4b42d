import { EngineError } from "#base";
import type { Tokenizer } from "./tokenizer.ts";

/**
 * Token sequences that spell the words, at the start of a text and after a space, for the sampler
 * to forbid. Throws INVALID_ARGUMENT for a word that has no tokens.
 */
export function badWordTokens(tokenizer: Tokenizer, words: readonly string[]): number[][] {
  const encode = (text: string): number[] => tokenizer.encodeNow(text, { addSpecialTokens: false });
  return words.flatMap((word) => {
    const bare = encode(word.trimStart());
    if (bare.length === 0) {
      throw new EngineError(
        "INVALID_ARGUMENT",
        `Cannot forbid a word: it must have tokens, ${JSON.stringify(word)} has none`,
        { param: "badWords" },
      );
    }
    const spaced = encode(` ${word.trimStart()}`);
    // As vLLM: a variant counts if the space changed the first token and not the number of tokens.
    const differs = spaced.length === bare.length && spaced[0] !== bare[0];
    return differs ? [bare, spaced] : [bare];
  });
}
