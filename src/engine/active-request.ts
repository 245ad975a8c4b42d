import type { Clock } from "#base";
import type { SamplingParams } from "#sampling";
import { StopStrings, type StreamDecoder, type Tokenizer } from "#tokenizer";
import type {
  EngineListener,
  FinishReason,
  PromptInfo,
  RequestSummary,
  RequestTimes,
  StreamItem,
} from "./api.ts";
import { Channel } from "./channel.ts";
import type { EngineRequest, SequenceOutput } from "./protocol.ts";
import { fromWire } from "./wire-error.ts";

const MS_PER_SECOND = 1000;

/** The text side of one sequence: tokens in, text out, stop strings watched for. */
interface SequenceText {
  readonly decoder: StreamDecoder;
  readonly stops: StopStrings;
}

/** One sequence as the caller sees it. */
interface SequenceState {
  readonly text: SequenceText | null;
  tokens: number;
  finishReason: FinishReason | null;
}

export interface ActiveRequestOptions {
  readonly request: EngineRequest;
  readonly tokenizer: Tokenizer | null;
  readonly clock: Clock;
  readonly listeners: ReadonlySet<EngineListener>;
  /** Tells the engine to give up one sequence, or all when `index` is absent. */
  readonly abort: (index?: number) => void;
  readonly onEnd: () => void;
}

/** A request on its way: turns the engine's tokens into stream items, and measures it. */
export class ActiveRequest {
  readonly #options: ActiveRequestOptions;
  readonly #channel: Channel<StreamItem>;
  readonly #sequences: SequenceState[];
  readonly #startedMs: number;
  #prompt: PromptInfo | null = null;
  #promptLogits: Float32Array | null = null;
  #queueSeconds = 0;
  #firstTokenMs: number | null = null;
  #lastTokenMs = 0;
  #ended = false;

