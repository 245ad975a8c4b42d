/** POST /v1/messages, with streaming. */
import type { ServedModel, StreamItem } from "#engine";
import { type AnswerBlock, AnswerBlocks, type BlockChange, wholeBlock } from "./answer-blocks.ts";
import { messageEvent as event } from "./anthropic-dialect.ts";
import { type MessageGeneration, messageEnd } from "./message-generation.ts";
import { messageUsage } from "./message-usage.ts";

/**
 * Events of one answer, as text: its beginning with the prompt's usage, blocks one after the other,
 * why it ended, and its end.
 */
export async function* messageEvents(
  model: ServedModel,
  generation: MessageGeneration,
): AsyncGenerator<string> {
  const { prompt, options, usage } = generation.chat;
  const writer = new MessageWriter(generation);
  let opened = false;
  let generatedTokens = 0;
  for await (const item of model.stream(prompt, options)) {
    let events = "";
    if (!opened) {
      // The prompt is computed: its counts are known, and no token of the answer is told yet.
      usage.add(0, item.prompt, 0);
      events = writer.opening();
      opened = true;
    }
    generatedTokens += item.tokenIds.length;
    usage.add(0, item.prompt, item.tokenIds.length, item.drafts);
    events += writer.advance(item);
    if (item.finishReason !== null) events += writer.ending(item, generatedTokens);
    yield events;
  }
}

/** Writes the events of one answer. */
class MessageWriter {
  readonly #generation: MessageGeneration;
  readonly #answer: AnswerBlocks;
  /** The block that is open; -1: none was. */
  #index = -1;
  #isOpen = false;

  constructor(generation: MessageGeneration) {
    this.#generation = generation;
    this.#answer = new AnswerBlocks(generation.chat);
  }

  opening(): string {
    const { id, chat } = this.#generation;
    const message = {
      ...{ id, type: "message", role: "assistant", model: chat.modelName },
      ...{ content: [], stop_reason: null, stop_sequence: null, usage: this.#usage() },
    };
    return event({ type: "message_start", message }) + event({ type: "ping" });
  }

  advance({ text, tokenIds, finishReason }: StreamItem): string {
    return this.#answer
      .push(text ?? "", tokenIds, finishReason !== null)
      .map((change) => this.#change(change))
      .join("");
  }

  ending({ finishReason, stopReason }: StreamItem, generatedTokens: number): string {
    const { hasCalls } = this.#answer;
    const end = { finishReason, stopReason, generatedTokens, hasCalls };
    const delta = messageEnd(this.#generation, end);
    return (
      this.#closing() +
      event({ type: "message_delta", delta, usage: this.#usage() }) +
      event({ type: "message_stop" })
    );
  }

  #change(change: BlockChange): string {
    if (change.kind === "start") {
      const closing = this.#closing();
      this.#index += 1;
      this.#isOpen = true;
      const content_block = wholeBlock(change.block);
      return closing + event({ type: "content_block_start", index: this.#index, content_block });
    }
    const delta = deltaOf(change.block, change.text);
    return event({ type: "content_block_delta", index: this.#index, delta });
  }

  #closing(): string {
    if (!this.#isOpen) return "";
    this.#isOpen = false;
    return event({ type: "content_block_stop", index: this.#index });
  }

  #usage() {
    return messageUsage(this.#generation.chat.usage, this.#generation.marked);
  }
}

function deltaOf({ type }: AnswerBlock, text: string): object {
  switch (type) {
    case "text":
      return { type: "text_delta", text };
    case "thinking":
      return { type: "thinking_delta", thinking: text };
    case "tool_use":
      return { type: "input_json_delta", partial_json: text };
  }
}
