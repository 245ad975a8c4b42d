import type { Citation, ToolCall, Turn, TurnStats } from "./conversation.ts";

/** What is known of an answer so far. */
export type AnswerPart = Pick<
  Turn,
  "content" | "toolCalls" | "citations" | "stats" | "finishReason"
>;

/** Joins the chunks of one answer. */
export class AnswerReader {
  readonly #startMs: number;
  #firstMs: number | null = null;
  #lastMs: number;
  #content = "";
  #calls: ToolCall[] = [];
  #citations: Citation[] = [];
  #reason: string | null = null;
  #stats: TurnStats | null = null;

  constructor(startMs: number) {
    this.#startMs = startMs;
    this.#lastMs = startMs;
  }

  get part(): AnswerPart {
    return {
      content: this.#content,
      toolCalls: this.#calls,
      citations: this.#citations,
      stats: this.#stats,
      finishReason: this.#reason,
    };
  }

  /** Takes a chunk. Throws what an error event says. */
  take(data: unknown, nowMs: number): void {
    const chunk = data as Chunk;
    if (chunk.error !== undefined) throw new Error(chunk.error.message ?? "The answer failed");
    const [choice] = chunk.choices ?? [];
    if (choice !== undefined) this.#takeChoice(choice, nowMs);
    if (chunk.usage !== undefined && chunk.usage !== null) this.#count(chunk.usage);
  }

  #takeChoice({ delta, finish_reason: reason }: Choice, nowMs: number): void {
    const { content, tool_calls: calls = [], annotations = [] } = delta;
    if ((content ?? "") !== "" || calls.length > 0) {
      this.#firstMs ??= nowMs;
      this.#lastMs = nowMs;
    }
    this.#content += content ?? "";
    for (const call of calls) this.#takeCall(call);
    for (const { file_citation: cited, ...flat } of annotations) {
      const { filename = "", file_id: fileId = "" } = cited ?? flat;
      this.#citations = [...this.#citations, { filename, fileId }];
    }
    if (reason !== null && reason !== undefined) this.#reason = reason;
  }

  #takeCall({ index = 0, id, function: given }: CallDelta): void {
    const calls = [...this.#calls];
    const before = calls[index] ?? { id: "", name: "", arguments: "" };
    calls[index] = {
      id: id ?? before.id,
      name: before.name + (given?.name ?? ""),
      arguments: before.arguments + (given?.arguments ?? ""),
    };
    this.#calls = calls;
  }

  #count(usage: Usage): void {
    const details = usage.completion_tokens_details;
    this.#stats = {
      promptTokens: usage.prompt_tokens ?? 0,
      cachedTokens: usage.prompt_tokens_details?.cached_tokens ?? 0,
      completionTokens: usage.completion_tokens ?? 0,
      accepted: details?.accepted_prediction_tokens ?? null,
      rejected: details?.rejected_prediction_tokens ?? null,
      firstTokenMs: this.#firstMs === null ? null : this.#firstMs - this.#startMs,
      wholeMs: this.#lastMs - this.#startMs,
    };
  }
}

interface CallDelta {
  readonly index?: number;
  readonly id?: string;
  readonly function?: { readonly name?: string; readonly arguments?: string };
}

interface Annotation {
  readonly file_citation?: { readonly filename?: string; readonly file_id?: string };
  readonly filename?: string;
  readonly file_id?: string;
}

interface Choice {
  readonly delta: {
    readonly content?: string | null;
    readonly tool_calls?: readonly CallDelta[];
    readonly annotations?: readonly Annotation[];
  };
  readonly finish_reason?: string | null;
}

interface Usage {
  readonly prompt_tokens?: number;
  readonly completion_tokens?: number;
  readonly prompt_tokens_details?: { readonly cached_tokens?: number };
  readonly completion_tokens_details?: {
    readonly accepted_prediction_tokens?: number;
    readonly rejected_prediction_tokens?: number;
  };
}

/** Of the server's stream, what is read. */
interface Chunk {
  readonly choices?: readonly Choice[];
  readonly usage?: Usage | null;
  readonly error?: { readonly message?: string };
}
