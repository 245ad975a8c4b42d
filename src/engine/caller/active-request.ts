import type { Clock } from "#base";
import {
  type EngineListener,
  type EngineRequest,
  endedBefore,
  type FinishReason,
  type PromptInfo,
  type PromptOutput,
  plainOutput,
  type RequestSummary,
  type RequestTimes,
  type SequenceOutput,
  type StreamItem,
} from "#engine/protocol";
import type { Tokenizer } from "#tokenizer";
import { Channel } from "./channel.ts";
import type { Paced, Pacer } from "./pacer.ts";
import { plainIds } from "./plain-ids.ts";
import { ReaderLag } from "./reader-lag.ts";
import { SequenceText } from "./sequence-text.ts";
import { joinItems } from "./stream-item.ts";

const MS_PER_SECOND = 1000;

/** One sequence as the caller sees it. */
interface SequenceProgress {
  readonly text: SequenceText | null;
  /** Generated so far, here and elsewhere. */
  tokens: number;
  /** Of them, those from elsewhere. */
  readonly earlierTokens: number;
  /** Their text, to be told with the first item; absent: it began here, or was told. */
  earlierText?: string | null | undefined;
  /** Whether its tokens may be decoded late: no stop string can end it. */
  readonly decodesLate: boolean;
  /** Tokens held by the pacer, decoded together at its flush or with the next output. */
  readonly undecoded: number[];
  /** Not yet delivered: fewer tokens than the stream's interval, or held by the pacer. */
  held: StreamItem | null;
  lastTokenMs: number | null;
  finishReason: FinishReason | null;
  /** As of the last output: device blocks times milliseconds. */
  heldBlockMs: number;
}

/** The part of a posted request that its caller needs, with ids that were not posted. */
type CallersRequest = Pick<
  EngineRequest,
  "key" | "requestId" | "params" | "promptTokenIds" | "generated"
>;

export interface ActiveRequestOptions {
  readonly request: CallersRequest;
  readonly tokenizer: Tokenizer | null;
  /** Of one block on the device; 0: the model has no cache. */
  readonly bytesPerBlock: number;
  /** Items tell what the request occupies. Default: false. */
  readonly tellsHeld?: boolean;
  readonly clock: Clock;
  readonly listeners: ReadonlySet<EngineListener>;
  /** Aborts one sequence in the engine, or all when `index` is absent. */
  readonly abort: (index?: number) => void;
  /** Unread tokens of each sequence beyond which the request pauses. */
  readonly unreadTokensMax: number;
  /** Pauses or resumes the request in the engine. */
  readonly setPaused: (paused: boolean) => void;
  /** Delays tokens to deliver them together where many requests are read. Absent: no delay. */
  readonly pacer?: Pacer;
  /** Called once, when the request has ended. */
  readonly onEnd: () => void;
}

/** A running request: turns the engine's tokens into stream items, and measures times. */
export class ActiveRequest implements Paced {
  readonly #options: ActiveRequestOptions;
  readonly #channel: Channel<StreamItem>;
  readonly #lag: ReaderLag;
  readonly #sequences: readonly SequenceProgress[];
  readonly #startedMs: number;
  #prompt: PromptInfo;
  #promptLogits: Float32Array | null = null;
  #queueSeconds = 0;
  #firstTokenMs: number | null = null;
  #ended = false;

