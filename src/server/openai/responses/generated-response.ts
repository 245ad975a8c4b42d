/** A response that the model writes. */
import type { ServedModel, StreamItem } from "#engine";
import { finishReason } from "../answer.ts";
import type { ChatGeneration } from "../chat-generation.ts";
import { chatLogprobs } from "../logprobs.ts";
import { ThinkingSplitter } from "../thinking-splitter.ts";
import type { OutputPart, ToolCallParser } from "../tool-calls/tool-call-parser.ts";
import type { ResponseWriter } from "./response-writer.ts";

/** As many tokens at a prompt's end show whether it opens the model's reasoning. */
const PROMPT_END_TOKENS = 8;

/** Writes what comes, and yields after each piece; returns whether it is cut. */
export async function* generateInto(
  writer: ResponseWriter,
  model: ServedModel,
  generation: ChatGeneration,
): AsyncGenerator<void, boolean, undefined> {
  const reader = new GenerationReader(writer, model, generation);
  let reason: string | null = null;
  for await (const item of model.stream(generation.prompt, generation.options)) {
    writer.begin();
    generation.usage.add(0, item.prompt, item.tokenIds.length, item.drafts);
    generation.usage.hold(0, item);
    reason = finishReason(item.finishReason);
    reader.read(item, reason !== null);
    yield;
  }
  return reason === "length";
}

/** Splits the text into reasoning, words and calls. */
class GenerationReader {
  readonly #writer: ResponseWriter;
  readonly #generation: ChatGeneration;
  readonly #splitter: ThinkingSplitter | null;
  readonly #parser: ToolCallParser | null;
  /** Of tokens whose text is held back. */
  #logprobs: object[] = [];

  constructor(writer: ResponseWriter, model: ServedModel, generation: ChatGeneration) {
    this.#writer = writer;
    this.#generation = generation;
    this.#parser = generation.createParser?.() ?? null;
    // A grammar leaves no room for reasoning, whatever the prompt opens.
    const isFree = generation.options.structuredOutput == null;
    this.#splitter = isFree ? new ThinkingSplitter(promptEnd(model, generation)) : null;
  }

  read(item: StreamItem, isLast: boolean): void {
    const { logprobs, tokens } = this.#generation;
    if (logprobs) this.#logprobs.push(...chatLogprobs(item.logprobs ?? [], tokens).content);
    const text = item.text ?? "";
    if (this.#splitter === null) this.#rest(text);
    else this.#split(this.#splitter, text, item.tokenIds.length);
    if (!isLast) return;
    if (this.#splitter !== null) {
      const { reasoning, rest } = this.#splitter.finish();
      this.#writer.output.reason(reasoning);
      this.#rest(rest);
    }
    for (const part of this.#parser?.finish() ?? []) this.#write(part);
  }

  #split(splitter: ThinkingSplitter, text: string, tokenCount: number): void {
    const wasThinking = splitter.isThinking;
    const { reasoning, rest } = splitter.push(text);
    if (wasThinking || splitter.isThinking) this.#writer.reasoningTokens += tokenCount;
    if (reasoning !== "" || splitter.isThinking) this.#logprobs = [];
    this.#writer.output.reason(reasoning);
    this.#rest(rest);
  }

  #rest(text: string): void {
    if (text === "") return;
    if (this.#parser === null) this.#write({ kind: "content", text });
    else for (const part of this.#parser.push(text)) this.#write(part);
  }

  #write(part: OutputPart): void {
    const logprobs = this.#logprobs;
    this.#logprobs = [];
    const { output } = this.#writer;
    if (part.kind === "content") output.say(part.text, logprobs);
    else if (part.index === 0 || this.#generation.request.parallel_tool_calls !== false) {
      output.call(part);
    }
  }
}

function promptEnd({ codec }: ServedModel, { prompt }: ChatGeneration): string {
  const ids = prompt.promptTokenIds.slice(-PROMPT_END_TOKENS);
  return codec === null ? "" : codec.decode(ids, { skipSpecialTokens: false });
}
