import { randomBytes, randomUUID } from "node:crypto";
import { basename } from "node:path";
import { type Clock, EngineError, systemClock } from "#base";
import { openCheckpoint, resolveModel } from "#checkpoint";
import { ActiveRequest } from "./active-request.ts";
import type {
  ChatMessage,
  ChatOptions,
  EmbedResult,
  EngineHealth,
  EngineListener,
  EngineStats,
  GenerateOptions,
  GenerateResult,
  ModelInfo,
  Prompt,
  ServedModel,
  StreamItem,
  TextCodec,
} from "./api.ts";
import { type LoadOptions, parseEngineOptions } from "./config.ts";
import { defaultSamplingFrom, type SamplingDefaults } from "./generation-config.ts";
import { type EngineLink, openLink } from "./link.ts";
import { ModelText } from "./model-text.ts";
import type { EngineRequest, FromEngine, LoadMessage } from "./protocol.ts";
import { checkTokenIds, collectResult, parseSampling } from "./request-check.ts";
import { fromWire } from "./wire-error.ts";

/** `LLM.load`'s options: the engine's, and a place for warnings. */
export interface LlmOptions extends LoadOptions {
  /** Hears what went another way than asked, e.g. no native library. */
  readonly onWarning?: (message: string) => void;
}

interface Started {
  readonly info: ModelInfo;
  readonly eosTokenIds: readonly number[];
  readonly stats: EngineStats;
}

interface PendingEmbedding {
  readonly resolve: (embedding: Float32Array) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * A loaded model. Text, templates and streams live here, on the caller's thread; tokens are
 * computed by the engine on its own. Dispose it to free the model (`await using`).
 */
export class LLM implements ServedModel, AsyncDisposable {
  readonly info: ModelInfo;
  /** Sampling fields that the model's authors recommend (generation_config.json). */
  readonly defaultSampling: SamplingDefaults;
  readonly #link: EngineLink;
  readonly #text: ModelText;
  readonly #clock: Clock;
  readonly #requests = new Map<string, ActiveRequest>();
  readonly #embeddings = new Map<string, PendingEmbedding>();
  readonly #listeners = new Set<EngineListener>();
  #stats: EngineStats;
  #health: EngineHealth = { state: "ready" };
  #onIdle: (() => void)[] = [];

  private constructor(
    link: EngineLink,
    text: ModelText,
    started: Started,
    defaults: SamplingDefaults,
  ) {
    this.#link = link;
    this.#text = text;
    this.#clock = systemClock;
    this.#stats = started.stats;
    this.info = started.info;
    this.defaultSampling = defaults;
  }

  /**
   * Loads a model: a directory in Hugging Face's layout, a .gguf or .safetensors file, or the id of
   * a model that `perigee models pull` has downloaded.
   *
   * @throws EngineError MODEL_NOT_FOUND, CHECKPOINT_INVALID, UNSUPPORTED_MODEL, OUT_OF_MEMORY
   */
  static async load(model: string, options: LlmOptions = {}): Promise<LLM> {
    const { onWarning, ...rest } = options;
    const settings = parseEngineOptions(rest);
    const { cacheDir } = settings.hub;
    const path = await resolveModel(model, {
      revision: settings.hub.revision,
      ...(cacheDir === null ? {} : { cacheDir }),
    });
    const checkpoint = await openCheckpoint(path);
    const name = settings.servedName ?? basename(model);
    let text: ModelText;
    let defaults: SamplingDefaults;
    try {
      text = new ModelText(checkpoint.tokenizer, name, settings.chatTemplate);
      for (const warning of checkpoint.warnings) onWarning?.(warning);
      defaults = defaultSamplingFrom(checkpoint.generationConfig);
    } finally {
      checkpoint.close();
    }
    const vocabulary = text.tokenizer?.grammarVocabulary() ?? null;
    const message: LoadMessage = { type: "load", path, name, options: settings, vocabulary };
    let receive: (message: FromEngine) => void = () => {};
    const link = openLink(settings.engineThread, (output) => receive(output));
    const started = await new Promise<Started>((resolve, reject) => {
      receive = startListener(name, text, resolve, reject, onWarning);
      link.post(message);
    }).catch(async (error: unknown) => {
      await link.close();
      throw error;
    });
    const llm = new LLM(link, text, started, defaults);
    receive = (output) => llm.#receive(output, onWarning);
    return llm;
  }

  /** Encoding and decoding; null for a checkpoint without a tokenizer. */
  get codec(): TextCodec | null {
    return this.#text.tokenizer;
  }

  health(): EngineHealth {
    return this.#health;
  }

  stats(): EngineStats {
    return this.#stats;
  }

