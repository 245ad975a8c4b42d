/** POST /v1/completions, with streaming. */
import { type GeneratedTokens, type ServedModel, type StreamItem, sequencesOf } from "#engine";
import { finishReason } from "./answer.ts";
import { ChunkWriter } from "./chunk-writer.ts";
import type { CompletionsGeneration } from "./completions-generation.ts";
import { streamUsage } from "./delivery.ts";
import { CompletionLogprobsWriter, promptLogprobs } from "./logprobs.ts";
import { mergeStreams } from "./merge-streams.ts";
import { isBegun, isOver } from "./perigee-field.ts";
import { promptMarker, tokenMarker } from "./token-markers.ts";
import { chunkUsage } from "./usage.ts";

/** Chunks of all prompts' sequences in order of arrival, and usage if requested: text of events. */
export async function* completionsEvents(
  model: ServedModel,
  generation: CompletionsGeneration,
): AsyncGenerator<string> {
  const { options, request, promptOnly, usage } = generation;
  const wanted = streamUsage(request);
  const chunks = new ChunkWriter(generation, "text_completion");
  const sequences = new Map<number, CompletionSequence>();
  const { withMarkers } = generation;
  countEarlier(generation);
  const places = openPrompts(generation);
  const prompts = places.flatMap((place) => generation.prompts[place] ?? []);
  const streams = model.streams(prompts, options);
  const atOnce = model.requestsAtOnce(sequencesOf(options));
  const told = new Set<number>();
  for await (const { source, item } of mergeStreams(streams, atOnce)) {
    const promptIndex = places[source] ?? source;
    const opening = withMarkers && !told.has(promptIndex);
    let events = opening ? promptMarker(promptIndex, item.prompt) : "";
    if (opening) told.add(promptIndex);
    usage.add(promptIndex, item.prompt, promptOnly ? 0 : item.tokenIds.length, item.drafts);
    usage.hold(promptIndex, item);
    const index = promptIndex * (options.n ?? 1) + item.index;
    const sequence =
      sequences.get(index) ?? new CompletionSequence(generation, { index, promptIndex });
    sequences.set(index, sequence);
    const choice = sequence.advance(item);
    if (choice !== null) events += chunks.write(choice, chunkUsage(usage, wanted));
    if (withMarkers) events += tokenMarker(index, item);
    if (events !== "") yield events;
  }
  if (wanted.atEnd) yield chunks.write(null, { usage: usage.usage() });
}

/** Which prompts have something left to be generated. */
function openPrompts({ prompts, earlier }: CompletionsGeneration): readonly number[] {
  const places = prompts.map((_, place) => place);
  return places.filter((place) => !isOver(earlier?.[place] ?? [OPEN]));
}

const OPEN: GeneratedTokens = { tokenIds: [] };

/** Counts prompts, and tokens that another worker generated. */
function countEarlier({ earlier, prompts, promptOnly, usage }: CompletionsGeneration): void {
  for (const [place, sequences] of (earlier ?? []).entries()) {
    if (!sequences.some(isBegun)) continue;
    const tokens = sequences.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0);
    const promptTokenIds = prompts[place]?.promptTokenIds ?? [];
    const prompt = { promptTokenIds, cachedTokens: 0, promptLogprobs: null };
    usage.add(place, prompt, promptOnly ? 0 : tokens);
  }
}

/** The streaming state of one choice. */
class CompletionSequence {
  readonly #generation: CompletionsGeneration;
  readonly #index: number;
  readonly #promptIndex: number;
  readonly #logprobs: CompletionLogprobsWriter;
  #started = false;

  constructor(
    generation: CompletionsGeneration,
    place: { readonly index: number; readonly promptIndex: number },
  ) {
    this.#generation = generation;
    this.#index = place.index;
    this.#promptIndex = place.promptIndex;
    this.#logprobs = new CompletionLogprobsWriter(generation.tokens);
    this.#resume(place.index % (generation.options.n ?? 1));
  }

  /** Goes to where another worker left the choice. */
  #resume(sequence: number): void {
    const { earlier, echoes, prompts, request } = this.#generation;
    const generated = earlier?.[this.#promptIndex]?.[sequence];
    if (generated === undefined || !isBegun(generated)) return;
    this.#started = true;
    if (request.logprobs == null) return;
    const echoed = echoes === null ? [] : (prompts[this.#promptIndex]?.promptTokenIds ?? []);
    // Only for the offsets of what follows.
    this.#logprobs.write([...echoed, ...generated.tokenIds], []);
  }

  /** The choice with the new output; null if there is nothing to send yet. */
  advance(item: StreamItem): object | null {
    const { promptOnly, withTokenIds, request } = this.#generation;
    const first = !this.#started;
    this.#started = true;
    const reason = finishReason(item.finishReason);
    const text = this.#echo(first) + (promptOnly ? "" : (item.text ?? ""));
    const logprobs = request.logprobs == null ? null : this.#tokenLogprobs(item, first);
    if (text === "" && logprobs === null && !withTokenIds && reason === null) return null;
    const choice: Record<string, unknown> = {
      index: this.#index,
      text,
      logprobs,
      finish_reason: promptOnly && reason !== null ? "length" : reason,
      stop_reason: promptOnly ? null : item.stopReason,
    };
    if (item.beam !== null) choice.score = item.beam.score;
    if (first) Object.assign(choice, this.#promptExtras(item));
    if (withTokenIds) choice.token_ids = promptOnly ? [] : item.tokenIds;
    return choice;
  }

  #echo(first: boolean): string {
    return first ? (this.#generation.echoes?.[this.#promptIndex] ?? "") : "";
  }

  #tokenLogprobs(item: StreamItem, first: boolean): unknown {
    const { promptOnly, echoes } = this.#generation;
    const echoed = first && echoes !== null;
    return this.#logprobs.write(
      [...(echoed ? item.prompt.promptTokenIds : []), ...(promptOnly ? [] : item.tokenIds)],
      [
        ...(echoed ? (item.prompt.promptLogprobs ?? []) : []),
        ...(promptOnly ? [] : (item.logprobs ?? [])),
      ],
    );
  }

  #promptExtras({ prompt }: StreamItem): object {
    const { request, tokens, withTokenIds } = this.#generation;
    return {
      ...(request.prompt_logprobs == null || prompt.promptLogprobs === null
        ? {}
        : { prompt_logprobs: promptLogprobs(prompt.promptLogprobs, tokens) }),
      ...(withTokenIds ? { prompt_token_ids: prompt.promptTokenIds } : {}),
    };
  }
}
