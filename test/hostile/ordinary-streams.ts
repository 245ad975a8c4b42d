/** Clients that do nothing wrong: eight streams, each begun again when it ends. */
import { SseReader } from "../support/sse.ts";

const PROMPTS = [
  ...["A cache is", "In PostgreSQL, an index", "The server", "def main():", "## Install\n\n"],
  ...["A mutex is", "To list files,", "The function returns"],
];
const tokens = 48;
/**
 * No measure of speed: a server that writes nobody a token for so long hangs, on however slow a
 * machine.
 */
const STALL_MS = 30_000;
const STREAM_MS_MAX = 300_000;

/** What one stream brought. */
interface Reading {
  readonly text: string;
  readonly gapMs: number;
}

/** What was wrong with a stream, and when. */
export interface StreamProblem {
  readonly message: string;
  readonly atMs: number;
}

/** The longest time between two tokens of a stream while the window is open. */
export interface GapWindow {
  worstMs: number;
}

export class OrdinaryStreams {
  readonly #url: string;
  readonly #texts: readonly string[];
  readonly #problems: StreamProblem[] = [];
  #stopped = false;
  readonly #windows = new Set<GapWindow>();
  #lastMs = performance.now();
  #read = 0;
  #running: Promise<unknown> = Promise.resolve();

  private constructor(url: string, texts: readonly string[]) {
    this.#url = url;
    this.#texts = texts;
  }

  /** What each prompt is answered with when nobody else is there. */
  static async alone(url: string): Promise<readonly string[]> {
    const texts: string[] = [];
    for (const prompt of PROMPTS) texts.push((await readStream(url, prompt)).text);
    return texts;
  }

  /** Begins reading; `texts` are what `alone` returned. */
  static start(url: string, texts: readonly string[]): OrdinaryStreams {
    const streams = new OrdinaryStreams(url, texts);
    streams.#running = Promise.all(PROMPTS.map((prompt, at) => streams.#repeat(prompt, at)));
    return streams;
  }

  get problems(): readonly StreamProblem[] {
    return this.#problems;
  }

  /** Streams read to their end. */
  get read(): number {
    return this.#read;
  }

  /** Nobody has been written a token for very long. */
  get stalled(): boolean {
    return performance.now() - this.#lastMs > STALL_MS;
  }

  /** Opens a window; its value is right once it is closed. */
  openWindow(): GapWindow {
    const window = { worstMs: 0 };
    this.#windows.add(window);
    return window;
  }

  closeWindow(window: GapWindow): number {
    this.#windows.delete(window);
    return window.worstMs;
  }

  /** Waits until each has ended. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#running;
  }

  async #repeat(prompt: string, at: number): Promise<void> {
    while (!this.#stopped) {
      try {
        const { text } = await readStream(this.#url, prompt, (gapMs) => {
          for (const window of this.#windows) window.worstMs = Math.max(window.worstMs, gapMs);
          this.#lastMs = performance.now();
        });
        this.#read += 1;
        const wanted = this.#texts[at];
        if (text === wanted) continue;
        this.#fail(`wrote ${JSON.stringify(text)} instead of ${JSON.stringify(wanted)}`);
      } catch (error) {
        this.#fail(`failed: ${String(error)}`);
        if (this.#problems.length > PROMPTS.length) return;
      }
    }
  }

  #fail(message: string): void {
    this.#problems.push({ message: `an ordinary stream ${message}`, atMs: performance.now() });
  }
}

async function readStream(
  url: string,
  prompt: string,
  onGap: (ms: number) => void = () => {},
): Promise<Reading> {
  const response = await fetch(`${url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      ...{ prompt, stream: true, temperature: 0, repetition_penalty: 1 },
      ...{ max_tokens: tokens, ignore_eos: true },
    }),
    signal: AbortSignal.timeout(STREAM_MS_MAX),
  });
  if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`);
  const reader = new SseReader(response);
  let text = "";
  let gapMs = 0;
  let lastMs: number | null = null;
  for (;;) {
    const message = await reader.next();
    if (message === null) throw new Error("it ended without [DONE]");
    const nowMs = performance.now();
    if (lastMs !== null) {
      gapMs = Math.max(gapMs, nowMs - lastMs);
      onGap(nowMs - lastMs);
    }
    lastMs = nowMs;
    if (message.data === "[DONE]") return { text, gapMs };
    const chunk = JSON.parse(message.data);
    if (chunk.error !== undefined) throw new Error(message.data);
    text += chunk.choices[0]?.text ?? "";
  }
}
