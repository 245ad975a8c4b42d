import { setMaxListeners } from "node:events";

/** One signal may stop any number of requests; Node takes more than ten listeners for a leak. */
export function listenTo(signal: AbortSignal | undefined, onAbort: () => void): void {
  if (signal === undefined) return;
  setMaxListeners(0, signal);
  signal.addEventListener("abort", onAbort, { once: true });
}
