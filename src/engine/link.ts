import { Worker } from "node:worker_threads";
import { EngineError, messageOf, systemClock, systemTimer } from "#base";
import type { FromEngine, RequestKey, ToEngine } from "./protocol.ts";
import { EngineService } from "./service.ts";
import { engineDeath, toWire } from "./wire-error.ts";

/** The way to an engine and back. */
export interface EngineLink {
  post(message: ToEngine): void;
  /** Whether the engine keeps the process alive. At first it does. */
  keepAlive(wanted: boolean): void;
  /** Ends the engine; what still runs is lost. Any number of times, also after it died. */
  close(): Promise<void>;
}

/** Starts an engine. `onMessage` hears everything it says, a crash included (`dead`). */
export type OpenLink = (onMessage: (message: FromEngine) => void) => EngineLink;

/** An engine in a worker thread, so that a step never blocks a stream, or on this thread. */
export function linkTo(thread: "worker" | "calling"): OpenLink {
  return thread === "worker" ? openThread : openInline;
}

/** Node 20 cannot run TypeScript: from source, the thread runs the built file. */
function threadUrl(): URL {
  const fromSource = import.meta.url.endsWith(".ts");
  return new URL(
    fromSource ? "../../dist/engine/engine-thread.js" : "./engine-thread.js",
    import.meta.url,
  );
}

function openThread(onMessage: (message: FromEngine) => void): EngineLink {
  const worker = new Worker(threadUrl(), { name: "perigee-engine", execArgv: [] });
  const exited = new Promise<void>((resolve) => worker.once("exit", () => resolve()));
  let over = false;
  const died = (reason: string, cause?: unknown) => {
    if (over) return;
    over = true;
    onMessage({ type: "dead", error: engineDeath(reason, cause) });
  };
  const outbox: RequestMessage[] = [];
  const flush = () => {
    const messages = outbox.splice(0);
    if (messages.length === 0) return;
    for (const { key, error } of postAll(worker, messages)) {
      // Each on its own: a listener that throws keeps nothing from the others.
      queueMicrotask(() => onMessage({ type: "refused", key, error: toWire(error) }));
    }
  };
  worker.on("message", onMessage);
  worker.on("error", (error) => died("the engine thread failed", error));
  worker.on("exit", (code) => died(`the engine thread ended with code ${code}`));
  return {
    // Requests that are made together arrive together, so that one step begins with them all.
    post: (message) => {
      if (message.type === "add" || message.type === "embed") {
        if (outbox.push(message) === 1) queueMicrotask(flush);
        return;
      }
      flush();
      worker.postMessage([message]);
    },
    keepAlive: (wanted) => {
      // Who closes waits for the end: what loading still reports must not let the process go.
      if (over) return;
      if (wanted) worker.ref();
      else worker.unref();
    },
    close: () => {
      over = true;
      // Whoever waits for the end hears of it, also when nothing else keeps the process alive.
      worker.ref();
      flush();
      worker.postMessage([{ type: "close" }] satisfies ToEngine[]);
      return exited;
    },
  };
}

type RequestMessage = Extract<ToEngine, { readonly type: "add" | "embed" }>;

/** Posts requests; gives those with values that do not cross to another thread. */
function postAll(
  worker: Worker,
  messages: readonly RequestMessage[],
): { readonly key: RequestKey; readonly error: EngineError }[] {
  try {
    worker.postMessage(messages);
    return [];
  } catch (error) {
    const [only, ...others] = messages;
    if (only === undefined || others.length > 0) {
      return messages.flatMap((message) => postAll(worker, [message]));
    }
    return [{ key: only.request.key, error: uncrossable(error) }];
  }
}

function uncrossable(cause: unknown): EngineError {
  const message = `Cannot take the request: it must be of plain values, ${messageOf(cause)}`;
  return new EngineError("INVALID_ARGUMENT", message, { cause });
}

function openInline(onMessage: (message: FromEngine) => void): EngineLink {
  let open = true;
  const service = new EngineService({
    clock: systemClock,
    timer: systemTimer,
    post: (message) => {
      if (open) onMessage(message);
    },
  });
  return {
    post: (message) => {
      if (!open) throw new EngineError("ENGINE_DEAD", "Cannot use the engine: it was closed");
      service.receive(message);
    },
    keepAlive: () => {},
    close: async () => {
      if (open) service.receive({ type: "close" });
      open = false;
      await service.closed;
    },
  };
}
