import { setTimeout as sleep, setImmediate as turn } from "node:timers/promises";
import { EngineError } from "#base";
import type {
  CacheReport,
  ChatMessage,
  ChatOptions,
  Completion,
  EmbedResult,
  EngineHealth,
  EngineListener,
  EngineStats,
  FinishReason,
  GeneratedTokens,
  GenerateOptions,
  GenerateResult,
  ModelInfo,
  PositionLogprobs,
  Prompt,
  PromptInfo,
  ServedModel,
  StreamItem,
  TextCodec,
  TextFrame,
} from "#engine";
import { SamplingParams } from "#engine";
import { boundedMap } from "../../src/engine/caller/bounded-map.ts";
import { joinItems } from "../../src/engine/caller/stream-item.ts";
import { instanceOf, instanceOfTag } from "./schema-instance.ts";
import { ScriptedEvents } from "./scripted-events.ts";

const END = 256;
const VOCABULARY = 257;
const BLOCK_TOKENS = 16;
const CONTEXT_MAX = 4096;

/** What the toy says to a prompt; `index` tells the sequences of one prompt apart. */
export type Reply = (prompt: string, index: number) => string;

export interface ToyOptions {
  /** Default: the prompt's last line, in capitals, with the sequence's number where n > 1. */
  readonly reply?: Reply;
  readonly msPerToken?: number;
  /** Requests beyond it are refused with QUEUE_FULL. */
  readonly runningMax?: number;
  /** Ids that stand around every text: `[CLS]` and `[SEP]` of an encoder. */
  readonly frame?: TextFrame;
  /** Throws like a failed step after this many tokens. */
  readonly failAfterTokens?: number;
  readonly hasTokenizer?: boolean;
  readonly defaultName?: string;
  /** What the cache's books say. Default: nothing. */
  readonly cacheReport?: CacheReport;
  /** Where the time of pipeline stages went. Default: there are none. */
  readonly stages?: EngineStats["stages"];
  /** KV events kept; 0: none are told. */
  readonly eventBufferMax?: number;
  /** The text of its chat template, which is only told. Default: unknown. */
  readonly chatTemplate?: string;
  /** Names this start of the cache; default: the same for all. */
  readonly eventStreamId?: string;
}

/**
 * A deterministic language model over bytes: token ids 0 to 255 are bytes, 256 ends. It keeps the
 * engine's promises towards a server (streams, aborts, n, stops, log-probabilities, books), so that
 * the server's tests need no real model.
 */
export class ToyModel implements ServedModel {
  readonly info: ModelInfo;
  readonly codec: TextCodec | null;
  readonly chatTemplate: string | null;
  readonly kvEvents: ScriptedEvents["source"];
  /** What the cache tells: tests emit events here. */
  readonly cache: ScriptedEvents;
  /** The options of every request, in order. */
  readonly requests: GenerateOptions[] = [];
  /** What `chatPrompt` was asked, in order. */
  readonly chats: { messages: readonly ChatMessage[]; options: ChatOptions }[] = [];
  abortedCount = 0;
  #health: EngineHealth = { state: "ready" };
  readonly #options: ToyOptions;
  readonly #listeners = new Set<EngineListener>();
  readonly #prefixes = new Set<string>();
  #running = 0;
  #books = { steps: 0, promptTokens: 0, generatedTokens: 0, queried: 0, hits: 0 };

  constructor(options: ToyOptions = {}) {
    this.#options = options;
    const hasTokenizer = options.hasTokenizer ?? true;
    this.codec = hasTokenizer ? framed(byteCodec, options.frame) : null;
    this.chatTemplate = options.chatTemplate ?? null;
    this.cache = new ScriptedEvents(options.eventBufferMax, options.eventStreamId);
    this.kvEvents = this.cache.source;
    this.info = {
      name: options.defaultName ?? "toy",
      architecture: "toy",
      kind: "decoder",
      parameters: 0,
      vocabularySize: VOCABULARY,
      contextTokensMax: CONTEXT_MAX,
      attentionWindow: null,
      groupWindows: [null],
      hiddenSize: 8,
      embedding: {
        pooling: ["mean"],
        normalized: true,
        dimensions: 8,
        tokensMax: CONTEXT_MAX - 1,
        declared: true,
        prompts: {},
        defaultPrompt: null,
        promptPooled: true,
      },
      pairScoring: null,
      device: "toy",
      weightFormat: "f32",
      kvFormat: "f32",
      blockTokens: BLOCK_TOKENS,
      blocks: 1024,
      bytesPerBlock: 64,
      fingerprint: "toy-weights",
      kvAddress: null,
      speculative: null,
      hasTokenizer,
      hasChatTemplate: hasTokenizer,
    };
  }

