import { byteOfFallback, bytesOfByteLevel } from "./byte-alphabet.ts";

/**
 * The mapping from token strings to bytes: `byte_level` (GPT-2's alphabet), `byte_fallback`
 * (SentencePiece: `▁` is a space, `<0x0A>` a byte), `raw` (the string itself).
 */
export type VocabularyKind = "byte_level" | "byte_fallback" | "raw";

export interface VocabularyOptions {
  readonly kind: VocabularyKind;
  /** Token strings by id, as tokenizer.json spells them. Ids may have gaps. */
  readonly tokens: readonly (string | undefined)[];
  /** Ids of added tokens, beside the model's own vocabulary (matched in text as a whole). */
  readonly addedIds: Iterable<number>;
  /** Ids that are left out of text. */
  readonly specialIds: Iterable<number>;
  /** The prefix of tokens that continue a word (`##`), if the model uses one. */
  readonly continuationPrefix: string | null;
}

const encoder = new TextEncoder();

/** All tokens of a model: their spellings and their bytes. */
export class Vocabulary {
  readonly kind: VocabularyKind;
  readonly #tokens: readonly (string | undefined)[];
  readonly #addedIds: ReadonlySet<number>;
  readonly #specialIds: ReadonlySet<number>;
  readonly #continuationPrefix: string | null;

  constructor(options: VocabularyOptions) {
    this.kind = options.kind;
    this.#tokens = options.tokens;
    this.#addedIds = new Set(options.addedIds);
    this.#specialIds = new Set(options.specialIds);
    this.#continuationPrefix = options.continuationPrefix;
  }

  /** One more than the largest id. A model's logits may have more columns (padding). */
  get size(): number {
    return this.#tokens.length;
  }

  get specialIds(): readonly number[] {
    return [...this.#specialIds];
  }

  /** The token's spelling, or null for an unknown id. */
  token(id: number): string | null {
    return this.#tokens[id] ?? null;
  }

  isAdded(id: number): boolean {
    return this.#addedIds.has(id);
  }

  isSpecial(id: number): boolean {
    return this.#specialIds.has(id);
  }

  /**
   * Bytes by id, for the grammar compiler. Gaps have none, and special tokens have none because
   * they add no text. Byte-fallback tokens have bytes even if a file marks them special.
   */
  textBytes(): { bytes: Uint8Array; ends: Uint32Array } {
    const none = new Uint8Array(0);
    const all = this.#tokens.map((token = "", id) => {
      const silent = this.isSpecial(id) && byteOfFallback(token) === null;
      return silent ? none : this.bytes(id);
    });
    let length = 0;
    const ends = Uint32Array.from(all, (bytes) => (length += bytes.length));
    const bytes = new Uint8Array(length);
    for (const [id, word] of all.entries()) bytes.set(word, (ends[id] ?? 0) - word.length);
    return { bytes, ends };
  }

  /** Bytes that a token adds to a text; none for an unknown id. The `##` prefix is removed. */
  bytes(id: number): Uint8Array {
    const token = this.token(id);
    if (token === null) return new Uint8Array(0);
    if (this.kind === "byte_fallback") {
      const byte = byteOfFallback(token);
      if (byte !== null) return Uint8Array.of(byte);
      return encoder.encode(this.isAdded(id) ? token : token.replaceAll("▁", " "));
    }
    if (this.isAdded(id)) return encoder.encode(token);
    if (this.kind === "byte_level") return bytesOfByteLevel(token);
    const prefix = this.#continuationPrefix ?? "";
    return encoder.encode(token.startsWith(prefix) ? token.slice(prefix.length) : token);
  }
}
