/** Found chunks as passages of a prompt: quoted, free of special tokens, and counted. */
import type { TextCodec } from "#engine";
import type { Hit } from "#rag/stores";
import type { Chunk } from "#rag/texts";
import type { BookEntry } from "./prefix-book.ts";
import { quoted, withoutSpecialTokens } from "./quoting.ts";

/** A passage; its id names the text that the prompt has of it. */
export interface Passage extends BookEntry {
  readonly hit: Hit;
  /** Without its number. */
  readonly text: string;
}

/** Tokens around a passage: its number and the blank line, at most. */
const FRAME_TOKENS = 8;
/** Texts that are kept: of 256 tokens each some 4 MB. */
const KEPT_MAX = 4096;
const HEADING_MAX = 120;

/** Makes passages of chunks; those that come again are not encoded again. */
export class PassageReader {
  readonly #codec: TextCodec;
  readonly #kept = new Map<string, { readonly text: string; readonly tokens: number }>();

  constructor(codec: TextCodec) {
    this.#codec = codec;
  }

  /** One passage for each, in order. `titles`: with the heading above it. */
  async read(hits: readonly Hit[], titles: boolean, signal?: AbortSignal): Promise<Passage[]> {
    return await Promise.all(hits.map((hit) => this.#passage(hit, titles, signal)));
  }

  /** The beginning of a passage that fits into so many tokens; null: not even a few words. */
  async cut(passage: Passage, tokensMax: number, signal?: AbortSignal): Promise<Passage | null> {
    const room = tokensMax - FRAME_TOKENS;
    if (room < FRAME_TOKENS) return null;
    const options = { addSpecialTokens: false, ...(signal && { signal }) };
    const ids = await this.#codec.encode(passage.text, options);
    const text = this.#codec.decode(ids.slice(0, room)).replace(/\uFFFD+$/, "");
    const tokens = Math.min(ids.length, room) + FRAME_TOKENS;
    return { ...passage, id: `${passage.id} ${room}`, text, tokens };
  }

  async #passage(hit: Hit, titles: boolean, signal?: AbortSignal): Promise<Passage> {
    const { chunk } = hit;
    const title = titles ? titleOf(chunk) : "";
    const id = `${chunk.id} ${title}`;
    let kept = this.#kept.get(id);
    this.#kept.delete(id);
    kept ??= await this.#encoded(title === "" ? chunk.text : `${title}\n${chunk.text}`, signal);
    this.#kept.set(id, kept);
    for (const oldest of this.#kept.keys()) {
      if (this.#kept.size <= KEPT_MAX) break;
      this.#kept.delete(oldest);
    }
    const { documentId, index } = chunk;
    return { id, documentId, index, hit, ...kept };
  }

  async #encoded(source: string, signal?: AbortSignal) {
    const { text, tokens } = await withoutSpecialTokens(quoted(source), this.#codec, signal);
    return { text, tokens: tokens + FRAME_TOKENS };
  }
}

/** The heading nearest to a chunk, on one line. */
function titleOf({ place, text }: Chunk): string {
  const title = (place.headings.at(-1) ?? "").replace(/\s+/g, " ").trim().slice(0, HEADING_MAX);
  return text.startsWith(title) ? "" : title;
}