  /** Requests in work now: what they hold is freed when it is 0. */
  get runningCount(): number {
    return this.#running;
  }

  /** Those that listen to it now. */
  get listenerCount(): number {
    return this.#listeners.size;
  }

  async forgetCached(): Promise<void> {
    this.#prefixes.clear();
  }

  die(reason: string): void {
    this.#health = { state: "dead", reason };
  }

  health(): EngineHealth {
    return this.#health;
  }

  stats(): EngineStats {
    const { steps, promptTokens, generatedTokens, queried, hits } = this.#books;
    return {
      running: this.#running,
      waiting: 0,
      paused: 0,
      uncomputedTokens: 0,
      freeBlocks: this.info.blocks - this.#running,
      heldBlocks: this.#running,
      cachedBlocks: 0,
      totalBlocks: this.info.blocks,
      steps,
      preemptions: 0,
      promptTokens,
      cachedPromptTokens: hits,
      computedPromptTokens: promptTokens - hits,
      generatedTokens,
      ...{ drafts: 0, draftedTokens: 0, acceptedTokens: 0, acceptedPerPosition: [] },
      prefixQueriedTokens: queried,
      prefixHitTokens: hits,
      swapPreemptions: 0,
      forks: 0,
      loads: 0,
      cache: this.#options.cacheReport ?? null,
      stages: this.#options.stages ?? [],
    };
  }

