/** POST /v1/chat/completions, with streaming. */
import type { AnswerReader, OutputPart } from "#chat";
import type { GeneratedTokens, ServedModel, StreamItem } from "#engine";
import { finishReason } from "./answer.ts";
import type { ChatGeneration } from "./chat-generation.ts";
import { ChunkWriter } from "./chunk-writer.ts";
import { streamUsage } from "./delivery.ts";
import { chatLogprobs, promptLogprobs } from "./logprobs.ts";
import { isOver } from "./perigee-field.ts";
import { promptMarker, tokenMarker } from "./token-markers.ts";
import { chunkUsage } from "./usage.ts";

interface ChunkChoice {
  readonly index: number;
  delta: Record<string, unknown>;
  logprobs: unknown;
  finish_reason: string | null;
  [extra: string]: unknown;
}

/**
 * Chunks of one chat answer, as text of events: roles, then content and calls, finish reasons, and
 * usage if requested.
 */
export async function* chatEvents(
  model: ServedModel,
  generation: ChatGeneration,
): AsyncGenerator<string> {
  const { request, options, usage } = generation;
  const wanted = streamUsage(request);
  const chunks = new ChunkWriter(generation, "chat.completion.chunk");
  const sequences = Array.from(
    { length: options.n ?? 1 },
    (_, index) => new ChatSequence(generation, index),
  );
  const { earlier, prompt, withMarkers } = generation;
  let opened = earlier !== null;
  if (earlier !== null) countEarlier(generation, earlier);
  const items = earlier !== null && isOver(earlier) ? [] : model.stream(prompt, options);
  let told = !withMarkers;
  for await (const item of items) {
    let events = told ? "" : promptMarker(0, item.prompt);
    told = true;
    let extras: object | null = null;
    const write = (choice: ChunkChoice) => {
      events += chunks.write(choice, { ...extras, ...chunkUsage(usage, wanted) });
    };
    if (!opened) {
      // Roles are sent before any token, and their usage counts no completion tokens.
      usage.add(0, item.prompt, 0);
      extras = promptExtras(generation, item);
      for (const sequence of sequences) write(sequence.opening());
      opened = true;
    }
    usage.add(0, item.prompt, item.tokenIds.length, item.drafts);
    usage.hold(0, item);
    for (const choice of sequences[item.index]?.advance(item) ?? []) write(choice);
    if (withMarkers) events += tokenMarker(item.index, item);
    yield events;
  }
  if (wanted.atEnd) yield chunks.write(null, { usage: usage.usage() });
}

/** Counts the prompt, and the tokens that another worker generated. */
function countEarlier(
  { prompt: { promptTokenIds }, usage }: ChatGeneration,
  earlier: readonly GeneratedTokens[],
): void {
  const tokens = earlier.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0);
  usage.add(0, { promptTokenIds, cachedTokens: 0, promptLogprobs: null }, tokens);
}

function promptExtras({ request, tokens }: ChatGeneration, item: StreamItem): object {
  const { promptLogprobs: positions, promptTokenIds } = item.prompt;
  return {
    ...(positions === null ? {} : { prompt_logprobs: promptLogprobs(positions, tokens) }),
    ...(request.return_token_ids === true ? { prompt_token_ids: promptTokenIds } : {}),
  };
}

interface NewOutput {
  readonly text: string;
  readonly tokenIds: readonly number[];
  readonly ended: boolean;
}

/** The streaming state of one choice. */
class ChatSequence {
  readonly #generation: ChatGeneration;
  readonly #index: number;
  readonly #reader: AnswerReader | null;
  #calls = 0;

  constructor(generation: ChatGeneration, index: number) {
    this.#generation = generation;
    this.#index = index;
    this.#reader = generation.createReader?.() ?? null;
  }

  /** The first chunk's choice: the role, and the echoed text. */
  opening(): ChunkChoice {
    return this.#choice({ role: "assistant", content: this.#generation.echo });
  }

  /** Choices for the new output: at most one per part of it, and one for the end. */
  advance(item: StreamItem): ChunkChoice[] {
    // Another worker has sent what these lead to.
    if (typeof item.earlierText === "string") {
      const earlier = this.#generation.earlier?.[item.index]?.tokenIds ?? [];
      this.#deltas({ text: item.earlierText, tokenIds: earlier, ended: false });
    }
    const reason = finishReason(item.finishReason);
    const { tokenIds } = item;
    const deltas = this.#deltas({ text: item.text ?? "", tokenIds, ended: reason !== null });
    const { logprobs, request } = this.#generation;
    const hasTokenData = logprobs || request.return_token_ids === true;
    if (deltas.length === 0 && hasTokenData && item.tokenIds.length > 0) {
      deltas.push({ content: "" });
    }
    const choices = deltas.map((delta) => this.#choice(delta));
    if (choices[0] !== undefined) this.#addTokenData(choices[0], item);
    if (reason !== null) choices.push(this.#ending(reason, item));
    return choices;
  }

  #addTokenData(choice: ChunkChoice, item: StreamItem): void {
    const { logprobs, request, tokens } = this.#generation;
    if (logprobs) choice.logprobs = chatLogprobs(item.logprobs ?? [], tokens);
    if (request.return_token_ids === true) choice.token_ids = item.tokenIds;
  }

  #ending(reason: string, item: StreamItem): ChunkChoice {
    const choice = this.#choice({});
    choice.finish_reason = reason === "stop" && this.#calls > 0 ? "tool_calls" : reason;
    choice.stop_reason = item.stopReason;
    if (item.beam !== null) choice.score = item.beam.score;
    return choice;
  }

  #deltas({ text, tokenIds, ended }: NewOutput): Record<string, unknown>[] {
    if (this.#reader === null) return text === "" ? [] : [{ content: text }];
    const parts = this.#reader.push(text, tokenIds, ended);
    this.#generation.usage.reason(this.#index, this.#reader.reasoningTokens);
    return parts.flatMap((part) => this.#delta(part));
  }

  #delta(part: OutputPart): Record<string, unknown>[] {
    if (part.kind === "content") return [{ content: part.text }];
    const { request } = this.#generation;
    if (part.kind === "reasoning") {
      return request.include_reasoning === false ? [] : [{ reasoning_content: part.text }];
    }
    const onlyFirst = request.parallel_tool_calls === false;
    if (onlyFirst && part.index > 0) return [];
    const { index } = part;
    if (part.kind === "arguments") {
      return [{ tool_calls: [{ index, function: { arguments: part.text } }] }];
    }
    this.#calls += 1;
    const called = { name: part.name, arguments: "" };
    return [{ tool_calls: [{ index, id: part.id, type: "function", function: called }] }];
  }

  #choice(delta: Record<string, unknown>): ChunkChoice {
    return { index: this.#index, delta, logprobs: null, finish_reason: null };
  }
}