  constructor(options: ActiveRequestOptions) {
    this.#options = options;
    this.#startedMs = options.clock.nowMs();
    this.#channel = new Channel(() => this.cancel());
    const { params } = options.request;
    this.#sequences = Array.from({ length: params.n }, () => ({
      text: this.#createText(params),
      tokens: 0,
      finishReason: null,
    }));
  }

  get items(): AsyncIterableIterator<StreamItem> {
    return this.#channel;
  }

  /** [prompt tokens, vocabulary], when the request asked for them. */
  get promptLogits(): Float32Array | null {
    return this.#promptLogits;
  }

  /** One sequence's news from the engine. */
  accept(output: SequenceOutput): void {
    const sequence = this.#sequences[output.index];
    if (this.#ended || sequence === undefined || sequence.finishReason !== null) return;
    if (output.prompt !== null) {
      const { cachedTokens, promptLogprobs, promptLogits, queueSeconds } = output.prompt;
      const { promptTokenIds } = this.#options.request;
      this.#prompt ??= { promptTokenIds, cachedTokens, promptLogprobs };
      this.#promptLogits ??= promptLogits;
      this.#queueSeconds = queueSeconds;
    }
    if (output.error !== null) {
      this.fail(fromWire(output.error));
      return;
    }
    this.#measure(output.tokenIds.length);
    this.#channel.push(this.#advance(sequence, output));
    if (this.#sequences.every((known) => known.finishReason !== null)) this.#end();
  }

  /** Ends the stream with an error; the engine is told to forget the request. */
  fail(error: unknown): void {
    if (this.#ended) return;
    this.#options.abort();
    for (const sequence of this.#sequences) sequence.finishReason ??= "error";
    this.#channel.fail(error);
    this.#end();
  }

  /** The caller left: blocks are given back within one step. */
  cancel(reason?: unknown): void {
    if (this.#ended) return;
    this.#options.abort();
    for (const sequence of this.#sequences) sequence.finishReason ??= "abort";
    if (reason !== undefined) this.#channel.fail(reason);
    this.#end();
  }

  #createText(params: SamplingParams): SequenceText | null {
    const { tokenizer } = this.#options;
    if (tokenizer === null || !params.detokenize) return null;
    const { skipSpecialTokens, spacesBetweenSpecialTokens } = params;
    return {
      decoder: tokenizer.stream({ skipSpecialTokens, spacesBetweenSpecialTokens }),
      stops: new StopStrings(params.stop, { includeInOutput: params.includeStopStrInOutput }),
    };
  }

  /** Decodes new tokens and looks for stop strings; a match ends the sequence here and in the engine. */
  #advance(sequence: SequenceState, output: SequenceOutput): StreamItem {
    let { finishReason, stopReason } = output;
    sequence.tokens += output.tokenIds.length;
    let text: string | null = null;
    if (sequence.text !== null) {
      const { decoder, stops } = sequence.text;
      const decoded = decoder.push(this.#visibleTokens(output));
      const tail = finishReason === null ? "" : decoder.flush();
      const armed = sequence.tokens >= this.#options.request.params.minTokens;
      const found = stops.push(decoded + tail, armed);
      const held = finishReason === null || found.stop !== null ? "" : stops.flush();
      text = found.text + held;
      if (found.stop !== null) {
        if (finishReason === null) this.#options.abort(output.index);
        finishReason = "stop";
        stopReason = found.stop;
      }
    }
    sequence.finishReason = finishReason;
    return {
      index: output.index,
      text,
      tokenIds: output.tokenIds,
      logprobs: output.logprobs,
      finishReason,
      stopReason,
      prompt: this.#prompt ?? this.#emptyPrompt(),
    };
  }

  /** The token that ended the sequence is no part of its text, unless that was asked for. */
  #visibleTokens({ finishReason, tokenIds }: SequenceOutput): readonly number[] {
    const keep = this.#options.request.params.includeStopStrInOutput;
    return finishReason === "stop" && !keep ? tokenIds.slice(0, -1) : tokenIds;
  }

  #emptyPrompt(): PromptInfo {
    const { promptTokenIds } = this.#options.request;
    return { promptTokenIds, cachedTokens: 0, promptLogprobs: null };
  }

  #measure(tokens: number): void {
    if (tokens === 0) return;
    const { clock, listeners, request } = this.#options;
    const now = clock.nowMs();
    if (this.#firstTokenMs === null) {
      this.#firstTokenMs = now;
      const seconds = (now - this.#startedMs) / MS_PER_SECOND;
      for (const listener of listeners) listener.onFirstToken?.(request.requestId, seconds);
    } else {
      const seconds = (now - this.#lastTokenMs) / MS_PER_SECOND;
      for (const listener of listeners) listener.onTokens?.(request.requestId, tokens, seconds);
    }
    this.#lastTokenMs = now;
  }

  #end(): void {
    this.#ended = true;
    this.#channel.end();
    const { listeners, onEnd } = this.#options;
    for (const listener of listeners) listener.onRequestEnd?.(this.#times(), this.#summary());
    onEnd();
  }

  #times(): RequestTimes {
    const now = this.#options.clock.nowMs();
    const first = this.#firstTokenMs ?? now;
    const inEngineMs = this.#startedMs + this.#queueSeconds * MS_PER_SECOND;
    return {
      queueSeconds: this.#queueSeconds,
      prefillSeconds: Math.max(0, first - inEngineMs) / MS_PER_SECOND,
      decodeSeconds: Math.max(0, now - first) / MS_PER_SECOND,
      endToEndSeconds: (now - this.#startedMs) / MS_PER_SECOND,
    };
  }

  #summary(): RequestSummary {
    const { promptTokenIds, params } = this.#options.request;
    return {
      promptTokens: promptTokenIds.length,
      cachedTokens: this.#prompt?.cachedTokens ?? 0,
      generatedTokens: this.#sequences.reduce((sum, sequence) => sum + sequence.tokens, 0),
      finishReasons: this.#sequences.map((sequence) => sequence.finishReason ?? "abort"),
      n: params.n,
      maxTokens: params.maxTokens,
    };
  }
}