  listen(listener: EngineListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Completes prompts; results stand in the prompts' order. Rejects with the first failure, after
   * the other prompts were cancelled.
   */
  async generate(
    prompts: Prompt | readonly Prompt[],
    options: GenerateOptions = {},
  ): Promise<GenerateResult[]> {
    const list = isList(prompts) ? prompts : [prompts];
    const stop = new AbortController();
    const signals = [stop.signal, ...(options.signal === undefined ? [] : [options.signal])];
    const one = { ...options, signal: AbortSignal.any(signals) };
    try {
      return await Promise.all(
        list.map(async (prompt, place) => {
          const requestId = requestName(options.requestId, place, list.length);
          const active = await this.#start(prompt, { ...one, requestId });
          return collectResult(requestId, active.items);
        }),
      );
    } catch (error) {
      stop.abort(error);
      throw error;
    }
  }

  /** Streams one prompt's completion(s). Leaving the loop cancels the request. */
  async *stream(prompt: Prompt, options: GenerateOptions = {}): AsyncGenerator<StreamItem> {
    const requestId = options.requestId ?? randomUUID();
    const active = await this.#start(prompt, { ...options, requestId });
    yield* active.items;
  }

  async chatPrompt(
    messages: readonly ChatMessage[],
    options: ChatOptions = {},
  ): Promise<{ readonly promptTokenIds: number[] }> {
    return { promptTokenIds: await this.#text.encodeChat(messages, options) };
  }

  /** One vector per input: mean over its tokens of the last hidden states, of length 1. */
  async embed(
    inputs: readonly Prompt[],
    options: { signal?: AbortSignal } = {},
  ): Promise<EmbedResult[]> {
    return Promise.all(inputs.map((input) => this.#embedOne(input, options.signal)));
  }

  /** Logits of every prompt token, [rows, vocabulary] row-major, f32. */
  async promptLogits(prompt: Prompt): Promise<{ logits: Float32Array; rows: number }> {
    const options = { maxTokens: 1, temperature: 0, requestId: randomUUID(), promptLogits: true };
    const active = await this.#start(prompt, options);
    const result = await collectResult(options.requestId, active.items);
    const logits = active.promptLogits;
    if (logits === null) throw new EngineError("ENGINE_STEP_FAILED", "Cannot read the logits");
    return { logits, rows: result.promptTokenIds.length };
  }

  async drain(): Promise<void> {
    if (this.#health.state === "ready") this.#health = { state: "draining" };
    if (this.#requests.size + this.#embeddings.size === 0) return;
    await new Promise<void>((resolve) => this.#onIdle.push(resolve));
  }

  /** Cancels what runs and frees the model. */
  async [Symbol.asyncDispose](): Promise<void> {
    const error = new EngineError("SHUTTING_DOWN", "Cannot go on: the model was closed");
    this.#failAll(error);
    if (this.#health.state !== "dead") this.#health = { state: "dead", reason: "closed" };
    await this.#link.close();
  }

  /** Checks a request, hands it to the engine, and registers it. */
  async #start(
    prompt: Prompt,
    options: GenerateOptions & { requestId: string; promptLogits?: boolean },
  ): Promise<ActiveRequest> {
    this.#checkAlive();
    options.signal?.throwIfAborted();
    const request = await this.#prepare(prompt, options);
    this.#checkAlive();
    options.signal?.throwIfAborted();
    const { requestId } = request;
    if (this.#requests.has(requestId)) {
      throw new EngineError("INVALID_ARGUMENT", `Cannot start ${requestId}: this id is running`, {
        param: "request_id",
      });
    }
    const onAbort = () => active.cancel(options.signal?.reason);
    const active = new ActiveRequest({
      request,
      tokenizer: this.#text.tokenizer,
      clock: this.#clock,
      listeners: this.#listeners,
      abort: (index) =>
        this.#link.post({ type: "abort", requestId, ...(index === undefined ? {} : { index }) }),
      onEnd: () => {
        options.signal?.removeEventListener("abort", onAbort);
        this.#requests.delete(requestId);
        this.#checkIdle();
      },
    });
    this.#requests.set(requestId, active);
    options.signal?.addEventListener("abort", onAbort, { once: true });
    this.#link.post({ type: "add", request });
    return active;
  }

  async #prepare(
    prompt: Prompt,
    options: GenerateOptions & { requestId: string; promptLogits?: boolean },
  ): Promise<EngineRequest> {
    const { signal, cacheSalt, priority, requestId, promptLogits, ...sampling } = options;
    const params = parseSampling(sampling, this.info.vocabularySize);
    if (params.stop.length > 0) this.#text.require("watch for stop strings");
    if (params.structuredOutput !== null) this.#text.require("constrain the output");
    const promptTokenIds = await this.#encode(prompt);
    return {
      requestId,
      promptTokenIds,
      params,
      seed: params.seed === null ? randomBytes(8).readBigUInt64LE() : BigInt(params.seed),
      cacheSalt: cacheSalt ?? null,
      priority: priority ?? 0,
      badWordTokenIds: this.#text.badWords(params.badWords),
      promptLogits: promptLogits ?? false,
    };
  }

  async #encode(prompt: Prompt): Promise<readonly number[]> {
    const ids = await this.#text.encode(prompt);
    checkTokenIds(ids, this.info.vocabularySize);
    return ids;
  }

  async #embedOne(input: Prompt, signal: AbortSignal | undefined): Promise<EmbedResult> {
    this.#checkAlive();
    const promptTokenIds = await this.#encode(input);
    signal?.throwIfAborted();
    const requestId = randomUUID();
    const onAbort = () => {
      this.#link.post({ type: "abort", requestId });
      this.#settle(requestId, { error: signal?.reason });
    };
    signal?.addEventListener("abort", onAbort, { once: true });
    try {
      const embedding = await new Promise<Float32Array>((resolve, reject) => {
        this.#embeddings.set(requestId, { resolve, reject });
        this.#link.post({ type: "embed", requestId, promptTokenIds });
      });
      return { embedding, promptTokenIds };
    } finally {
      signal?.removeEventListener("abort", onAbort);
    }
  }

  #receive(message: FromEngine, onWarning: ((message: string) => void) | undefined): void {
    switch (message.type) {
      case "step":
        this.#stats = message.stats;
        for (const output of message.outputs) this.#requests.get(output.requestId)?.accept(output);
        for (const listener of this.#listeners) listener.onStep?.(message.report, message.stats);
        break;
      case "stats":
        this.#stats = message.stats;
        break;
      case "embedding":
        this.#settle(message.requestId, { embedding: message.embedding });
        break;
      case "refused":
        this.#requests.get(message.requestId)?.fail(fromWire(message.error));
        this.#settle(message.requestId, { error: fromWire(message.error) });
        break;
      case "warning":
        onWarning?.(message.message);
        break;
      case "dead":
        this.#health = { state: "dead", reason: message.error.message };
        this.#failAll(fromWire(message.error));
        break;
      case "ready":
      case "closed":
        break;
    }
  }

  #settle(requestId: string, result: { embedding?: Float32Array; error?: unknown }): void {
    const pending = this.#embeddings.get(requestId);
    if (pending === undefined) return;
    this.#embeddings.delete(requestId);
    if (result.embedding === undefined) pending.reject(result.error);
    else pending.resolve(result.embedding);
    this.#checkIdle();
  }

  #failAll(error: EngineError): void {
    for (const active of [...this.#requests.values()]) active.fail(error);
    for (const requestId of [...this.#embeddings.keys()]) this.#settle(requestId, { error });
  }

  #checkIdle(): void {
    if (this.#requests.size + this.#embeddings.size > 0) return;
    const waiting = this.#onIdle;
    this.#onIdle = [];
    for (const resolve of waiting) resolve();
  }

  #checkAlive(): void {
    if (this.#health.state === "ready") return;
    if (this.#health.state === "draining") {
      throw new EngineError("SHUTTING_DOWN", "Cannot take new work: the server is shutting down");
    }
    throw new EngineError("ENGINE_DEAD", `Cannot run: the engine is gone (${this.#health.reason})`);
  }
}

function isList(prompts: Prompt | readonly Prompt[]): prompts is readonly Prompt[] {
  return Array.isArray(prompts);
}

function requestName(given: string | undefined, place: number, count: number): string {
  if (given === undefined) return randomUUID();
  return count === 1 ? given : `${given}-${place}`;
}

/** Hears the engine while it loads. */
function startListener(
  name: string,
  text: ModelText,
  resolve: (started: Started) => void,
  reject: (error: unknown) => void,
  onWarning: ((message: string) => void) | undefined,
): (message: FromEngine) => void {
  return (message) => {
    if (message.type === "warning") onWarning?.(message.message);
    if (message.type === "dead") reject(fromWire(message.error));
    if (message.type !== "ready") return;
    const hasTokenizer = text.tokenizer !== null;
    const hasChatTemplate = text.hasTemplate;
    const info: ModelInfo = { ...message.info, name, hasTokenizer, hasChatTemplate };
    resolve({ info, eosTokenIds: message.eosTokenIds, stats: message.stats });
  };
}
