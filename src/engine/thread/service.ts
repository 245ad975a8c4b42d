import { assert, type Clock, EngineError, messageOf, processClock, type Timer } from "#base";
import type { Engine } from "#engine/loop";
import {
  clientOf,
  engineDeath,
  type FromEngine,
  fromWire,
  Heartbeat,
  type LoadMessage,
  type RequestKey,
  type StepOutput,
  type ToEngine,
  toWire,
  warnOnce,
} from "#engine/protocol";
import { cacheStats } from "./cache-stats.ts";
import { loadEngine } from "./load-engine.ts";
import type { LoadedEngine } from "./loading.ts";
import { computesNothing } from "./memory-engine.ts";
import { ServiceClients } from "./service-clients.ts";

const NO_KV_EVENTS =
  "Cannot take a snapshot: the model must have a KV cache that records events, this one has " +
  "none; load it with eventBufferMax above 0";

const NO_CACHE =
  "Cannot look into the cache: the model must have one, this one has none; load a decoder";

/** How old the cache's posted statistics may be while steps run: posting them costs some 20 µs. */
const CACHE_STATS_INTERVAL_MS = 100;

/** Most time for queued disk writes at closing. Writes that have begun are always finished. */
const CLOSING_MS_MAX = 10_000;

/** Parts of an `EngineService`. */
export interface ServiceParts {
  readonly clock: Clock;
  readonly timer: Timer;
  /** Shows other threads whether turns end. Default: one that is not shared. */
  readonly heartbeat?: Heartbeat;
  /** Posts the engine's messages to the other side. */
  readonly post: (message: FromEngine) => void;
}

/**
 * The engine's side of the link: takes messages, runs steps while there is work, sleeps when there
 * is none, and posts the results of steps. Runs on any thread.
 */
export class EngineService {
  /** Settles when the engine was closed and its memory is free. */
  readonly closed: Promise<void>;
  readonly #clock: Clock;
  readonly #timer: Timer;
  readonly #heartbeat: Heartbeat;
  readonly #clients: ServiceClients;
  /** Passes on clients' warnings, each text once. */
  readonly #warn: (message: string) => void;
  #loaded: LoadedEngine | null = null;
  #running: Promise<void> = Promise.resolve();
  #closing = false;
  /** The engine failed, and `dead` was posted. */
  #dead = false;
  /** The error of a part of the engine in another process, without which no step can run. */
  #broken: EngineError | null = null;
  /** Something may have made work possible since the last check for it. */
  #woken = false;
  #wake: (() => void) | null = null;
  /** Statistics may have changed since they were last posted. */
  #statsStale = false;
  /** When the cache's statistics were posted. */
  #cacheStatsMs = Number.NEGATIVE_INFINITY;
  #markClosed: () => void = () => {};

