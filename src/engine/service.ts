import type { Clock } from "#base";
import { type LoadedEngine, loadEngine } from "./load-engine.ts";
import type { FromEngine, LoadMessage, ToEngine } from "./protocol.ts";
import { toWire } from "./wire-error.ts";

/**
 * The engine's side of the link: takes messages, runs steps while there is work, sleeps when there
 * is none, and posts what steps bring. Runs on any thread.
 */
export class EngineService {
  /** Settles when the engine was closed and its memory is free. */
  readonly closed: Promise<void>;
  readonly #clock: Clock;
  readonly #post: (message: FromEngine) => void;
  #loaded: LoadedEngine | null = null;
  #loading: Promise<void> | null = null;
  #closing = false;
  #wake: (() => void) | null = null;
  #notified = false;
  #markClosed: () => void = () => {};

  constructor(clock: Clock, post: (message: FromEngine) => void) {
    this.#clock = clock;
    this.#post = post;
    this.closed = new Promise((resolve) => {
      this.#markClosed = resolve;
    });
  }

  receive(message: ToEngine): void {
    switch (message.type) {
      case "load":
        this.#loading = this.#run(message);
        break;
      case "add":
        this.#try(message.request.requestId, ({ engine }) => engine.add(message.request));
        break;
      case "embed":
        this.#try(message.requestId, ({ engine }) =>
          engine.addEmbedding(message.requestId, message.promptTokenIds),
        );
        break;
      case "abort":
        this.#loaded?.engine.abort(message.requestId, message.index);
        break;
      case "close":
        void this.#close();
        break;
    }
    this.#notify();
  }

  /** Refuses the one request that cannot be taken; everything else goes on. */
  #try(requestId: string, add: (loaded: LoadedEngine) => void): void {
    try {
      if (this.#loaded !== null) add(this.#loaded);
    } catch (error) {
      this.#post({ type: "refused", requestId, error: toWire(error) });
    }
  }

  /** Loads, then steps until closed. What escapes from here is the end of the engine. */
  async #run(message: LoadMessage): Promise<void> {
    try {
      const loaded = await loadEngine(message, {
        clock: this.#clock,
        warn: (text) => this.#post({ type: "warning", message: text }),
        onWake: () => this.#notify(),
      });
      this.#loaded = loaded;
      const { info, eosTokenIds } = loaded;
      this.#post({ type: "ready", info, eosTokenIds, stats: loaded.engine.stats() });
      while (!this.#closing) await this.#turn(loaded);
    } catch (error) {
      this.#post({ type: "dead", error: toWire(error) });
    }
  }

  async #turn({ engine }: LoadedEngine): Promise<void> {
    const step = engine.busy ? await engine.step() : null;
    if (step === null) {
      // Cancellations change the books without a step.
      this.#post({ type: "stats", stats: engine.stats() });
      await this.#sleep();
      return;
    }
    for (const { requestId, embedding } of step.embeddings) {
      this.#post({ type: "embedding", requestId, embedding });
    }
    const { outputs, report } = step;
    this.#post({ type: "step", outputs, report, stats: engine.stats() });
    // Lets messages in: cancellations take effect within one step.
    await new Promise((resolve) => setImmediate(resolve));
  }

  /** Until the next message, grammar or close. Uses no processor time. */
  async #sleep(): Promise<void> {
    if (!this.#notified && !this.#closing) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    this.#notified = false;
  }

  /** Ends the sleep, or the one that is about to begin. */
  #notify(): void {
    this.#notified = true;
    const wake = this.#wake;
    this.#wake = null;
    wake?.();
  }

  async #close(): Promise<void> {
    this.#closing = true;
    this.#notify();
    await this.#loading;
    await this.#loaded?.engine.dispose();
    this.#loaded?.device.dispose();
    this.#loaded = null;
    this.#post({ type: "closed" });
    this.#markClosed();
  }
}
