import { type MessagePort, type Transferable, Worker } from "node:worker_threads";
import { EngineError, messageOf } from "#base";
import {
  engineDeath,
  type FromEngine,
  Heartbeat,
  type RequestKey,
  type ToEngine,
  toWire,
} from "#engine/protocol";

/** A connection to an engine. */
export interface EngineLink {
  /** The engine's heartbeat, where this link started the engine. */
  readonly heartbeat?: Heartbeat;
  post(message: ToEngine): void;
  /** Sets whether the engine keeps the process alive. Initially it does. */
  keepAlive(wanted: boolean): void;
  /**
   * Ends the engine, or the connection of a later client; running requests are lost. May be called
   * repeatedly, also after the engine died.
   */
  close(): Promise<void>;
}

/** Opens a link to an engine. `onMessage` receives all its messages, a crash included (`dead`). */
export type OpenLink = (onMessage: (message: FromEngine) => void) => EngineLink;

/** Node 20 cannot run TypeScript: from source, the thread runs the built file. */
function threadUrl(): URL {
  const fromSource = import.meta.url.endsWith(".ts");
  return new URL(
    fromSource ? "../../../dist/engine/thread/engine-thread.js" : "../thread/engine-thread.js",
    import.meta.url,
  );
}

/** An engine in a worker thread, so that a step never blocks a stream. */
export function openThread(onMessage: (message: FromEngine) => void): EngineLink {
  const heartbeat = new Heartbeat();
  const name = "perigee-engine";
  const worker = new Worker(threadUrl(), { name, execArgv: [], workerData: heartbeat.buffer });
  const exited = new Promise<void>((resolve) => worker.once("exit", () => resolve()));
  let over = false;
  const died = (reason: string, cause?: unknown) => {
    if (over) return;
    over = true;
    onMessage({ type: "dead", error: engineDeath(reason, cause) });
  };
  const outbox = new Outbox(worker, onMessage);
  worker.on("message", onMessage);
  worker.on("error", (error) => died("the engine thread failed", error));
  worker.on("exit", (code) => died(`the engine thread ended with code ${code}`));
  return {
    heartbeat,
    post: (message) => outbox.post(message),
    keepAlive: (wanted) => {
      // `close` awaits the exit: a load that completes meanwhile must not let the process end.
      if (over) return;
      if (wanted) worker.ref();
      else worker.unref();
    },
    close: () => {
      over = true;
      // The returned promise settles even when nothing else keeps the process alive.
      worker.ref();
      outbox.post({ type: "close" });
      return exited;
    },
  };
}

/** The link of a client that another client connected: its own port to the engine. */
export function linkOver(port: MessagePort): OpenLink {
  return (onMessage) => {
    let over = false;
    const outbox = new Outbox(port, onMessage);
    const closed = new Promise<void>((resolve) => port.once("close", () => resolve()));
    port.on("message", onMessage);
    void closed.then(() => {
      if (over) return;
      over = true;
      onMessage({
        type: "dead",
        error: engineDeath("the connection to the engine thread was closed"),
      });
    });
    return {
      post: (message) => outbox.post(message),
      keepAlive: (wanted) => (wanted ? port.ref() : port.unref()),
      close: () => {
        over = true;
        outbox.flush();
        port.close();
        return closed;
      },
    };
  };
}

/** A worker or a port. */
interface Postbox {
  postMessage(messages: readonly ToEngine[], transfer?: readonly Transferable[]): void;
}

/**
 * Posts messages in order. Requests that are made together arrive together, so that one step begins
 * with them all.
 */
class Outbox {
  readonly #box: Postbox;
  readonly #onMessage: (message: FromEngine) => void;
  readonly #requests: RequestMessage[] = [];

  constructor(box: Postbox, onMessage: (message: FromEngine) => void) {
    this.#box = box;
    this.#onMessage = onMessage;
  }

  post(message: ToEngine): void {
    if (message.type === "add" || message.type === "embed") {
      if (this.#requests.push(message) === 1) queueMicrotask(() => this.flush());
      return;
    }
    this.flush();
    if (message.type === "connect") this.#box.postMessage([message], [message.port]);
    else this.#box.postMessage([message]);
  }

  /** Posts the collected requests. */
  flush(): void {
    const messages = this.#requests.splice(0);
    if (messages.length === 0) return;
    for (const { key, error } of postAll(this.#box, messages)) {
      // Each in its own microtask: a listener that throws does not affect the others.
      queueMicrotask(() => this.#onMessage({ type: "refused", key, error: toWire(error) }));
    }
  }
}

type RequestMessage = Extract<ToEngine, { readonly type: "add" | "embed" }>;

/** Posts requests; returns those with values that cannot be cloned to another thread. */
function postAll(
  box: Postbox,
  messages: readonly RequestMessage[],
): { readonly key: RequestKey; readonly error: EngineError }[] {
  // Prompts are not copied: each message has an array of its own. Where posting throws, it stays.
  const prompts = messages.map(({ request }) => request.promptTokenIds.buffer);
  try {
    box.postMessage(messages, prompts);
    return [];
  } catch (error) {
    const [only, ...others] = messages;
    if (only === undefined || others.length > 0) {
      return messages.flatMap((message) => postAll(box, [message]));
    }
    return [{ key: only.request.key, error: uncrossable(error) }];
  }
}

function uncrossable(cause: unknown): EngineError {
  const message = `Cannot take the request: it must be of plain values, ${messageOf(cause)}`;
  return new EngineError("INVALID_ARGUMENT", message, { cause });
}
