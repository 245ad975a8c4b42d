import type { TokenBytes } from "#sampling";

/** A vocabulary of these tokens, by id. */
export function tokenBytesOf(tokens: readonly (string | Uint8Array)[]): TokenBytes {
  const words = tokens.map((token) =>
    typeof token === "string" ? new TextEncoder().encode(token) : token,
  );
  let length = 0;
  const ends = Uint32Array.from(words, (word) => (length += word.length));
  return { bytes: Uint8Array.from(words.flatMap((word) => [...word])), ends };
}
