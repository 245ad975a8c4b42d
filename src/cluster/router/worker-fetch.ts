/** How workers are asked what they are and what their caches have, where they speak https. */
import { Agent, fetch as askAnyone } from "undici";

export interface WorkerFetch {
  readonly fetch: typeof fetch;
  close(): Promise<void>;
}

/** `ca`: certificates of authorities, in PEM; null: the system's. Close it at the end. */
export function workerFetch(ca: string | null): WorkerFetch {
  if (ca === null) return { fetch, close: async () => {} };
  const dispatcher = new Agent({ connect: { ca } });
  // Of the same standard as the system's; their types differ in what is not used here.
  const ask = askAnyone as unknown as (url: string, init: object) => Promise<Response>;
  return {
    fetch: (url, init) => ask(String(url), { ...init, dispatcher }),
    close: () => dispatcher.destroy(),
  };
}
