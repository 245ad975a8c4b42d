/**
 * TypeScript's names as requests write them, in a name or a sentence: `topP` is `top_p`. Only words
 * that begin in lower case are names.
 */
export function requestNames(text: string): string {
  return text.replace(/\b[a-z]+(?:[A-Z][a-z]*)+\b/g, (name) =>
    name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
  );
}