  constructor({ clock, timer, post, heartbeat = new Heartbeat() }: ServiceParts) {
    this.#clock = clock;
    this.#timer = timer;
    this.#heartbeat = heartbeat;
    this.#clients = new ServiceClients(post, {
      onMessage: (message) => this.receive(message),
      onGone: (client) => this.#abortAll(client),
    });
    this.#warn = warnOnce((text) => this.#clients.post({ type: "warning", message: text }));
    this.closed = new Promise((resolve) => {
      this.#markClosed = resolve;
    });
  }

  receive(message: ToEngine): void {
    if (message.type === "close") {
      void this.#close();
      return;
    }
    if (message.type === "load") {
      this.#running = this.#run(message);
      return;
    }
    if (message.type === "connect") {
      this.#clients.connect(message.client, message.port);
      return;
    }
    if (message.type === "warn") {
      this.#warn(message.message);
      return;
    }
    this.#statsStale = true;
    // A request may get stuck before any step includes it.
    if (this.#wake !== null) this.#beat();
    switch (message.type) {
      case "vocabulary":
        this.#loaded?.generator?.useVocabulary(message.vocabulary);
        break;
      case "add":
        this.#try(message.request.key, (loaded) => {
          const generator = generatorOf(loaded);
          (loaded.exchange ?? generator).add(message.request);
        });
        break;
      case "embed":
        this.#try(message.request.key, ({ engine }) => engine.addEmbedding(message.request));
        break;
      case "abort":
        this.#abort(message.key, message.index);
        break;
      case "pause":
      case "resume":
        this.#loaded?.generator?.setPaused(message.key, message.type === "pause");
        break;
      case "kvSnapshot":
        this.#try(message.key, (loaded) => this.#postSnapshot(message.key, loaded));
        break;
      case "look":
        this.#try(message.key, (loaded) => this.#look(message, loaded));
        break;
      case "forgetCached":
        this.#try(message.key, (loaded) => this.#forgetCached(message.key, loaded));
        break;
      case "fill":
        this.#try(message.key, (loaded) => fill(message, loaded));
        break;
      default:
        // Built from other sources than the sender: an error is better than silence.
        assert(false, "Cannot take a message of no known type: run npm run build");
    }
    this.#notify();
  }

  /** Aborts all requests of a client whose thread ended. */
  #abortAll(client: number): void {
    const keys = [...(this.#loaded?.engine.keys ?? []), ...(this.#loaded?.exchange?.keys ?? [])];
    for (const key of keys) if (clientOf(key) === client) this.#abort(key);
    this.#statsStale = true;
    this.#notify();
  }

  #abort(key: RequestKey, index?: number): void {
    const waited = index === undefined && this.#loaded?.exchange?.abort(key) === true;
    if (!waited) this.#loaded?.engine.abort(key, index);
  }

  /** Refuses a request that cannot be taken; all others continue. */
  #try(key: RequestKey, add: (loaded: LoadedEngine) => void): void {
    try {
      if (this.#loaded === null) {
        throw new EngineError("ENGINE_DEAD", "Cannot take a request: no model is loaded");
      }
      add(this.#loaded);
    } catch (error) {
      this.#clients.post({ type: "refused", key, error: toWire(error) });
    }
  }

  async #run(message: LoadMessage): Promise<void> {
    const loaded = await this.#load(message);
    if (loaded === null) return;
    this.#loaded = loaded;
    this.#postCacheStats(loaded);
    const { info, engine, phases } = loaded;
    this.#clients.post({ type: "ready", info, stats: engine.stats(), phases });
    this.#postEvents(loaded);
    try {
      while (!this.#closing) await this.#turn(loaded);
    } catch (error) {
      // Inconsistent bookkeeping, or a device that broke: the engine must not go on.
      this.#dead = true;
      this.#clients.post({ type: "dead", error: engineDeath("the engine failed", error) });
    }
  }

  async #load(message: LoadMessage): Promise<LoadedEngine | null> {
    try {
      return await loadEngine(message, {
        clock: this.#clock,
        timer: this.#timer,
        warn: (text) => this.#clients.post({ type: "warning", message: text }),
        onPeerServed: (kvByteSeconds) => this.#clients.post({ type: "peerServed", kvByteSeconds }),
        onProgress: (progress) => this.#clients.post({ type: "loading", progress }),
        onWake: () => {
          this.#statsStale = true;
          this.#notify();
        },
        onBroken: (error) => {
          this.#broken = error;
          this.#notify();
        },
      });
    } catch (error) {
      this.#clients.post({ type: "dead", error: toWire(error) });
      return null;
    }
  }

  async #turn(loaded: LoadedEngine): Promise<void> {
    const { engine } = loaded;
    this.#woken = false;
    // What changes while the step runs is told by the next turn.
    const isStale = this.#statsStale;
    this.#statsStale = false;
    this.#beat();
    const step = await engine.step();
    // What a step lost is told first, where one was under way.
    if (step === null && this.#broken !== null) throw this.#broken;
    await this.#exchange(loaded, step);
    this.#postEvents(loaded);
    if (step !== null) {
      const stats = engine.stats();
      const isLast = stats.running + stats.waiting === 0;
      const elapsedMs = this.#clock.nowMs() - this.#cacheStatsMs;
      if (isLast || elapsedMs >= CACHE_STATS_INTERVAL_MS) this.#postCacheStats(loaded);
      this.#clients.postStep(step, stats);
      throwIfDeviceBroke(step);
      // Lets messages in: cancellations take effect within one step.
      await new Promise((resolve) => setImmediate(resolve));
      return;
    }
    if (isStale) {
      this.#postCacheStats(loaded);
      this.#clients.post({ type: "stats", stats: engine.stats() });
    }
    await this.#sleep();
  }

  /** Blocks that travel: those that the step computed may go, and those that came may be used. */
  async #exchange({ exchange, generator }: LoadedEngine, step: StepOutput | null): Promise<void> {
    if (exchange === null) return;
    for (const refused of exchange.turn(step)) {
      this.#clients.post({ type: "refused", ...refused });
    }
    for (const { key, result, error } of exchange.takeEndedFills()) {
      if (error === null) this.#clients.post({ type: "filled", key, result });
      else this.#clients.post({ type: "refused", key, error: toWire(error) });
    }
    if (!exchange.hasJobs) return;
    // Another engine waits for them: before the step's results are passed on.
    if (generator !== null) await generator.moveBlocks();
    else this.#woken = true;
  }

  #postCacheStats({ memory, info, stages }: LoadedEngine): void {
    if (memory === null) return;
    this.#cacheStatsMs = this.#clock.nowMs();
    const stats = cacheStats(memory, info.bytesPerBlock);
    this.#clients.post({ type: "cacheStats", stats, stages: stages?.times ?? [] });
  }

  /** Posts the cache's events since the last call: once a step, and after changes in between. */
  #postEvents({ kvEvents }: LoadedEngine): void {
    const events = kvEvents?.takeEvents() ?? [];
    if (events.length > 0) this.#clients.post({ type: "kvEvents", events });
  }

  /** The events that a snapshot contains are posted first: readers continue after it. */
  #postSnapshot(key: RequestKey, loaded: LoadedEngine): void {
    this.#postEvents(loaded);
    const snapshot = loaded.kvEvents?.snapshot() ?? null;
    if (snapshot === null) throw new EngineError("INVALID_ARGUMENT", NO_KV_EVENTS);
    this.#clients.post({ type: "kvSnapshot", key, snapshot });
  }

  #look({ key, ask }: Extract<ToEngine, { type: "look" }>, { kvEvents }: LoadedEngine): void {
    if (kvEvents === null) throw new EngineError("INVALID_ARGUMENT", NO_CACHE);
    const startedMs = this.#clock.nowMs();
    const look = kvEvents.look(ask);
    const tookMs = this.#clock.nowMs() - startedMs;
    this.#clients.post({ type: "looked", key, look: { ...look, tookMs } });
  }

  /** Between steps: blocks of steps that have begun are held. */
  #forgetCached(key: RequestKey, loaded: LoadedEngine): void {
    loaded.kvEvents?.forgetCached();
    this.#postEvents(loaded);
    this.#clients.post({ type: "forgotten", key });
  }

  /** Sleeps until the next message, grammar or close. Uses no processor time. */
  async #sleep(): Promise<void> {
    if (this.#closing || this.#woken) return;
    this.#heartbeat.rest();
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
  }

  #beat(): void {
    this.#heartbeat.beat(processClock.nowMs());
  }

  #notify(): void {
    this.#woken = true;
    const wake = this.#wake;
    this.#wake = null;
    wake?.();
  }

  async #close(): Promise<void> {
    this.#closing = true;
    this.#heartbeat.rest();
    this.#notify();
    await this.#running;
    const loaded = this.#loaded;
    this.#loaded = null;
    if (loaded !== null) await this.#unload(loaded);
    this.#clients.close();
    this.#markClosed();
  }

  /**
   * Closes each part even if another one fails: after a failure the bookkeeping may be
   * inconsistent.
   */
  async #unload({ engine, exchange, memory, stages, device }: LoadedEngine): Promise<void> {
    const stop = new AbortController();
    let cancel = () => {};
    let isSound = !this.#dead;
    const parts = [
      () => exchange?.close(),
      () => engine.dispose(),
      // After a failure the contents of blocks are unknown.
      () => (isSound ? this.#flush(memory) : undefined),
      () => {
        cancel = this.#timer.after(CLOSING_MS_MAX, () => stop.abort());
      },
      // Their parts of blocks are not sent any more, which memory waits for.
      () => stages?.close(),
      () => memory?.close(stop.signal),
      // Last: files are written from its memory.
      () => device.dispose(),
    ];
    for (const close of parts) {
      try {
        await close();
      } catch (error) {
        isSound = false;
        // Already reported, and memory of a broken device is freed with the process.
        if (this.#dead && isDeviceFailure(error)) continue;
        const message = `Cannot close the engine in good order: ${messageOf(error)}`;
        this.#clients.post({ type: "warning", message });
      }
    }
    cancel();
  }

  /** Writes what is cached to disk. */
  async #flush(memory: LoadedEngine["memory"]): Promise<void> {
    const report = (await memory?.flush?.()) ?? null;
    if (report !== null) this.#clients.post({ type: "flushed", report });
  }
}

/** Throws INVALID_ARGUMENT for an encoder, and for memory alone: they generate nothing. */
function generatorOf({ generator, info }: LoadedEngine): Engine {
  if (generator !== null) return generator;
  if (info.kind === "decoder") throw computesNothing("generate");
  throw new EngineError(
    "INVALID_ARGUMENT",
    "Cannot generate: the model must be a decoder, this one is an encoder (embeddings only)",
    { param: "model" },
  );
}

/** Throws as `KvExchange.fill` does. */
function fill({ key, fill }: FillMessage, { exchange }: LoadedEngine): void {
  if (exchange !== null) exchange.fill(key, fill);
  else throw new EngineError("INVALID_ARGUMENT", "Cannot fetch blocks: kvTransfer must be on");
}

type FillMessage = Extract<ToEngine, { type: "fill" }>;

/** Throws where the device broke: later steps would fail, or be wrong. */
function throwIfDeviceBroke({ failures }: StepOutput): void {
  const failure = failures.find(({ error }) => error.code === "DEVICE_FAILED");
  if (failure !== undefined) throw fromWire(failure.error);
}

function isDeviceFailure(error: unknown): boolean {
  return error instanceof EngineError && error.code === "DEVICE_FAILED";
}
