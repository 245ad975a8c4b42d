import { MessageChannel, type MessagePort } from "node:worker_threads";
import { EngineError, processClock, systemTimer } from "#base";
import {
  type EmbedRequest,
  type EngineHealth,
  type EngineListener,
  type EngineRequest,
  type EngineStats,
  FIRST_CLIENT,
  type FromEngine,
  firstKeyOf,
  forEachRow,
  fromWire,
  type KvFillOptions,
  type KvFillResult,
  type LoadMessage,
  type LoadProgress,
  type LoopStats,
  type ReadyMessage,
  type RequestKey,
  type StepMessage,
  type TimedLook,
  type ToEngine,
} from "#engine/protocol";
import { type CacheAsk, KvEventLog, type KvSnapshot } from "#kvcache";
import type { GrammarVocabulary } from "#tokenizer";
import { listenTo } from "./abort-listener.ts";
import type { ActiveRequest } from "./active-request.ts";
import type { EngineLink, OpenLink } from "./link.ts";
import { Pacer } from "./pacer.ts";
import { PendingAsks } from "./pending-asks.ts";

interface PendingEmbedding {
  readonly resolve: (embedding: Float32Array) => void;
  readonly reject: (error: unknown) => void;
}

/** One client's connection to an engine: its number, and a port to be transferred. */
export interface EnginePort {
  readonly client: number;
  readonly port: MessagePort;
}

/** Result of loading. */
export type LoadedInfo = Pick<ReadyMessage, "info" | "phases">;

interface PendingLoad {
  readonly resolve: (loaded: LoadedInfo) => void;
  readonly reject: (error: EngineError) => void;
}

const NO_STATS: EngineStats = {
  running: 0,
  waiting: 0,
  paused: 0,
  uncomputedTokens: 0,
  freeBlocks: 0,
  heldBlocks: 0,
  cachedBlocks: 0,
  totalBlocks: 0,
  steps: 0,
  preemptions: 0,
  promptTokens: 0,
  cachedPromptTokens: 0,
  computedPromptTokens: 0,
  generatedTokens: 0,
  ...{ drafts: 0, draftedTokens: 0, acceptedTokens: 0, acceptedPerPosition: [] },
  prefixQueriedTokens: 0,
  prefixHitTokens: 0,
  swapPreemptions: 0,
  forks: 0,
  loads: 0,
  cache: null,
  stages: [],
};

/**
 * The caller's side of the link: passes each message of the engine to its request. The engine keeps
 * the process alive only while it loads or answers are pending.
 */
export class EngineClient {
  readonly listeners = new Set<EngineListener>();
  /** One for all requests: their readers share this thread. */
  readonly pacer: Pacer = new Pacer(systemTimer);
  /** Events of the cache; ends with the engine. */
  readonly kvEvents: KvEventLog;
  readonly #link: EngineLink;
  readonly #onWarning: (message: string) => void;
  readonly #onProgress: (progress: LoadProgress) => void;
  readonly #requests = new Map<RequestKey, ActiveRequest>();
  readonly #embeddings = new Map<RequestKey, PendingEmbedding>();
  readonly #snapshots = new PendingAsks<KvSnapshot>();
  readonly #looks = new PendingAsks<TimedLook>();
  readonly #forgettings = new PendingAsks<void>();
  readonly #fills = new PendingAsks<KvFillResult>();
  #loading: PendingLoad | null = null;
  #health: EngineHealth = { state: "ready" };
  #stats: EngineStats = NO_STATS;
  #nextKey: RequestKey;
  /** The number of the client that was connected last. */
  #newestClient = FIRST_CLIENT;
  #onIdle: (() => void)[] = [];

  /** Opens the link at once; `load` specifies the model later. */
  constructor(
    open: OpenLink,
    onWarning: (message: string) => void,
    kvEvents = new KvEventLog(),
    onProgress: (progress: LoadProgress) => void = () => {},
    client = FIRST_CLIENT,
  ) {
    this.#nextKey = firstKeyOf(client);
    this.#onWarning = onWarning;
    this.#onProgress = onProgress;
    this.kvEvents = kvEvents;
    this.#link = open((message) => this.#receive(message));
  }

  get health(): EngineHealth {
    return this.#health;
  }

  /** How long the engine's current turn has taken, in ms; 0 while it is idle. */
  get turnMs(): number {
    return this.#link.heartbeat?.turnMs(processClock.nowMs()) ?? 0;
  }

  get stats(): EngineStats {
    return this.#stats;
  }

  /** Rejects with what opening and loading throw. */
  async load(message: LoadMessage): Promise<LoadedInfo> {
    const loaded = await new Promise<LoadedInfo>((resolve, reject) => {
      this.#loading = { resolve, reject };
      this.#link.post(message);
    });
    this.#link.keepAlive(false);
    return loaded;
  }

