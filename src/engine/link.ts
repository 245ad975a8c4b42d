import { Worker } from "node:worker_threads";
import { EngineError, messageOf, systemClock } from "#base";
import type { FromEngine, ToEngine } from "./protocol.ts";
import { EngineService } from "./service.ts";

/** The way to an engine and back. */
export interface EngineLink {
  post(message: ToEngine): void;
  /** Ends the engine; what still runs is lost. */
  close(): Promise<void>;
}

/**
 * Starts an engine: in a worker thread, so that a step never blocks a stream, or on this thread.
 * `onMessage` hears everything it says, a crash included (`dead`).
 */
export function openLink(inThread: boolean, onMessage: (message: FromEngine) => void): EngineLink {
  return inThread ? openThread(onMessage) : openInline(onMessage);
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
  let closing = false;
  const died = (reason: string, cause?: unknown) => {
    if (closing) return;
    const detail = cause === undefined ? "" : `: ${messageOf(cause)}`;
    const error = { code: "ENGINE_DEAD", message: `${reason}${detail}`, param: null } as const;
    onMessage({ type: "dead", error });
  };
  worker.on("message", onMessage);
  worker.on("error", (error) => died("The engine thread failed", error));
  worker.on("exit", (code) => died(`The engine thread ended with code ${code}`));
  return {
    post: (message) => worker.postMessage(message),
    close: async () => {
      closing = true;
      const exited = new Promise((resolve) => worker.once("exit", resolve));
      worker.postMessage({ type: "close" } satisfies ToEngine);
      await exited;
    },
  };
}

function openInline(onMessage: (message: FromEngine) => void): EngineLink {
  let open = true;
  const service = new EngineService(systemClock, (message) => {
    if (open) onMessage(message);
  });
  return {
    post: (message) => {
      if (!open) throw new EngineError("ENGINE_DEAD", "Cannot use the engine: it was closed");
      service.receive(message);
    },
    close: async () => {
      service.receive({ type: "close" });
      await service.closed;
      open = false;
    },
  };
}