  /** Throws INVALID_ARGUMENT where text from elsewhere has a stop string. */
  constructor(options: ActiveRequestOptions) {
    const { request, tokenizer, clock } = options;
    const { promptTokenIds, params } = request;
    this.#options = options;
    this.#startedMs = clock.nowMs();
    this.#lag = new ReaderLag({
      tokensMax: options.unreadTokensMax * params.n,
      setPaused: (paused) => this.#setPaused(paused),
    });
    this.#channel = new Channel(
      () => this.cancel(),
      (item) => this.#lag.taken(item),
    );
    this.#prompt = promptInfo(promptTokenIds, { cachedTokens: 0, promptLogprobs: null });
    this.#sequences = Array.from({ length: params.n }, (_, index) =>
      progressOf(request, tokenizer, index),
    );
    options.pacer?.enter(params.n);
  }

  get request(): CallersRequest {
    return this.#options.request;
  }

  /** One reader. Leaving it early cancels the request. */
  get items(): AsyncIterableIterator<StreamItem> {
    return this.#channel;
  }

  /** [prompt tokens, vocabulary], when the request asked for them. */
  get promptLogits(): Float32Array | null {
    return this.#promptLogits;
  }

  /** Takes one sequence's output from the engine. */
  accept(output: SequenceOutput): void {
    const sequence = this.#sequences[output.index];
    if (this.#ended || sequence === undefined || sequence.finishReason !== null) return;
    if (output.prompt !== null) this.#learnPrompt(output.prompt);
    this.#measure(sequence, output.tokenIds.length);
    this.#deliver(sequence, this.#advance(sequence, output));
    if (this.#sequences.every((known) => known.finishReason !== null)) this.#end();
  }

  /** Takes one token of a sequence that continues, with no other output. */
  acceptToken(index: number, tokenId: number, heldBlockMs: number): void {
    const sequence = this.#sequences[index];
    const { pacer, request } = this.#options;
    const isPaced = pacer !== undefined && pacer.intervalMs > 0;
    if (!isPaced || sequence === undefined || !sequence.decodesLate || isNew(sequence)) {
      this.accept(plainOutput(request.key, index, [tokenId], heldBlockMs));
      return;
    }
    if (this.#ended || sequence.finishReason !== null) return;
    this.#measure(sequence, 1);
    sequence.heldBlockMs = heldBlockMs;
    sequence.undecoded.push(tokenId);
    pacer.hold(this);
  }

  /** Delivers held tokens, where there are enough for the request's own interval. */
  flush(): void {
    if (this.#ended) return;
    for (const [index, sequence] of this.#sequences.entries()) {
      if (sequence.undecoded.length > 0) {
        const { key } = this.#options.request;
        const item = this.#advance(sequence, plainOutput(key, index, [], sequence.heldBlockMs));
        sequence.held = sequence.held === null ? item : joinItems(sequence.held, item);
      }
      const { held } = sequence;
      if (held === null || !this.#isLongEnough(held)) continue;
      sequence.held = null;
      this.#push(held);
    }
  }

  /** Ends the stream with an error, and aborts the request in the engine. */
  fail(error: unknown): void {
    this.#giveUp("error", { error });
  }

  /** Cancels the request: its blocks are released within one step. The reader gets any `reason`. */
  cancel(reason?: unknown): void {
    this.#giveUp("abort", reason === undefined ? null : { error: reason });
  }

  #setPaused(paused: boolean): void {
    // The engine has no record of a request that has ended.
    if (this.#ended) return;
    const { pacer, request, setPaused } = this.#options;
    if (paused) pacer?.pause(request.params.n);
    else pacer?.resume(request.params.n);
    setPaused(paused);
  }

  #giveUp(finishReason: FinishReason, failure: { readonly error: unknown } | null): void {
    if (this.#ended) return;
    this.flush();
    this.#options.abort();
    for (const sequence of this.#sequences) sequence.finishReason ??= finishReason;
    if (failure !== null) this.#channel.fail(failure.error);
    this.#end();
  }

  #learnPrompt({ cachedTokens, promptLogprobs, promptLogits, queueSeconds }: PromptOutput): void {
    const { promptTokenIds } = this.#options.request;
    this.#prompt = promptInfo(promptTokenIds, { cachedTokens, promptLogprobs });
    this.#promptLogits = promptLogits;
    this.#queueSeconds = queueSeconds;
  }

  /** Decodes new tokens; a stop string ends the sequence here and in the engine. */
  #advance(sequence: SequenceProgress, newest: SequenceOutput): StreamItem {
    const { undecoded } = sequence;
    const output =
      undecoded.length === 0
        ? newest
        : { ...newest, tokenIds: [...undecoded.splice(0), ...newest.tokenIds] };
    let { finishReason, stopReason } = output;
    sequence.tokens += output.tokenIds.length;
    const written = sequence.text?.push(output, sequence.tokens) ?? null;
    let { tokenIds, logprobs } = output;
    if (written !== null && written.stop !== null) {
      if (finishReason === null) this.#options.abort(output.index);
      finishReason = "stop";
      stopReason = written.stop;
      sequence.tokens -= tokenIds.length - written.kept;
      tokenIds = tokenIds.slice(0, written.kept);
      logprobs = logprobs === null ? null : logprobs.slice(0, written.kept);
    }
    sequence.finishReason = finishReason;
    sequence.heldBlockMs = output.heldBlockMs;
    const { index, beam } = output;
    const text = written === null ? null : written.text;
    const prompt = this.#prompt;
    const { earlierText } = sequence;
    sequence.earlierText = undefined;
    const item = {
      ...{ index, text, tokenIds, logprobs, finishReason, stopReason, beam, prompt },
      ...(earlierText !== undefined && { earlierText }),
      ...(this.#options.tellsHeld && { kvByteSeconds: this.#byteSeconds(output.heldBlockMs) }),
    };
    const { draftedTokens: drafted } = output;
    // The last of a step's tokens is sampled behind those that confirm drafted ones.
    const accepted = Math.min(newest.tokenIds.length, tokenIds.length) - 1;
    return drafted === undefined ? item : { ...item, drafts: { drafted, accepted } };
  }

  #byteSeconds(blockMs: number): number {
    return (blockMs * this.#options.bytesPerBlock) / MS_PER_SECOND;
  }

  /** Delivers the first and last item at once, others with at least the interval's tokens. */
  #deliver(sequence: SequenceProgress, item: StreamItem): void {
    const { pacer } = this.#options;
    const whole = sequence.held === null ? item : joinItems(sequence.held, item);
    const isFirst = sequence.tokens - sequence.earlierTokens === item.tokenIds.length;
    const isPaced = pacer !== undefined && pacer.intervalMs > 0;
    const isOver = isFirst || whole.finishReason !== null;
    const due = isOver || (!isPaced && this.#isLongEnough(whole));
    sequence.held = due ? null : whole;
    if (due) this.#push(whole);
    else if (isPaced) pacer.hold(this);
  }

  #isLongEnough({ tokenIds }: StreamItem): boolean {
    return tokenIds.length >= this.#options.request.params.streamInterval;
  }

  #push(item: StreamItem): void {
    this.#channel.push(item);
    this.#lag.pushed(item);
  }

  #measure(sequence: SequenceProgress, tokens: number): void {
    if (tokens === 0) return;
    const { clock, listeners, request } = this.#options;
    const { requestId } = request;
    const now = clock.nowMs();
    if (this.#firstTokenMs === null) {
      this.#firstTokenMs = now;
      const seconds = (now - this.#startedMs) / MS_PER_SECOND;
      for (const listener of listeners) listener.onFirstToken?.(requestId, seconds);
    }
    if (sequence.lastTokenMs !== null) {
      const seconds = (now - sequence.lastTokenMs) / MS_PER_SECOND;
      for (const listener of listeners) listener.onTokens?.(requestId, tokens, seconds);
    }
    sequence.lastTokenMs = now;
  }

  #end(): void {
    this.#ended = true;
    this.#channel.end();
    const { listeners, onEnd, pacer, request } = this.#options;
    if (this.#lag.paused) pacer?.resume(request.params.n);
    pacer?.leave(this, request.params.n);
    onEnd();
    for (const listener of listeners) listener.onRequestEnd?.(this.#times(), this.#summary());
  }

  #times(): RequestTimes {
    const now = this.#options.clock.nowMs();
    const first = this.#firstTokenMs ?? now;
    const scheduledMs = this.#startedMs + this.#queueSeconds * MS_PER_SECOND;
    return {
      queueSeconds: this.#queueSeconds,
      prefillSeconds: Math.max(0, first - scheduledMs) / MS_PER_SECOND,
      decodeSeconds: Math.max(0, now - first) / MS_PER_SECOND,
      endToEndSeconds: (now - this.#startedMs) / MS_PER_SECOND,
    };
  }

  #summary(): RequestSummary {
    const { promptTokenIds, params, generated } = this.#options.request;
    const own = this.#sequences.filter((_, index) => generated?.[index]?.ended !== true);
    return {
      promptTokens: promptTokenIds.length,
      cachedTokens: this.#prompt.cachedTokens,
      generatedTokens: own.reduce(
        (sum, { tokens, earlierTokens }) => sum + tokens - earlierTokens,
        0,
      ),
      finishReasons: own.map((sequence) => sequence.finishReason ?? "abort"),
      n: params.n,
      maxTokens: params.maxTokens,
      kvByteSeconds: this.#byteSeconds(
        this.#sequences.reduce((sum, { heldBlockMs }) => sum + heldBlockMs, 0),
      ),
    };
  }
}

/** A sequence at its beginning, or where another engine left it. */
function progressOf(
  { params, promptTokenIds, generated }: CallersRequest,
  tokenizer: Tokenizer | null,
  index: number,
): SequenceProgress {
  const hasText = tokenizer !== null && params.detokenize;
  const text = hasText ? new SequenceText(tokenizer, params, promptTokenIds) : null;
  const { tokenIds, ended } = generated?.[index] ?? { tokenIds: null, ended: false };
  const begun = tokenIds !== null && tokenIds.length > 0 && !ended;
  const earlierText = begun ? (text?.resume(tokenIds) ?? null) : undefined;
  if (begun && text !== null && earlierText === null) {
    throw endedBefore(index, "a stop string in their text does");
  }
  return {
    text,
    tokens: tokenIds?.length ?? 0,
    earlierTokens: tokenIds?.length ?? 0,
    earlierText,
    decodesLate: !hasText || params.stop.length === 0,
    undecoded: [],
    held: null,
    lastTokenMs: null,
    finishReason: ended ? "stop" : null,
    heldBlockMs: 0,
  };
}

/** Whether nothing of it was delivered here. */
function isNew({ tokens, earlierTokens }: SequenceProgress): boolean {
  return tokens === earlierTokens;
}

/** What callers read of a prompt. Its ids are a plain array, made when it is first read. */
function promptInfo(ids: Int32Array, rest: Omit<PromptInfo, "promptTokenIds">): PromptInfo {
  let list: readonly number[] | null = null;
  return {
    get promptTokenIds() {
      list ??= plainIds(ids);
      return list;
    },
    ...rest,
  };
}
