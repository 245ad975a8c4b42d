/** A tokenizer for callers that must not block: long texts go to threads. */

import type { DecodeTextOptions, EncodeTextOptions, TextCodec, TextFrame } from "#engine/protocol";
import type { TextPool, Tokenizer } from "#tokenizer";
import { promptTooLong, tooManyBytes } from "#tokenizer";
import { boundedMap } from "./bounded-map.ts";
import { plainIds } from "./plain-ids.ts";

/**
 * Texts up to this many UTF-16 units are encoded on the calling thread, where the tokenizer has
 * only known parts. Ordinary texts cost less there than a round trip to a thread (35 µs, and as
 * much to send), and the worst found (spaces, unknown characters) 1 to 3 ms: 2026-11-22, AMD EPYC,
 * 2 cores, shared.
 */
const INLINE_UNITS_MAX = 512;

/** Up to this many ids are decoded on the calling thread: some 2 ms. */
const INLINE_IDS_MAX = 4_096;

/** Characters of one job of several texts. */
const JOB_UNITS_MAX = 64 * 2 ** 10;

/** Concurrent jobs of one caller's list, so that other jobs run in between. */
const JOBS_MAX = 4;

/** Encodes and decodes; throws PROMPT_TOO_LONG for texts beyond `bytesMax`. */
export class ModelCodec implements TextCodec {
  readonly #tokenizer: Tokenizer;
  readonly #pool: TextPool;
  readonly #bytesMax: () => number;

  constructor(tokenizer: Tokenizer, pool: TextPool, bytesMax: () => number) {
    this.#tokenizer = tokenizer;
    this.#pool = pool;
    this.#bytesMax = bytesMax;
  }

  async encode(text: string, options: EncodeTextOptions = {}): Promise<number[]> {
    const ids = await this.encodeIds(text, options);
    return ids instanceof Int32Array ? plainIds(ids) : ids;
  }

  /** The ids as they come: of a text thread, in a typed array that was not copied. */
  async encodeIds(text: string, options: EncodeTextOptions = {}): Promise<number[] | Int32Array> {
    const { addSpecialTokens = true, cacheSalt = null, signal } = options;
    this.#check(text, options);
    if (this.#mayInline(text.length)) {
      return this.#tokenizer.encodeNow(text, { addSpecialTokens, cacheSalt });
    }
    const [ids] = await this.#pool.run(
      { kind: "encode", texts: [text], addSpecialTokens, cacheSalt },
      { size: text.length, signal },
    );
    return ids ?? [];
  }

  async encodeAll(texts: readonly string[], options: EncodeTextOptions = {}): Promise<number[][]> {
    const { addSpecialTokens = true, cacheSalt = null, signal } = options;
    let size = 0;
    const { param = "prompt" } = options;
    for (const [i, text] of texts.entries()) {
      this.#check(text, { ...options, param: texts.length > 1 ? `${param}[${i}]` : param });
      size += text.length;
    }
    if (this.#mayInline(size)) {
      return texts.map((text) => this.#tokenizer.encodeNow(text, { addSpecialTokens, cacheSalt }));
    }
    // Each job is queued with the whole list's size, so that it does not delay small ones.
    const lists = await boundedMap(jobsOf(texts), JOBS_MAX, (some) =>
      this.#pool.run(
        { kind: "encode", texts: some, addSpecialTokens, cacheSalt },
        { size, signal },
      ),
    );
    return lists.flat().map(plainIds);
  }

  decode(ids: readonly number[], options: DecodeTextOptions = {}): string {
    return this.#tokenizer.decode(ids, options);
  }

  async decodeLong(ids: readonly number[], options: DecodeTextOptions = {}): Promise<string> {
    if (ids.length <= INLINE_IDS_MAX) return this.decode(ids, options);
    const { skipSpecialTokens = true } = options;
    const { signal } = options;
    return this.#pool.run({ kind: "decode", ids, skipSpecialTokens }, { size: ids.length, signal });
  }

  get frame(): TextFrame {
    return this.#tokenizer.frame;
  }

  tokenBytes(id: number): Uint8Array {
    return this.#tokenizer.tokenBytes(id);
  }

  tokenId(spelling: string): number | null {
    return this.#tokenizer.tokenId(spelling);
  }

  #mayInline(units: number): boolean {
    return units <= INLINE_UNITS_MAX && this.#tokenizer.encodesQuickly;
  }

  /** Refuses a text that is certainly too long without encoding it. */
  #check(text: string, { tokensMax = null, param = "prompt" }: EncodeTextOptions): void {
    const bytesMax = this.#bytesMax();
    const bytes = Buffer.byteLength(text);
    const tooLong = promptTooLong(this.#tokenizer.tokensAtLeast(text), tokensMax, param);
    if (tooLong !== null) throw tooLong;
    if (bytes > bytesMax) throw tooManyBytes(bytes, bytesMax, param);
  }
}

/** Splits texts, in order, into jobs of at most `JOB_UNITS_MAX`; a longer text is one job. */
function jobsOf(texts: readonly string[]): string[][] {
  const jobs: string[][] = [];
  let size = Number.POSITIVE_INFINITY;
  for (const text of texts) {
    if (size + text.length > JOB_UNITS_MAX) {
      jobs.push([]);
      size = 0;
    }
    jobs.at(-1)?.push(text);
    size += text.length;
  }
  return jobs;
}
