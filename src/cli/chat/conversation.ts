/** The messages of a chat so far, and what the answers took. */
import type { ChatMessage, GenerateOptions, LLM } from "#engine";
import { print } from "../standard-output.ts";

/** What an answer took. */
export interface AnswerStats {
  readonly promptTokens: number;
  /** Of these, found in the cache. */
  readonly cachedTokens: number;
  readonly outputTokens: number;
  /** Drafted tokens that became output; null: nothing was drafted. */
  readonly acceptedTokens: number | null;
  readonly firstTokenMs: number;
  readonly totalMs: number;
}

/** A conversation with one model. */
export class Conversation {
  readonly #llm: LLM;
  #system: string | null;
  #messages: ChatMessage[] = [];
  readonly stats: AnswerStats[] = [];

  constructor(llm: LLM, system: string | null) {
    this.#llm = llm;
    this.#system = system;
  }

  /** Whether a user has said something. */
  get isEmpty(): boolean {
    return this.#messages.length === 0;
  }

  get system(): string | null {
    return this.#system;
  }

  /** All messages, the system's first. */
  get messages(): readonly ChatMessage[] {
    const opening = this.#system === null ? [] : [{ role: "system", content: this.#system }];
    return [...opening, ...this.#messages];
  }

  /** Forgets what was said; the system message stays. */
  clear(): void {
    this.#messages = [];
    this.stats.length = 0;
  }

  /** Sets the system message from the next answer on; null: none. */
  setSystem(text: string | null): void {
    this.#system = text;
  }

  /** Continues another conversation. */
  replace(messages: readonly ChatMessage[]): void {
    const [first, ...rest] = messages;
    const hasSystem = first?.role === "system" && typeof first.content === "string";
    this.#system = hasSystem ? String(first.content) : null;
    this.#messages = hasSystem ? rest : [...messages];
    this.stats.length = 0;
  }

  /** Takes the last answer back, and the question; null: there is none. */
  takeBack(): string | null {
    const place = this.#messages.findLastIndex(({ role }) => role === "user");
    if (place < 0) return null;
    const [question] = this.#messages.splice(place);
    return typeof question?.content === "string" ? question.content : null;
  }

  /** Streams one answer to standard output, and keeps both messages. An aborted answer stays. */
  async say(text: string, options: GenerateOptions): Promise<void> {
    this.#messages.push({ role: "user", content: text });
    const answer = new Answer();
    try {
      const prompt = await this.#llm.chatPrompt(this.messages);
      for await (const item of this.#llm.stream(prompt, options)) {
        answer.add(item);
        await print(item.text ?? "");
      }
    } catch (thrown) {
      if (options.signal?.aborted !== true) {
        // A question that cannot be answered would fail every later one, too.
        this.#messages.pop();
        throw thrown;
      }
    }
    await print("\n");
    this.#messages.push({ role: "assistant", content: answer.text });
    this.stats.push(answer.stats());
  }
}

type Item = Awaited<ReturnType<ReturnType<LLM["stream"]>["next"]>>["value"];

/** An answer while it comes. */
class Answer {
  readonly #startMs = performance.now();
  #firstMs: number | null = null;
  #item: Item | null = null;
  #outputTokens = 0;
  #accepted: number | null = null;
  text = "";

  add(item: Item): void {
    this.#item = item;
    this.text += item.text ?? "";
    if (item.tokenIds.length > 0) this.#firstMs ??= performance.now() - this.#startMs;
    this.#outputTokens += item.tokenIds.length;
    if (item.drafts !== undefined) this.#accepted = (this.#accepted ?? 0) + item.drafts.accepted;
  }

  stats(): AnswerStats {
    const totalMs = performance.now() - this.#startMs;
    return {
      promptTokens: this.#item?.prompt.promptTokenIds.length ?? 0,
      cachedTokens: this.#item?.prompt.cachedTokens ?? 0,
      outputTokens: this.#outputTokens,
      acceptedTokens: this.#accepted,
      firstTokenMs: this.#firstMs ?? totalMs,
      totalMs,
    };
  }
}