  listen(listener: EngineListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  requestsAtOnce(): number {
    return Math.max(1, this.#options.runningMax ?? Number.POSITIVE_INFINITY);
  }

  async generate(
    prompts: Prompt | readonly Prompt[],
    options: GenerateOptions = {},
  ): Promise<GenerateResult[]> {
    const list: readonly Prompt[] = Array.isArray(prompts) ? prompts : [prompts];
    return boundedMap(list, this.requestsAtOnce(), (prompt) => this.#collect(prompt, options));
  }

  streams(prompts: readonly Prompt[], options: GenerateOptions = {}): AsyncGenerator<StreamItem>[] {
    return prompts.map((prompt) => this.stream(prompt, options));
  }

  async *stream(prompt: Prompt, options: GenerateOptions = {}): AsyncGenerator<StreamItem> {
    const params = this.#admit(options);
    const ids = this.#encode(prompt);
    this.#running += 1;
    let ended = false;
    let generated = 0;
    const info = this.#promptInfo(ids, params);
    try {
      const writers = Array.from({ length: params.n }, (_, index) => {
        const text = answerText(this.#reply(ids, index, params), params);
        const writer = new SequenceWriter(info, {
          index,
          text,
          params,
          hasText: this.codec !== null,
        });
        writer.skip(earlierOf(prompt, index));
        return writer;
      });
      while (writers.some((writer) => !writer.ended)) {
        await pause(this.#options.msPerToken ?? 0, options.signal);
        for (const writer of writers) {
          if (writer.ended) continue;
          if (generated >= (this.#options.failAfterTokens ?? Number.POSITIVE_INFINITY)) {
            throw new EngineError("ENGINE_STEP_FAILED", "Cannot finish step: secret detail");
          }
          generated += 1;
          yield writer.step();
          this.#report(options.requestId ?? "", params.n);
        }
      }
      ended = true;
    } catch (error) {
      if (options.signal?.aborted === true) throw options.signal.reason;
      throw error;
    } finally {
      this.#running -= 1;
      if (!ended) this.abortedCount += 1;
      this.#finish(info, generated, params, ended ? "stop" : "abort");
    }
  }

  async chatPrompt(
    messages: readonly ChatMessage[],
    options: ChatOptions = {},
  ): Promise<{ readonly promptTokenIds: number[] }> {
    if (this.codec === null) throw new EngineError("TOKENIZER_MISSING", "Cannot render: no text");
    this.chats.push({ messages, options });
    const turns = messages.map(({ role, content }) => `${role}: ${contentText(content)}`);
    const closing = options.addGenerationPrompt === false ? [] : ["assistant:"];
    return { promptTokenIds: await this.codec.encode([...turns, ...closing].join("\n")) };
  }

  async embed(inputs: readonly Prompt[]): Promise<EmbedResult[]> {
    return inputs.map((input) => {
      const promptTokenIds = this.#encode(input);
      const embedding = new Float32Array(this.info.hiddenSize);
      promptTokenIds.forEach((id, i) => {
        const at = i % embedding.length;
        embedding[at] = (embedding[at] ?? 0) + id;
      });
      const length = Math.hypot(...embedding);
      return { embedding: embedding.map((value) => value / length), promptTokenIds };
    });
  }

  /** Shared letters, of the text's: 1 where all are the query's. */
  async score(queries: string | readonly string[], texts: readonly string[]) {
    const list = typeof queries === "string" ? [queries] : queries;
    return texts.map((text, place) => {
      const query = list[list.length === 1 ? 0 : place] ?? "";
      const shared = [...text].filter((letter) => query.includes(letter)).length;
      return { score: shared / Math.max(1, text.length), tokens: query.length + text.length };
    });
  }

  async drain(): Promise<void> {
    this.#health = { state: "draining" };
    while (this.#running > 0) await sleep(1);
  }

  #admit(options: GenerateOptions): SamplingParams {
    const { signal, cacheSalt, priority, requestId, retention, ...sampling } = options;
    this.requests.push(options);
    signal?.throwIfAborted();
    const limit = this.#options.runningMax ?? Number.POSITIVE_INFINITY;
    if (this.#running >= limit) {
      throw new EngineError("QUEUE_FULL", `Cannot take request ${requestId}: the queue is full`);
    }
    void cacheSalt;
    void priority;
    void retention;
    const parsed = SamplingParams.safeParse(sampling);
    if (parsed.success) return parsed.data;
    const issue = parsed.error.issues[0];
    const param = issue?.path.join(".") ?? "";
    throw new EngineError("INVALID_ARGUMENT", `Cannot use ${param}: ${issue?.message}`, { param });
  }

  #encode(prompt: Prompt): readonly number[] {
    const ids = typeof prompt === "string" ? bytesOf(prompt) : prompt.promptTokenIds;
    if (ids.length >= CONTEXT_MAX) {
      throw new EngineError(
        "PROMPT_TOO_LONG",
        `Cannot admit request: prompt must fit ${CONTEXT_MAX} tokens, current value is ${ids.length}`,
      );
    }
    return ids;
  }

  #reply(ids: readonly number[], index: number, params: SamplingParams): string {
    const prompt = byteCodec.decode(ids);
    const reply = this.#options.reply;
    if (reply !== undefined) return reply(prompt, index);
    const lines = prompt.split("\n").map((line) => line.replace(/^\w+:/, "").trim());
    const said = lines.findLast((line) => line !== "")?.toUpperCase() ?? "...";
    return params.n > 1 ? `${said} #${index}` : said;
  }

  #promptInfo(ids: readonly number[], params: SamplingParams): PromptInfo {
    let cachedTokens = 0;
    for (let end = BLOCK_TOKENS; end < ids.length; end += BLOCK_TOKENS) {
      const prefix = ids.slice(0, end).join();
      if (this.#prefixes.has(prefix)) cachedTokens = end;
      this.#prefixes.add(prefix);
    }
    this.#books.promptTokens += ids.length;
    this.#books.queried += ids.length;
    this.#books.hits += cachedTokens;
    const { promptLogprobs: count } = params;
    const logprobs = ids.map((id, i) => (i === 0 ? null : positionLogprobs(id, count ?? 0)));
    return {
      promptTokenIds: ids,
      cachedTokens,
      promptLogprobs: count === null ? null : logprobs,
    };
  }

  #report(requestId: string, sequences: number): void {
    this.#books.steps += 1;
    this.#books.generatedTokens += 1;
    for (const listener of this.#listeners) {
      const report = { stepTokens: 1, sequences, seconds: 0.001, planSeconds: 0.0001 };
      listener.onStep?.(report, this.stats());
      listener.onTokens?.(requestId, 1, 0.001);
    }
  }

  #finish(info: PromptInfo, generated: number, params: SamplingParams, reason: FinishReason): void {
    const times = {
      queueSeconds: 0,
      prefillSeconds: 0.01,
      decodeSeconds: 0.02,
      endToEndSeconds: 0.03,
    };
    for (const listener of this.#listeners) {
      listener.onFirstToken?.("", 0.01);
      listener.onRequestEnd?.(times, {
        promptTokens: info.promptTokenIds.length,
        cachedTokens: info.cachedTokens,
        generatedTokens: generated,
        ...{ drafts: 0, draftedTokens: 0, acceptedTokens: 0, acceptedPerPosition: [] },
        finishReasons: Array.from({ length: params.n }, () => reason),
        n: params.n,
        maxTokens: params.maxTokens,
        kvByteSeconds: 0,
      });
    }
  }

  async #collect(prompt: Prompt, options: GenerateOptions): Promise<GenerateResult> {
    const completions = new Map<number, Completion>();
    let info: PromptInfo = { promptTokenIds: [], cachedTokens: 0, promptLogprobs: null };
    for await (const item of this.stream(prompt, options)) {
      info = item.prompt;
      const known = completions.get(item.index);
      completions.set(item.index, {
        index: item.index,
        text: item.text === null ? null : (known?.text ?? "") + item.text,
        tokenIds: [...(known?.tokenIds ?? []), ...item.tokenIds],
        logprobs: item.logprobs && [...(known?.logprobs ?? []), ...item.logprobs],
        cumulativeLogprob: null,
        finishReason: item.finishReason ?? "abort",
        stopReason: item.stopReason,
        score: item.beam?.score ?? null,
      });
    }
    const requestId = options.requestId ?? "";
    return { ...info, requestId, completions: [...completions.values()] };
  }
}

function earlierOf(prompt: Prompt, index: number): GeneratedTokens {
  const generated = typeof prompt === "string" ? [] : (prompt.generated ?? []);
  return generated[index] ?? { tokenIds: [] };
}

/** 0 ms is the event loop's next turn: whatever waits to be read or written gets its chance. */
function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return ms === 0 ? turn(undefined, { signal }) : sleep(ms, undefined, { signal });
}

