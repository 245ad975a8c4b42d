/**
 * The stream of the server's state. It is read by fetch, not EventSource: a key goes in a header,
 * never in an address, which logs and histories keep.
 */
import { EventReader } from "./event-reader.ts";

const KEY = "perigee.key";
const RETRY_MS = [500, 1000, 2000, 4000, 8000] as const;

export type FeedState =
  | { readonly kind: "opening" }
  | { readonly kind: "open" }
  /** The server wants a key, or another one. */
  | { readonly kind: "locked"; readonly refused: boolean }
  | { readonly kind: "refused"; readonly reason: string }
  | { readonly kind: "lost" };

export interface FeedEvents {
  readonly onEvent: (name: string, data: unknown) => void;
  readonly onState: (state: FeedState) => void;
}

/** The key of this tab; "": none. It is forgotten with the tab. */
export function storedKey(): string {
  return sessionStorage.getItem(KEY) ?? "";
}

export function storeKey(key: string): void {
  if (key === "") sessionStorage.removeItem(KEY);
  else sessionStorage.setItem(KEY, key);
}

/** Headers of every request of the page. */
export function accessHeaders(): Record<string, string> {
  const key = storedKey();
  return key === "" ? {} : { authorization: `Bearer ${key}` };
}

/** Reads the stream while the page can be seen, and again when it was lost. */
export class Feed {
  readonly #events: FeedEvents;
  #view: string;
  #stop = new AbortController();
  #losses = 0;
  #timer = 0;

  constructor(view: string, events: FeedEvents) {
    this.#view = view;
    this.#events = events;
  }

  start(): void {
    document.addEventListener("visibilitychange", this.#onVisibility);
    void this.#open();
  }

  /** Begins anew: with another key, or another view. */
  restart(view: string = this.#view): void {
    this.#view = view;
    this.#losses = 0;
    this.#close();
    void this.#open();
  }

  end(): void {
    document.removeEventListener("visibilitychange", this.#onVisibility);
    this.#close();
  }

  readonly #onVisibility = () => {
    if (document.hidden) this.#close();
    else this.restart();
  };

  #close(): void {
    clearTimeout(this.#timer);
    this.#stop.abort();
    this.#stop = new AbortController();
  }

  async #open(): Promise<void> {
    const { signal } = this.#stop;
    this.#events.onState({ kind: "opening" });
    try {
      const answer = await fetch(`dashboard/events?view=${this.#view}`, {
        ...{ headers: accessHeaders(), signal, cache: "no-store" },
      });
      if (answer.status === 401) {
        this.#events.onState({ kind: "locked", refused: storedKey() !== "" });
        return;
      }
      if (!answer.ok || answer.body === null) {
        this.#events.onState({ kind: "refused", reason: await reasonOf(answer) });
        this.#retry(signal);
        return;
      }
      this.#losses = 0;
      this.#events.onState({ kind: "open" });
      await readEvents(answer.body, (name, data) => {
        if (!signal.aborted) this.#events.onEvent(name, data);
      });
      this.#lose(signal);
    } catch {
      this.#lose(signal);
    }
  }

  #lose(signal: AbortSignal): void {
    if (signal.aborted) return;
    this.#events.onState({ kind: "lost" });
    this.#retry(signal);
  }

  #retry(signal: AbortSignal): void {
    if (signal.aborted) return;
    const wait = RETRY_MS[Math.min(this.#losses++, RETRY_MS.length - 1)];
    this.#timer = window.setTimeout(() => void this.#open(), wait);
  }
}

/** What an answer that is no success says. */
export async function reasonOf(answer: Response): Promise<string> {
  const text = await answer.text();
  try {
    const { error } = JSON.parse(text) as { error?: { message?: unknown } };
    if (typeof error?.message === "string") return error.message;
  } catch {
    // No JSON: a proxy answered.
  }
  return `The server answered ${answer.status}`;
}

/** Reads events until the stream ends. */
export async function readEvents(
  body: ReadableStream<Uint8Array>,
  onEvent: (name: string, data: unknown) => void,
): Promise<void> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const events = new EventReader((name, data) => {
    if (data !== "[DONE]") onEvent(name, JSON.parse(data));
  });
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    events.push(decoder.decode(value, { stream: true }));
  }
}
