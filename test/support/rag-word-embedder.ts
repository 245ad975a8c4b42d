import { createHash } from "node:crypto";
import type { Embedder, EmbedOptions } from "#rag";

const DIMENSIONS = 32;

/**
 * An embedder without a model: a text is a bag of its words, each at a place of its hash. A token is
 * a word's stretch of up to 8 characters, or a mark; two more stand for special tokens.
 */
export class WordEmbedder implements Embedder {
  readonly name = "words";
  readonly fingerprint = "words-1";
  readonly dimensions = DIMENSIONS;
  readonly tokensMax: number;
  /** All texts that were embedded, in order. */
  readonly embedded: string[] = [];
  readonly #hook: (texts: readonly string[]) => void | Promise<void>;

  constructor(
    tokensMax = 512,
    hook: (texts: readonly string[]) => void | Promise<void> = () => {},
  ) {
    this.tokensMax = tokensMax;
    this.#hook = hook;
  }

  async countTokens(texts: readonly string[], options: EmbedOptions = {}): Promise<number[]> {
    options.signal?.throwIfAborted();
    return texts.map((text) => wordTokens(text) + 2);
  }

  embedQueries(texts: readonly string[]): Promise<Float32Array[]> {
    return Promise.resolve(texts.map(vectorOf));
  }

  async embedDocuments(
    texts: readonly string[],
    options: EmbedOptions = {},
  ): Promise<Float32Array[]> {
    options.signal?.throwIfAborted();
    await this.#hook(texts);
    this.embedded.push(...texts);
    return texts.map(vectorOf);
  }

  async close(): Promise<void> {}

  async [Symbol.asyncDispose](): Promise<void> {}
}

/** Tokens of a text by `WordEmbedder`, without special ones. */
export function wordTokens(text: string): number {
  return text.match(/[\p{L}\p{N}_]{1,8}|[^\s\p{L}\p{N}_]/gu)?.length ?? 0;
}

function vectorOf(text: string): Float32Array {
  const vector = new Float32Array(DIMENSIONS);
  for (const word of text.toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? ["-"]) {
    const place = (createHash("sha256").update(word).digest()[0] ?? 0) % DIMENSIONS;
    vector[place] = (vector[place] ?? 0) + 1;
  }
  const length = Math.hypot(...vector);
  return vector.map((value) => value / length);
}
