/** Answers of Ollama's generating routes: a line per piece of text, then one with statistics. */
import type { AnswerReader, OutputPart } from "#chat";
import type { StreamItem } from "#engine";
import type { ServerContext } from "../context.ts";
import { type Answer, finishReason } from "../openai/answer.ts";
import type { ChatGeneration } from "../openai/chat-generation.ts";
import { jsonLine } from "./ollama-dialect.ts";

const NS_PER_MS = 1_000_000;

/** A call with its arguments, which clients get as a whole. */
export interface OllamaCall {
  readonly id: string;
  readonly function: { readonly index: number; readonly name: string; readonly arguments: object };
}

/** What an answer says in one line. */
export interface OllamaPiece {
  readonly text: string;
  readonly thinking: string;
  readonly calls: readonly OllamaCall[];
}

/** One request's answer. */
export interface OllamaGeneration {
  readonly chat: ChatGeneration;
  /** As the client named it. */
  readonly modelName: string;
  readonly stream: boolean;
  /** `performance.now()` of its arrival. */
  readonly arrivedMs: number;
  /** A piece in the route's own fields. */
  readonly fields: (piece: OllamaPiece) => object;
}

export async function ollamaAnswer(
  context: ServerContext,
  generation: OllamaGeneration,
): Promise<Answer> {
  const lines = answerLines(context, generation);
  if (generation.stream) return { kind: "events", events: textOf(lines) };
  const whole = { text: "", thinking: "", calls: [] as OllamaCall[] };
  let end: object = {};
  for await (const { piece, statistics } of lines) {
    whole.text += piece.text;
    whole.thinking += piece.thinking;
    whole.calls.push(...piece.calls);
    end = statistics ?? end;
  }
  const value = { ...head(generation), ...generation.fields(whole), ...end };
  return { kind: "json", value };

  async function* textOf(all: AsyncIterable<AnswerLine>): AsyncGenerator<string> {
    for await (const { piece, statistics } of all) {
      const end = statistics ?? { done: false };
      yield jsonLine({ ...head(generation), ...generation.fields(piece), ...end });
    }
  }
}

/** The answer to a request that says nothing: Ollama loads a model at that, here one is loaded. */
export function loadedAnswer(modelName: string, fields: object, isStream: boolean): Answer {
  const value = { ...headOf(modelName), ...fields, done: true, done_reason: "load" };
  if (!isStream) return { kind: "json", value };
  async function* line(): AsyncGenerator<string> {
    yield jsonLine(value);
  }
  return { kind: "events", events: line() };
}

function head({ modelName }: OllamaGeneration): object {
  return headOf(modelName);
}

function headOf(model: string): object {
  return { model, created_at: new Date().toISOString() };
}

interface AnswerLine {
  readonly piece: OllamaPiece;
  /** Of the last line. */
  readonly statistics: object | null;
}

async function* answerLines(
  { model }: ServerContext,
  { chat, arrivedMs }: OllamaGeneration,
): AsyncGenerator<AnswerLine> {
  const { prompt, options, usage } = chat;
  const reader = new PieceReader(chat.createReader?.() ?? null);
  let firstMs = 0;
  for await (const item of model.stream(prompt, options)) {
    if (firstMs === 0) firstMs = performance.now();
    usage.add(0, item.prompt, item.tokenIds.length, item.drafts);
    const piece = reader.read(item);
    const reason = finishReason(item.finishReason);
    if (reason === null) {
      if (isSaid(piece)) yield { piece, statistics: null };
      continue;
    }
    // The last line has no text of its own, as in Ollama.
    if (isSaid(piece)) yield { piece, statistics: null };
    const counts = usage.usage();
    const nowMs = performance.now();
    const statistics = {
      ...{ done: true, done_reason: reason, total_duration: nanoseconds(nowMs - arrivedMs) },
      load_duration: 0,
      prompt_eval_count: counts.prompt_tokens,
      prompt_eval_duration: nanoseconds(firstMs - arrivedMs),
      eval_count: counts.completion_tokens,
      eval_duration: nanoseconds(nowMs - firstMs),
      ...(counts.perigee !== undefined && { perigee: counts.perigee }),
    };
    yield { piece: NOTHING, statistics };
  }
}

const NOTHING: OllamaPiece = { text: "", thinking: "", calls: [] };

function isSaid({ text, thinking, calls }: OllamaPiece): boolean {
  return text !== "" || thinking !== "" || calls.length > 0;
}

/** Whole nanoseconds of a duration in ms. */
export function nanoseconds(ms: number): number {
  return Math.round(ms * NS_PER_MS);
}

/** Splits text into pieces; a call waits for the end of its arguments. */
class PieceReader {
  readonly #reader: AnswerReader | null;
  #call: { readonly id: string; readonly name: string; json: string } | null = null;
  #count = 0;

  constructor(reader: AnswerReader | null) {
    this.#reader = reader;
  }

  read({ text, tokenIds, finishReason: reason }: StreamItem): OllamaPiece {
    if (this.#reader === null) return { ...NOTHING, text: text ?? "" };
    const ended = reason !== null;
    const parts = this.#reader.push(text ?? "", tokenIds, ended);
    const piece = { text: "", thinking: "", calls: [] as OllamaCall[] };
    for (const part of parts) this.#take(part, piece);
    if (ended) this.#endCall(piece.calls);
    return piece;
  }

  #take(part: OutputPart, piece: { text: string; thinking: string; calls: OllamaCall[] }): void {
    switch (part.kind) {
      case "content":
        piece.text += part.text;
        break;
      case "reasoning":
        piece.thinking += part.text;
        break;
      case "call":
        this.#endCall(piece.calls);
        this.#call = { id: part.id, name: part.name, json: "" };
        break;
      case "arguments":
        if (this.#call !== null) this.#call.json += part.text;
        break;
    }
  }

  #endCall(calls: OllamaCall[]): void {
    const call = this.#call;
    this.#call = null;
    if (call === null) return;
    const { id, name, json } = call;
    calls.push({ id, function: { index: this.#count, name, arguments: objectIn(json) } });
    this.#count += 1;
  }
}

/** Arguments that are no object are none: a model wrote them. */
function objectIn(json: string): object {
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === "object" && value !== null ? value : {};
  } catch {
    return {};
  }
}
