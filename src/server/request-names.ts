/**
 * Converts TypeScript field names in a text to request field names: `topP` becomes `top_p`. Only
 * words that begin in lower case are names.
 */
export function requestNames(text: string): string {
  return text.replace(/\b[a-z]+(?:[A-Z][a-z]*)+\b/g, (name) =>
    name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
  );
}
