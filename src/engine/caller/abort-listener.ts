import { setMaxListeners } from "node:events";

/** One signal may stop any number of requests; Node reports more than ten listeners as a leak. */
export function listenTo(signal: AbortSignal | undefined, onAbort: () => void): void {
  if (signal === undefined) return;
  setMaxListeners(0, signal);
  signal.addEventListener("abort", onAbort, { once: true });
}