interface Written {
  readonly index: number;
  readonly text: string;
  readonly params: SamplingParams;
  readonly hasText: boolean;
}

/** One sequence: a byte per step. */
class SequenceWriter {
  ended = false;
  readonly #prompt: PromptInfo;
  readonly #written: Written;
  readonly #ids: readonly number[];
  readonly #stop: string | null;
  readonly #utf8 = new TextDecoder();
  #count = 0;

  constructor(prompt: PromptInfo, written: Written) {
    this.#prompt = prompt;
    this.#written = written;
    const { text, params } = written;
    this.#stop = params.stop.find((stop) => text.includes(stop)) ?? null;
    const end = this.#stop === null ? text.length : text.indexOf(this.#stop);
    this.#ids = [...bytesOf(text.slice(0, end)), END];
  }

  /** Goes on behind tokens that another model has made. */
  skip({ tokenIds, ended = false }: GeneratedTokens): void {
    for (const _ of tokenIds) this.#step();
    this.ended = ended;
  }

  /** A beam comes at once, at the end. */
  step(): StreamItem {
    let item = this.#step();
    if (this.#written.params.beamWidth === null) return item;
    while (!this.ended) item = joinItems(item, this.#step());
    return { ...item, beam: { score: -1 - item.index, logprob: -10 - item.index } };
  }

  #step(): StreamItem {
    const id = this.#ids[this.#count] ?? END;
    this.#count += 1;
    const { params, index, hasText } = this.#written;
    const atEnd = id === END;
    const full = params.maxTokens !== null && this.#count >= params.maxTokens;
    this.ended = atEnd || full;
    const text = atEnd ? "" : this.#utf8.decode(Uint8Array.of(id), { stream: true });
    return {
      prompt: this.#prompt,
      index,
      text: hasText ? text : null,
      tokenIds: [id],
      logprobs: params.logprobs === null ? null : [positionLogprobs(id, params.logprobs)],
      finishReason: atEnd ? "stop" : full ? "length" : null,
      stopReason: atEnd ? this.#stop : null,
      beam: null,
    };
  }
}

/** The drawn token first, then its neighbours, each half as likely as the one before. */
function positionLogprobs(tokenId: number, count: number): PositionLogprobs {
  const top = Array.from({ length: count }, (_, rank) => ({
    tokenId: (tokenId + rank) % VOCABULARY,
    logprob: -(rank + 1) * Math.LN2,
    rank: rank + 1,
  }));
  return { tokenId, logprob: -Math.LN2, rank: 1, top };
}

function answerText(reply: string, params: SamplingParams): string {
  const structure = params.structuredOutput;
  if (structure === null) return reply;
  if (structure.choice !== undefined) return structure.choice[0] ?? "";
  if (structure.jsonObject === true) return "{}";
  if (structure.structuralTag !== undefined) return instanceOfTag(structure.structuralTag);
  if (structure.json === undefined) return reply;
  const schema: unknown =
    typeof structure.json === "string" ? JSON.parse(structure.json) : structure.json;
  return JSON.stringify(instanceOf(schema));
}

function contentText(content: ChatMessage["content"]): string {
  return typeof content === "string" ? content : JSON.stringify(content ?? "");
}

function bytesOf(text: string): number[] {
  return [...new TextEncoder().encode(text)];
}

const byteCodec: TextCodec = {
  encode: async (text) => bytesOf(text),
  encodeAll: async (texts) => texts.map(bytesOf),
  decode: (ids) => new TextDecoder().decode(Uint8Array.from(ids.filter((id) => id < END))),
  decodeLong: async (ids) => byteCodec.decode(ids),
  frame: { before: [], after: [] },
  tokenBytes: (id) => (id < END ? Uint8Array.of(id) : new TextEncoder().encode("<end>")),
};

function framed(codec: TextCodec, frame: TextFrame = codec.frame): TextCodec {
  const encode = async (text: string) => [...frame.before, ...bytesOf(text), ...frame.after];
  return { ...codec, frame, encode, encodeAll: (texts) => Promise.all(texts.map(encode)) };
}
