import { randomUUID } from "node:crypto";
import { EngineError, requireOptions, warnOnStandardError } from "#base";
import {
  bundledModel,
  chatEvents,
  chatResult,
  checkModel,
  describe,
  EngineClient,
  embeddingFingerprint,
  generateAll,
  joinedClient,
  kvEventsOf,
  LazyStream,
  type ModelFiles,
  type ModelParts,
  type ModelText,
  modelPaths,
  nameOf,
  openThread,
  promptLogits,
  RequestStarter,
  readFiles,
  readTemplateOption,
  requestName,
  requestsAtOnce,
  type SamplingDefaults,
  type StartOptions,
  type StartPrompt,
  TextVectors,
} from "#engine/caller";
import {
  type ChatCallOptions,
  type ChatEvent,
  type ChatMessage,
  type ChatOptions,
  type ChatResult,
  type EmbedResult,
  type EmbedTextOptions,
  type EngineHealth,
  type EngineListener,
  type EngineOptions,
  type EngineStats,
  type GenerateOptions,
  type GenerateResult,
  type KvEventSource,
  type KvFillOptions,
  type KvFillResult,
  type LoadOptions,
  type LoadPhase,
  type LoadProgress,
  loadedDrafts,
  type ModelConnection,
  type ModelInfo,
  type Prompt,
  parseEngineOptions,
  type ScoreOptions,
  type ScoreResult,
  type ServedModel,
  type StreamItem,
  type TextCodec,
  type TimedLook,
  warnOnce,
} from "#engine/protocol";
import { type CacheAsk, KvEventLog } from "#kvcache";
import { sequencesOf } from "#sampling";

/** `LLM.load`'s options: the engine's, and callbacks. */
export interface LlmOptions extends LoadOptions {
  /** Receives warnings, e.g. that a native library is missing. Default: standard error. */
  readonly onWarning?: ((message: string) => void) | undefined;
  /** Receives the progress of the slow parts of loading. */
  readonly onProgress?: ((progress: LoadProgress) => void) | undefined;
  /**
   * A model of the same files, not closed yet: its tokenizer, templates and text threads are
   * shared. Default: none, the model has its own.
   */
  readonly textOf?: LLM | undefined;
}

/**
 * A loaded model. Text, templates and streams stay here, on the caller's thread; the engine
 * computes tokens on its own.
 *
 * Close it to free the model's memory: `await using llm = await LLM.load(…)`, or
 * `await llm.close()`. One that is never closed keeps its memory, but not the process alive.
 */
export class LLM implements ServedModel, AsyncDisposable {
  readonly info: ModelInfo;
  readonly kvEvents: KvEventSource;
  /** Time and memory of each part of loading. */
  readonly loadPhases: readonly LoadPhase[];
  /**
   * Sampling fields that the model's authors recommend (generation_config.json). Not applied unless
   * passed: `llm.generate(prompt, { ...llm.defaultSampling, maxTokens: 64 })`.
   */
  readonly defaultSampling: SamplingDefaults;
  readonly look = (ask: CacheAsk): Promise<TimedLook> => this.#client.look(ask);
  readonly #client: EngineClient;
  readonly #text: ModelText;
  readonly #settings: EngineOptions;
  readonly #warnOnce: (message: string) => void;
  readonly #starter: RequestStarter;
  readonly #vectors: TextVectors;
  readonly #source: Pick<ModelParts, "path" | "template">;
  #closed: Promise<unknown> | null = null;
  #embeddingFingerprint: Promise<string> | null = null;

  private constructor(client: EngineClient, info: ModelInfo, parts: ModelParts) {
    if (!(client instanceof EngineClient)) {
      const message = "Cannot construct a model: it is loaded; await LLM.load(model, options)";
      throw new EngineError("INVALID_ARGUMENT", message);
    }
    this.#client = client;
    this.#settings = parts.settings;
    this.#text = parts.text;
    this.#text.useContext(info.contextTokensMax);
    this.#source = { path: parts.path, template: parts.template };
    this.#warnOnce = warnOnce(parts.onWarning);
    this.kvEvents = kvEventsOf(client, info, parts.settings);
    this.defaultSampling = parts.defaultSampling;
    this.info = info;
    const { vocabularySize, contextTokensMax, bytesPerBlock } = info;
    const { waitingSequencesMax: sequencesMax } = parts.settings.scheduler;
    const drafts = loadedDrafts(parts.settings);
    const how = { drafts, mixedDrafts: parts.settings.speculative.mixed };
    const limits = { vocabularySize, contextTokensMax, bytesPerBlock, sequencesMax };
    const canFetchKv = info.kvAddress !== null;
    const scope = { ...limits, ...how, canFetchKv, text: parts.text, warn: this.#warnOnce };
    this.#starter = new RequestStarter(client, scope);
    this.#vectors = new TextVectors({
      ...{ client, starter: this.#starter, codec: () => this.codec, info, warn: this.#warnOnce },
      pairFrame: () => this.#text.require("score pairs").pairFrame,
      atOnce: this.requestsAtOnce(1),
    });
    this.loadPhases = parts.phases;
  }

