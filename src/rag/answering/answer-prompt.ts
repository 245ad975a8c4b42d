/** Builds the prompt of a question: which passages, in which order, and what is kept of it. */
import { EngineError } from "#base";
import type { ServedModel, TextCodec } from "#engine";
import type { RetentionConfig } from "#kvcache";
import type { Hit } from "#rag/stores";
import type { CacheWatch } from "./cache-watch.ts";
import type { AskSettings } from "./config.ts";
import { type Passage, PassageReader } from "./passages.ts";
import type { PrefixBook } from "./prefix-book.ts";
import { hashesAt, tokenStarts } from "./prompt-blocks.ts";
import { asked, messagesOf, numbered, textOf } from "./prompt-text.ts";
import { withoutSpecialTokens } from "./quoting.ts";
import { retentionPlan } from "./retention-plan.ts";

/** A question and what was found for it. */
export interface PromptRequest {
  readonly question: string;
  /** Best first. */
  readonly hits: readonly Hit[];
  readonly settings: AskSettings;
  readonly book: PrefixBook;
  readonly signal?: AbortSignal;
}

/** A prompt that fits the model. */
export interface BuiltPrompt {
  readonly promptTokenIds: readonly number[];
  /** In the prompt's order. */
  readonly passages: readonly Passage[];
  /** Null: the settings want none, or the tokens do not show where the parts lie. */
  readonly retention: RetentionConfig | null;
  readonly maxTokens: number;
}

/** Least room for an answer: less is no answer. */
const ANSWER_TOKENS_MIN = 16;

/** Builds prompts for one model. */
export class PromptBuilder {
  readonly #llm: ServedModel;
  readonly #codec: TextCodec;
  readonly #watch: CacheWatch;
  readonly #reader: PassageReader;

  /** Throws TOKENIZER_MISSING. */
  constructor(llm: ServedModel, watch: CacheWatch) {
    if (llm.codec === null) {
      throw new EngineError(
        "TOKENIZER_MISSING",
        `Cannot answer with ${llm.info.name}: wanted a model with a tokenizer, it has none`,
      );
    }
    this.#llm = llm;
    this.#codec = llm.codec;
    this.#watch = watch;
    this.#reader = new PassageReader(llm.codec);
  }

  /** Throws PROMPT_TOO_LONG where not even the question fits. */
  async build(request: PromptRequest): Promise<BuiltPrompt> {
    const { settings, signal } = request;
    const { text: question } = await withoutSpecialTokens(
      request.question.toWellFormed(),
      this.#codec,
      signal,
    );
    const found = await this.#reader.read(
      request.hits.slice(0, settings.sourcesMax),
      settings.titles,
      signal,
    );
    const frame = (await this.#encode({ ...request, question }, [])).length;
    let chosen = await this.#fitting(found, this.#room(frame, settings), signal);
    for (;;) {
      const passages = this.#ordered(chosen, request);
      const ids = await this.#encode({ ...request, question }, passages);
      const left = this.#contextTokens() - ids.length;
      if (left >= Math.min(settings.maxTokens, ANSWER_TOKENS_MIN)) {
        const retention = this.#note(ids, passages, question, request);
        const maxTokens = Math.min(settings.maxTokens, left);
        return { promptTokenIds: ids, passages, retention, maxTokens };
      }
      // Joined texts may have a few tokens more than their parts: the last one found goes.
      if (chosen.length === 0) throw this.#tooLong(ids.length);
      chosen = chosen.slice(0, -1);
    }
  }

  #tooLong(tokens: number): EngineError {
    const most = this.#contextTokens() - ANSWER_TOKENS_MIN;
    return new EngineError(
      "PROMPT_TOO_LONG",
      `Cannot ask: the question and the preamble must have at most ${most} tokens, they have ` +
        `${tokens}; shorten them`,
      { param: "question" },
    );
  }

  /** Tokens of a prompt and its answer together. */
  #contextTokens(): number {
    const { contextTokensMax, blocks, blockTokens } = this.#llm.info;
    return Math.min(contextTokensMax, blocks * blockTokens);
  }

  #room(frame: number, { maxTokens }: AskSettings): number {
    const context = this.#contextTokens() - frame;
    // A long answer gives way to passages: half of the context stays for them.
    return Math.max(context - maxTokens, Math.floor(context / 2));
  }

  /** The best passages that fit together; the best one of all is cut where it alone is too long. */
  async #fitting(found: readonly Passage[], room: number, signal?: AbortSignal) {
    const chosen: Passage[] = [];
    let left = room;
    for (const passage of found) {
      if (passage.tokens > left && chosen.length > 0) continue;
      const whole = passage.tokens <= left;
      const fitting = whole ? passage : await this.#reader.cut(passage, left, signal);
      if (fitting === null) continue;
      chosen.push(fitting);
      left -= fitting.tokens;
    }
    return chosen;
  }

  #ordered(chosen: readonly Passage[], { settings, book }: PromptRequest): readonly Passage[] {
    if (settings.order === "similarity") return chosen;
    if (settings.order === "document") {
      return [...chosen].sort((a, b) =>
        a.documentId === b.documentId ? a.index - b.index : a.documentId < b.documentId ? -1 : 1,
      );
    }
    return book.arrange(chosen, (hash) => this.#watch.has(hash)).order;
  }

  async #encode(request: PromptRequest, passages: readonly Passage[]): Promise<number[]> {
    const { settings, question, signal } = request;
    const texts = passages.map(({ text }, place) => numbered(text, place + 1));
    const parts = { preamble: settings.preamble, passages: texts, question };
    const { cacheSalt } = settings;
    if (this.#llm.info.hasChatTemplate) {
      const options = { ...(signal && { signal }), ...(cacheSalt !== null && { cacheSalt }) };
      const messages = messagesOf(parts, this.#llm.info);
      return [...(await this.#llm.chatPrompt(messages, options)).promptTokenIds];
    }
    return this.#codec.encode(textOf(parts), { cacheSalt, ...(signal && { signal }) });
  }

  /** Writes the order into the book, with the blocks that it will have. */
  #note(
    ids: readonly number[],
    passages: readonly Passage[],
    question: string,
    { settings, book }: PromptRequest,
  ): RetentionConfig | null {
    const parts = passages.map(({ text }, place) => numbered(text, place + 1));
    const starts = tokenStarts(ids, [...parts, asked(question)], this.#codec);
    const { blockTokens } = this.#llm.info;
    const algorithm = this.#llm.kvEvents.hashAlgorithm;
    const names = { algorithm, blockTokens, cacheSalt: settings.cacheSalt };
    book.note(passages, hashesAt(ids, starts.slice(1), names));
    const known = starts.filter((start) => start !== null);
    if (!settings.retention || known.length < starts.length) return null;
    const heat = passages.map(({ id }) => book.heat(id));
    return retentionPlan({ starts: known, heat });
  }
}
