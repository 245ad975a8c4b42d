/** A response that the model writes. */
import type { AnswerReader, OutputPart } from "#chat";
import type { ServedModel, StreamItem } from "#engine";
import { finishReason } from "../answer.ts";
import type { ChatGeneration } from "../chat-generation.ts";
import { chatLogprobs } from "../logprobs.ts";
import type { ResponseWriter } from "./response-writer.ts";

/** Writes what comes, and yields after each piece; returns whether it is cut. */
export async function* generateInto(
  writer: ResponseWriter,
  model: ServedModel,
  generation: ChatGeneration,
): AsyncGenerator<void, boolean, undefined> {
  const reader = new GenerationReader(writer, generation);
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
  readonly #reader: AnswerReader | null;
  /** Of tokens whose text is held back. */
  #logprobs: object[] = [];

  constructor(writer: ResponseWriter, generation: ChatGeneration) {
    this.#writer = writer;
    this.#generation = generation;
    this.#reader = generation.createReader?.() ?? null;
  }

  read(item: StreamItem, isLast: boolean): void {
    const { logprobs, tokens } = this.#generation;
    if (logprobs) this.#logprobs.push(...chatLogprobs(item.logprobs ?? [], tokens).content);
    const text = item.text ?? "";
    if (this.#reader === null) {
      if (text !== "") this.#write({ kind: "content", text });
      return;
    }
    const parts = this.#reader.push(text, item.tokenIds, isLast);
    this.#writer.reasoningTokens = this.#reader.reasoningTokens;
    for (const part of parts) this.#write(part);
  }

  #write(part: OutputPart): void {
    const logprobs = this.#logprobs;
    this.#logprobs = [];
    const { output } = this.#writer;
    if (part.kind === "content") output.say(part.text, logprobs);
    else if (part.kind === "reasoning") output.reason(part.text);
    else if (part.index === 0 || this.#generation.request.parallel_tool_calls !== false) {
      output.call(part);
    }
  }
}