  /**
   * A connection to the engine for a client on another thread. Its requests end when its port
   * closes, as it does when its thread ends. Throws as `checkReady` does.
   */
  connect(): EnginePort {
    this.checkReady();
    const { port1, port2 } = new MessageChannel();
    const client = ++this.#newestClient;
    this.#link.post({ type: "connect", client, port: port1 });
    return { client, port: port2 };
  }

  /** Reports a warning through the client that loaded the model. */
  warn(message: string): void {
    if (this.#health.state !== "dead") this.#link.post({ type: "warn", message });
  }

  /** A new request key, never reused. */
  takeKey(): RequestKey {
    return this.#nextKey++;
  }

  /** Throws SHUTTING_DOWN or ENGINE_DEAD unless new work is taken. */
  checkReady(): void {
    if (this.#health.state === "ready") return;
    if (this.#health.state === "draining") {
      throw new EngineError("SHUTTING_DOWN", "Cannot take new work: the server is shutting down");
    }
    throw new EngineError(
      "ENGINE_DEAD",
      `Cannot run: the engine has stopped (${this.#health.reason}); load the model again`,
    );
  }

  /** Must precede the first request with structured output. */
  sendVocabulary(vocabulary: GrammarVocabulary): void {
    this.#link.post({ type: "vocabulary", vocabulary });
  }

  /**
   * Registers a request and posts it to the engine, with its token ids. Call `forget` when it has
   * ended.
   */
  start(active: ActiveRequest, request: EngineRequest): void {
    this.#requests.set(request.key, active);
    this.#link.keepAlive(true);
    this.#link.post({ type: "add", request });
  }

  /** Aborts one sequence of a request, or all; no effect after they have ended. */
  abort(key: RequestKey, index?: number): void {
    if (this.#health.state === "dead") return;
    this.#link.post({ type: "abort", key, ...(index === undefined ? {} : { index }) });
  }

  /** Pauses a request whose reader lags, or resumes it; no effect after it has ended. */
  setPaused(key: RequestKey, paused: boolean): void {
    if (this.#health.state === "dead") return;
    this.#link.post({ type: paused ? "pause" : "resume", key });
  }

  /** Unregisters a request that has ended. */
  forget(key: RequestKey): void {
    this.#requests.delete(key);
    this.#checkIdle();
  }

  /** Embeds a text. Its ids are posted. Rejects with the signal's reason if that comes first. */
  async embed(
    promptTokenIds: EmbedRequest["promptTokenIds"],
    signal?: AbortSignal,
    more: Omit<EmbedRequest, "key" | "promptTokenIds"> = {},
  ): Promise<Float32Array> {
    signal?.throwIfAborted();
    const key = this.takeKey();
    const onAbort = () => {
      this.abort(key);
      this.#settle(key, { error: signal?.reason });
    };
    listenTo(signal, onAbort);
    try {
      return await new Promise<Float32Array>((resolve, reject) => {
        this.#embeddings.set(key, { resolve, reject });
        this.#link.keepAlive(true);
        this.#link.post({ type: "embed", request: { ...more, key, promptTokenIds } });
      });
    } finally {
      signal?.removeEventListener("abort", onAbort);
    }
  }

  /** The cache's contents now. Rejects where it emits no events, and when the engine is gone. */
  async kvSnapshot(): Promise<KvSnapshot> {
    if (this.#health.state === "dead") this.checkReady();
    return this.#ask(this.#snapshots, (key) => ({ type: "kvSnapshot", key }));
  }

  /** What the cache has where. Rejects without a cache, and when the engine is gone. */
  async look(ask: CacheAsk): Promise<TimedLook> {
    if (this.#health.state === "dead") this.checkReady();
    return this.#ask(this.#looks, (key) => ({ type: "look", key, ask }));
  }

  /** Forgets cached blocks; those that are held stay. Rejects when the engine is gone. */
  async forgetCached(): Promise<void> {
    if (this.#health.state === "dead") this.checkReady();
    return this.#ask(this.#forgettings, (key) => ({ type: "forgetCached", key }));
  }

  /** Fetches blocks for later requests. Rejects where they cannot be, and when the engine ends. */
  async fill({ promptTokenIds, ...rest }: KvFillOptions): Promise<KvFillResult> {
    this.checkReady();
    const fill = { ...rest, promptTokenIds: Int32Array.from(promptTokenIds) };
    return this.#ask(this.#fills, (key) => ({ type: "fill", key, fill }));
  }

  /** Takes no new work; settles when all pending requests have ended. */
  async drain(): Promise<void> {
    if (this.#health.state === "ready") this.#health = { state: "draining" };
    if (this.#waitingCount() === 0) return;
    await new Promise<void>((resolve) => this.#onIdle.push(resolve));
  }

  /** Fails pending requests and frees the engine. */
  async close(): Promise<void> {
    this.#failAll(new EngineError("SHUTTING_DOWN", "Cannot continue: the model was closed"));
    this.kvEvents.close();
    if (this.#health.state !== "dead") this.#health = { state: "dead", reason: "closed" };
    await this.#link.close();
  }

  #receive(message: FromEngine): void {
    switch (message.type) {
      case "ready":
        this.#update(message.stats);
        this.#loading?.resolve(message);
        break;
      case "step":
        this.#deliver(message);
        break;
      case "stats":
        this.#update(message.stats);
        break;
      case "cacheStats":
        this.#stats = { ...this.#stats, cache: message.stats, stages: message.stages };
        break;
      case "refused":
        this.#fail(message.key, fromWire(message.error));
        break;
      case "kvEvents":
        this.kvEvents.append(message.events, processClock.nowMs());
        break;
      case "kvSnapshot":
        this.#snapshots.answer(message.key, message.snapshot);
        this.#checkIdle();
        break;
      case "looked":
        this.#looks.answer(message.key, message.look);
        this.#checkIdle();
        break;
      case "forgotten":
        this.#forgettings.answer(message.key);
        this.#checkIdle();
        break;
      case "filled":
        this.#fills.answer(message.key, message.result);
        this.#checkIdle();
        break;
      case "peerServed":
        for (const one of this.listeners) one.onPeerServed?.(message.kvByteSeconds);
        break;
      case "flushed":
        for (const one of this.listeners) one.onFlushed?.(message.report);
        break;
      case "warning":
        this.#onWarning(message.message);
        break;
      case "loading":
        this.#onProgress(message.progress);
        break;
      case "dead":
        this.#die(fromWire(message.error));
        break;
    }
  }

  #update(stats: LoopStats): void {
    this.#stats = { ...this.#stats, ...stats };
  }

  #deliver({ stats, outputs, tokenRows, embeddings, failures, report }: StepMessage): void {
    this.#update(stats);
    for (const output of outputs) this.#requests.get(output.key)?.accept(output);
    forEachRow(tokenRows, (key, index, tokenId, heldBlockMs) => {
      this.#requests.get(key)?.acceptToken(index, tokenId, heldBlockMs);
    });
    for (const { key, embedding } of embeddings) this.#settle(key, { embedding });
    for (const { key, error } of failures) this.#fail(key, fromWire(error));
    if (report.sequences === 0) return;
    for (const listener of this.listeners) listener.onStep?.(report, this.#stats);
  }

  #die(error: EngineError): void {
    this.#health = { state: "dead", reason: error.message };
    this.#stats = { ...this.#stats, running: 0, waiting: 0, heldBlocks: 0 };
    this.#loading?.reject(error);
    this.#failAll(error);
    this.kvEvents.close();
    for (const listener of this.listeners) listener.onDead?.(error);
  }

  #fail(key: RequestKey, error: EngineError): void {
    this.#requests.get(key)?.fail(error);
    this.#settle(key, { error });
    for (const asks of this.#asks) asks.fail(key, error);
    this.#checkIdle();
  }

  #failAll(error: EngineError): void {
    for (const active of [...this.#requests.values()]) active.fail(error);
    const others = [this.#embeddings, ...this.#asks];
    for (const key of others.flatMap((pending) => [...pending.keys()])) this.#fail(key, error);
  }

  #settle(key: RequestKey, result: { embedding: Float32Array } | { error: unknown }): void {
    const pending = this.#embeddings.get(key);
    if (pending === undefined) return;
    this.#embeddings.delete(key);
    if ("embedding" in result) pending.resolve(result.embedding);
    else pending.reject(result.error);
    this.#checkIdle();
  }

  get #asks() {
    return [this.#snapshots, this.#looks, this.#forgettings, this.#fills] as const;
  }

  #ask<Answer>(asks: PendingAsks<Answer>, message: (key: RequestKey) => ToEngine) {
    const key = this.takeKey();
    return asks.ask(key, () => {
      this.#link.keepAlive(true);
      this.#link.post(message(key));
    });
  }

  /** Requests and questions without an answer yet. */
  #waitingCount(): number {
    const asks = this.#asks.reduce((sum, { size }) => sum + size, 0);
    return this.#requests.size + this.#embeddings.size + asks;
  }

  #checkIdle(): void {
    if (this.#waitingCount() > 0) return;
    this.#link.keepAlive(false);
    const waiting = this.#onIdle;
    this.#onIdle = [];
    for (const resolve of waiting) resolve();
  }
}
