import type { TextCodec } from "#engine";

/** One token's text for clients; `bytes:…` if the token is part of a character. */
export interface TokenText {
  readonly text: string;
  /** Null without a tokenizer. */
  readonly bytes: readonly number[] | null;
}

/** Throws for a partial character. */
const wholeCharacters = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Writes token ids as text, as in OpenAI's API. */
export class TokenWriter {
  readonly #codec: TextCodec | null;
  readonly #asIds: boolean;

  /** `asIds` writes `token_id:42`, which is unique even if tokens have equal texts. */
  constructor(codec: TextCodec | null, asIds: boolean) {
    this.#codec = codec;
    this.#asIds = asIds || codec === null;
  }

  write(tokenId: number): TokenText {
    const bytes = this.#codec?.tokenBytes(tokenId) ?? null;
    if (this.#asIds || bytes === null) {
      return { text: `token_id:${tokenId}`, bytes: bytes === null ? null : [...bytes] };
    }
    return { text: this.#decode(bytes), bytes: [...bytes] };
  }

  #decode(bytes: Uint8Array): string {
    try {
      return wholeCharacters.decode(bytes);
    } catch {
      // Part of a character: written in hex, because all such parts would decode to U+FFFD.
      return `bytes:${Buffer.from(bytes).toString("hex").replace(/../g, "\\x$&")}`;
    }
  }
}