  /**
   * Loads a model: a directory in Hugging Face's layout, a .gguf or .safetensors file, or the id of
   * a model that `perigee models pull` has downloaded. Without a name: the bundled model.
   *
   * @throws EngineError MODEL_NOT_FOUND, CHECKPOINT_INVALID, UNSUPPORTED_MODEL, TOKENIZER_INVALID,
   *   INVALID_ARGUMENT, DEVICE_UNAVAILABLE, OUT_OF_MEMORY
   */
  static async load(model: string = bundledModel, options: LlmOptions = {}): Promise<LLM> {
    requireOptions(options);
    const { onWarning = warnOnStandardError, onProgress, textOf = null, ...rest } = options;
    checkModel(model);
    const wanted = parseEngineOptions(rest);
    const name = wanted.servedName ?? nameOf(model);
    const { chatTemplate } = wanted;
    const template = chatTemplate === null ? null : readTemplateOption(chatTemplate);
    const client = new EngineClient(
      // Nothing of the engine is needed here where it has a thread of its own.
      wanted.engineThread ? openThread : (await import("#engine/thread")).openInline,
      onWarning,
      new KvEventLog(Math.max(1, wanted.kvCache.eventBufferMax)),
      onProgress,
    );
    try {
      const { path, settings, options: sent } = await modelPaths(model, wanted);
      // Weights are read on the engine's thread while the tokenizer is made on this one.
      const loading = client.load({ type: "load", path, options: sent });
      const how = { name, template, settings, onWarning };
      const reading = textOf === null ? readFiles(path, how) : loading.then(() => textOf.#files());
      const [{ info, phases }, files] = await Promise.all([loading, reading]);
      const parts = { ...files, path, template, settings, phases, onWarning };
      return new LLM(client, describe(name, info, files), parts);
    } catch (error) {
      await client.close();
      throw error;
    }
  }

  /**
   * Joins a model that another thread loaded, through the result of its `connect`. It has its own
   * tokenizer and templates, and no cache events: those go to the loading thread. Disposing of it
   * ends only its own requests. Throws what reading the files throws.
   */
  static async join(connection: ModelConnection): Promise<LLM> {
    const { path, template, info } = connection;
    const { client, settings } = joinedClient(connection);
    try {
      // The thread that loaded the model has already reported these warnings.
      const files = await readFiles(path, {
        name: info.name,
        template,
        settings,
        onWarning: () => {},
      });
      const onWarning = (message: string) => client.warn(message);
      const parts = { ...files, path, template, settings, phases: [], onWarning };
      return new LLM(client, info, parts);
    } catch (error) {
      await client.close();
      throw error;
    }
  }

  /** For `LLM.join` on another thread. Throws SHUTTING_DOWN and ENGINE_DEAD. */
  connect(): ModelConnection {
    const { info } = this;
    return { ...this.#client.connect(), ...this.#source, info, settings: this.#settings };
  }

  /** Encoding and decoding; null for a checkpoint without a tokenizer. */
  get codec(): TextCodec | null {
    return this.#text.codec;
  }

  /** The text of the chat template for conversations with tools; null: the model has none. */
  get chatTemplate(): string | null {
    return this.#text.toolTemplate;
  }

  warmUp(): void {
    this.#text.warmUp();
  }

  health(): EngineHealth {
    return this.#client.health;
  }

  turnMs(): number {
    return this.#client.turnMs;
  }

  stats(): EngineStats {
    return this.#client.stats;
  }

  listen(listener: EngineListener): () => void {
    this.#client.listeners.add(listener);
    return () => this.#client.listeners.delete(listener);
  }

  /**
   * Completes any number of prompts; results are in the prompts' order. Options are checked first,
   * even without prompts. Rejects with the first failure, after cancelling the other prompts.
   * Without `maxTokens` a completion has at most 16 tokens.
   */
  async generate(prompt: Prompt, options?: GenerateOptions): Promise<[GenerateResult]>;
  async generate(
    prompts: Prompt | readonly Prompt[],
    options?: GenerateOptions,
  ): Promise<GenerateResult[]>;
  async generate(
    prompts: Prompt | readonly Prompt[],
    options: GenerateOptions = {},
  ): Promise<GenerateResult[]> {
    const list = isList(prompts) ? prompts : [prompts];
    const atOnce = () => this.requestsAtOnce(sequencesOf(options));
    return generateAll(this.#starter, list, options, atOnce);
  }

  /**
   * Streams one prompt's completion(s). Leaving the loop cancels the request. A stream that is not
   * read pauses at `unreadTokensMax` unread tokens. One that is never left stays paused until its
   * `signal` ends it, and yields its blocks and its place to requests that need them.
   */
  stream(prompt: Prompt, options: GenerateOptions = {}): AsyncIterableIterator<StreamItem> {
    requireOptions(options);
    return this.#lazyStream(prompt, () => this.#starter.check(options), {
      requestId: options.requestId ?? randomUUID(),
      signal: options.signal,
    });
  }

  streams(
    prompts: readonly Prompt[],
    options: GenerateOptions = {},
  ): AsyncIterableIterator<StreamItem>[] {
    requireOptions(options);
    let start: Promise<StartPrompt> | null = null;
    const checked = () => {
      start ??= this.#starter.check(options);
      return start;
    };
    return prompts.map((prompt, place) =>
      this.#lazyStream(prompt, checked, {
        requestId: requestName(options.requestId, place, prompts.length),
        signal: options.signal,
      }),
    );
  }

  #lazyStream(
    prompt: Prompt,
    checked: () => Promise<StartPrompt>,
    options: StartOptions,
  ): AsyncIterableIterator<StreamItem> {
    return new LazyStream(async () => {
      const start = await checked();
      const { unreadTokensMax } = this.#settings;
      return (await start(prompt, { ...options, unreadTokensMax })).items;
    });
  }

  /**
   * Answers a conversation, or one message. Calls of tools with handlers are run, and the model is
   * asked again, up to `roundsMax` times.
   */
  chat(
    messages: string | readonly ChatMessage[],
    options: ChatCallOptions = {},
  ): Promise<ChatResult> {
    return chatResult(this.chatStream(messages, options));
  }

  /** The same as it comes about. Leaving the loop cancels the request. */
  chatStream(
    messages: string | readonly ChatMessage[],
    options: ChatCallOptions = {},
  ): AsyncGenerator<ChatEvent, void> {
    const list = typeof messages === "string" ? [{ role: "user", content: messages }] : messages;
    return chatEvents(this, list, options);
  }

  async chatPrompt(
    messages: readonly ChatMessage[],
    options: ChatOptions = {},
  ): Promise<{ readonly promptTokenIds: number[] }> {
    return { promptTokenIds: await this.#text.encodeChat(messages, options) };
  }

  /** One vector per input, made of its last hidden states as `info.embedding` specifies. */
  async embed(input: Prompt, options?: EmbedTextOptions): Promise<[EmbedResult]>;
  async embed(
    inputs: Prompt | readonly Prompt[],
    options?: EmbedTextOptions,
  ): Promise<EmbedResult[]>;
  async embed(
    inputs: Prompt | readonly Prompt[],
    options: EmbedTextOptions = {},
  ): Promise<EmbedResult[]> {
    return this.#vectors.embed(isList(inputs) ? inputs : [inputs], options);
  }

  /**
   * How well each text goes with the query, or its own of as many queries; larger is better. A
   * cross-encoder reads both together, and cuts longer pairs; of other models it is the cosine.
   */
  async score(
    queries: string | readonly string[],
    texts: readonly string[],
    options: ScoreOptions = {},
  ): Promise<ScoreResult[]> {
    return this.#vectors.score(queries, texts, options);
  }

  /** 32 hexadecimal digits: models of equal ones make comparable vectors. */
  embeddingFingerprint(): Promise<string> {
    this.#embeddingFingerprint ??= embeddingFingerprint(
      this.#source.path,
      this.info,
      this.#settings,
    );
    return this.#embeddingFingerprint;
  }

  /** Logits of every prompt token, [rows, vocabulary] row-major, f32. */
  promptLogits(prompt: Prompt): Promise<{ logits: Float32Array; rows: number }> {
    return promptLogits(this.#starter, prompt);
  }

  requestsAtOnce(n: number): number {
    return requestsAtOnce(this.#settings.scheduler, n);
  }

  async forgetCached(): Promise<void> {
    await this.#client.forgetCached();
  }

  fill(fill: KvFillOptions): Promise<KvFillResult> {
    return this.#client.fill(fill);
  }

  async drain(): Promise<void> {
    await this.#client.drain();
  }

  /** Cancels running requests and frees the model. May be called repeatedly. */
  async close(): Promise<void> {
    this.#closed ??= Promise.all([this.#client.close(), this.#text.dispose()]);
    await this.#closed;
  }

  /** For a model that shares them. */
  #files(): ModelFiles {
    return { text: this.#text.share(), defaultSampling: this.defaultSampling };
  }

  /** `close`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

const isList: (value: unknown) => value is readonly unknown[] = Array.isArray;
