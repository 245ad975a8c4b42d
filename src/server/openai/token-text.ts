import type { TextCodec } from "#engine";

/** One token's text as a client can read it; bytes where it is part of a character. */
export interface TokenText {
  readonly text: string;
  /** Null without a tokenizer. */
  readonly bytes: readonly number[] | null;
}

/** Throws at half a character. */
const wholeCharacters = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Shows token ids as text, as OpenAI does. */
export class TokenWriter {
  readonly #codec: TextCodec | null;
  readonly #asIds: boolean;

  /** `asIds` writes `token_id:42`, which can be told apart where texts cannot. */
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
      // Part of a character: spelled out, because different parts would all look like U+FFFD.
      return `bytes:${Buffer.from(bytes).toString("hex").replace(/../g, "\\x$&")}`;
    }
  }
}
