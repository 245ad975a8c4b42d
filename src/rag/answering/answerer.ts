/** Answers from passages: prompt, stream, checked citations. */
import type { ServedModel } from "#engine";
import type { Hit } from "#rag/stores";
import type { Answer, AskEvent, AskUsage, Refusal, Source } from "./answer.ts";
import { type BuiltPrompt, PromptBuilder } from "./answer-prompt.ts";
import { CacheWatch } from "./cache-watch.ts";
import { CitedText } from "./cited-text.ts";
import type { AskSettings } from "./config.ts";
import { PrefixBook } from "./prefix-book.ts";
import { isSmall, NOT_FOUND, saysNotFound } from "./prompt-text.ts";
import { checkedAnswer } from "./quoted-answer.ts";

/** A question, what was found for it, and how it is answered. */
export interface AnswerRequest {
  readonly corpus: string;
  /** Stands alone. */
  readonly question: string;
  /** Best first; what does not fit the question has been left out. */
  readonly hits: readonly Hit[];
  readonly settings: AskSettings;
  readonly signal?: AbortSignal;
}

/** Books of corpora and tenants that are kept; the ones used last. */
const BOOKS_MAX = 256;

const NO_USAGE: AskUsage = {
  promptTokens: 0,
  cachedTokens: 0,
  completionTokens: 0,
  firstTokenMs: null,
};

/** Answers questions with one model, any number at a time. Does not own the model. */
export class Answerer implements Disposable {
  readonly #llm: ServedModel;
  readonly #watch: CacheWatch;
  readonly #builder: PromptBuilder;
  readonly #books = new Map<string, PrefixBook>();

  /** Throws TOKENIZER_MISSING. */
  constructor(llm: ServedModel) {
    this.#llm = llm;
    this.#watch = new CacheWatch(llm);
    this.#builder = new PromptBuilder(llm, this.#watch);
  }

  /**
   * Answers one question: `sources`, `text` and `citation`, at the end `answer`. Leaving the loop
   * cancels the generation. Throws PROMPT_TOO_LONG, and what `ServedModel.stream` throws.
   */
  async *answer(request: AnswerRequest): AsyncGenerator<AskEvent, void, undefined> {
    const startMs = performance.now();
    const { question, hits, settings, signal } = request;
    if (hits.length === 0) {
      yield* refuse(question);
      return;
    }
    const book = this.#bookOf(request);
    const built = await this.#builder.build({
      ...{ question, hits, settings, book },
      ...(signal && { signal }),
    });
    const given = built.passages.map(({ hit }) => hit);
    // What has no room in a small context can still be quoted.
    const isQuoted = quotes(settings, this.#llm);
    const found = isQuoted ? hits.slice(0, settings.sourcesMax) : [];
    const more = found.filter((hit) => !given.includes(hit));
    const sources = [...given, ...more].map((hit, place) => ({ number: place + 1, ...hit }));
    yield { type: "sources", sources };
    yield* this.#generate(built, sources, { request, startMs });
  }

  [Symbol.dispose](): void {
    this.#watch[Symbol.dispose]();
    this.#books.clear();
  }

  async *#generate(
    built: BuiltPrompt,
    sources: readonly Source[],
    { request, startMs }: { readonly request: AnswerRequest; readonly startMs: number },
  ): AsyncGenerator<AskEvent, void, undefined> {
    const { settings, question, signal } = request;
    const isQuoted = quotes(settings, this.#llm);
    const cited = new CitedText(sources);
    let written = "";
    let completionTokens = 0;
    let finishReason: Answer["finishReason"] = "stop";
    let firstTokenMs: number | null = null;
    let cachedTokens = 0;
    const options = { ...samplingOf(built, settings), ...(signal && { signal }) };
    const { promptTokenIds } = built;
    for await (const item of this.#llm.stream({ promptTokenIds }, options)) {
      firstTokenMs ??= performance.now() - startMs;
      cachedTokens = item.prompt.cachedTokens;
      completionTokens += item.tokenIds.length;
      if (item.finishReason === "length") finishReason = "length";
      written += item.text ?? "";
      if (!isQuoted) yield* cited.feed(item.text ?? "");
    }
    const promptTokens = promptTokenIds.length;
    const usage = { promptTokens, cachedTokens, completionTokens, firstTokenMs };
    if (isQuoted) {
      const checked = checkedAnswer(written, question, {
        ...{ given: built.passages.length, sources },
      });
      yield* checked.events;
      yield wholeAnswer(checked, { question, sources, finishReason: "stop", usage });
      return;
    }
    const isRefusal = saysNotFound(cited.plain);
    yield* cited.end(isRefusal);
    yield wholeAnswer({ cited, isRefusal }, { question, sources, finishReason, usage });
  }

  /** Orders are worth noting where prompts share blocks: equal corpus, preamble and salt. */
  #bookOf({ corpus, settings }: AnswerRequest): PrefixBook {
    const { cacheSalt, preamble, titles } = settings;
    const key = JSON.stringify([corpus, cacheSalt, preamble, titles]);
    const book = this.#books.get(key) ?? new PrefixBook();
    this.#books.delete(key);
    this.#books.set(key, book);
    for (const oldest of this.#books.keys()) {
      if (this.#books.size <= BOOKS_MAX) break;
      this.#books.delete(oldest);
    }
    return book;
  }
}

/** Whether the answer is checked before it is told. */
function quotes({ style }: AskSettings, { info }: ServedModel): boolean {
  return style === "quoted" || (style === "auto" && isSmall(info));
}

type AnswerFacts = Pick<Answer, "question" | "sources" | "finishReason" | "usage">;

function wholeAnswer(
  { cited, isRefusal }: { readonly cited: CitedText; readonly isRefusal: boolean },
  facts: AnswerFacts,
): AskEvent {
  const { text, citations, dropped } = cited;
  const told = { text, dropped, citations: isRefusal ? [] : citations };
  const refusal: Refusal | null = isRefusal ? "not_found" : null;
  return { type: "answer", answer: { ...facts, ...told, refusal } };
}

function samplingOf({ maxTokens, retention }: BuiltPrompt, settings: AskSettings) {
  const { temperature, seed, cacheSalt } = settings;
  return {
    ...{ maxTokens, temperature },
    ...(seed !== null && { seed }),
    ...(cacheSalt !== null && { cacheSalt }),
    ...(retention !== null && { retention }),
  };
}

function* refuse(question: string): Generator<AskEvent> {
  yield { type: "sources", sources: [] };
  yield { type: "text", text: NOT_FOUND };
  const nothing = { sources: [], citations: [], dropped: [], usage: NO_USAGE };
  const answer = { ...nothing, text: NOT_FOUND, question, finishReason: "stop" as const };
  yield { type: "answer", answer: { ...answer, refusal: "no_sources" } };
}
