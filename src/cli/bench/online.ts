import { EngineError, philox, seedFrom, systemClock } from "#base";
import { Progress } from "../progress.ts";
import { randomPrompts } from "./random-prompts.ts";
import { summarize } from "./statistics.ts";

const MS_PER_SECOND = 1000;

export interface OnlineOptions {
  /** Base address of an OpenAI-compatible server, e.g. http://127.0.0.1:8000. */
  readonly url: string;
  readonly model: string;
  readonly apiKey: string | null;
  readonly prompts: number;
  readonly inputLength: number;
  readonly outputLength: number;
  /** Requests per second, Poisson arrivals; Infinity: all at once. */
  readonly requestRate: number;
  readonly concurrencyMax: number;
  readonly vocabularySize: number;
  readonly seed: number;
}

interface RequestTiming {
  readonly firstTokenMs: number;
  readonly gapsMs: readonly number[];
  readonly endToEndMs: number;
  readonly tokens: number;
}

/** Drives a server with streaming completions; reports first-token, inter-token, total times. */
export async function benchServe(options: OnlineOptions) {
  const prompts = randomPrompts(
    options.prompts,
    options.inputLength,
    options.vocabularySize,
    options.seed,
  );
  const progress = await Progress.start("requests", options.prompts);
  const started = systemClock.nowMs();
  const arrivals = arrivalTimes(options);
  const gate = new Gate(options.concurrencyMax);
  const timings: RequestTiming[] = [];
  let failed = 0;
  await Promise.all(
    prompts.map(async ({ promptTokenIds }, place) => {
      await waitUntil(started + (arrivals[place] ?? 0));
      await gate.enter();
      try {
        timings.push(await timeRequest(options, promptTokenIds));
      } catch (error) {
        failed += 1;
        if (failed === options.prompts) throw error;
      } finally {
        gate.leave();
        progress.advance();
      }
    }),
  );
  progress.stop();
  return summary(options, timings, failed, (systemClock.nowMs() - started) / MS_PER_SECOND);
}

function summary(
  options: OnlineOptions,
  timings: readonly RequestTiming[],
  failed: number,
  seconds: number,
) {
  const tokens = timings.reduce((sum, timing) => sum + timing.tokens, 0);
  return {
    benchmark: "serve",
    ...options,
    apiKey: undefined,
    completed: timings.length,
    failed,
    seconds,
    requestsPerSecond: timings.length / seconds,
    outputTokensPerSecond: tokens / seconds,
    timeToFirstTokenMs: summarize(timings.map((timing) => timing.firstTokenMs)),
    interTokenMs: summarize(timings.flatMap((timing) => timing.gapsMs)),
    endToEndMs: summarize(timings.map((timing) => timing.endToEndMs)),
  };
}

/** Milliseconds from the start at which each request is sent. */
function arrivalTimes({ prompts, requestRate, seed }: OnlineOptions): number[] {
  let now = 0;
  return Array.from({ length: prompts }, (_, place) => {
    const [word] = philox([place, 1, 0, 0], seedFrom(seed));
    const uniform = (word + 1) / 2 ** 32;
    now += Number.isFinite(requestRate) ? (-Math.log(uniform) / requestRate) * MS_PER_SECOND : 0;
    return now;
  });
}

async function waitUntil(timeMs: number): Promise<void> {
  const left = timeMs - systemClock.nowMs();
  if (left > 0) await new Promise((resolve) => setTimeout(resolve, left));
}

async function timeRequest(
  options: OnlineOptions,
  promptTokenIds: readonly number[],
): Promise<RequestTiming> {
  const started = systemClock.nowMs();
  const body = await openStream(options, promptTokenIds);
  const times: number[] = [];
  let tokens = 0;
  for await (const chunk of serverSentEvents(body)) {
    const event = JSON.parse(chunk) as {
      choices?: unknown[];
      usage?: { completion_tokens: number };
    };
    if ((event.choices?.length ?? 0) > 0) times.push(systemClock.nowMs());
    tokens = event.usage?.completion_tokens ?? tokens;
  }
  const [first = systemClock.nowMs()] = times;
  return {
    firstTokenMs: first - started,
    gapsMs: times.slice(1).map((time, place) => time - (times[place] ?? time)),
    endToEndMs: systemClock.nowMs() - started,
    tokens,
  };
}

async function openStream(
  options: OnlineOptions,
  prompt: readonly number[],
): Promise<ReadableStream<Uint8Array>> {
  const response = await fetch(new URL("/v1/completions", options.url), {
    method: "POST",
    headers: {
      "content-type": "application/json",
      ...(options.apiKey === null ? {} : { authorization: `Bearer ${options.apiKey}` }),
    },
    body: JSON.stringify({
      model: options.model,
      prompt,
      max_tokens: options.outputLength,
      temperature: 0,
      ignore_eos: true,
      stream: true,
      stream_options: { include_usage: true },
    }),
  });
  if (response.ok && response.body !== null) return response.body;
  const text = await response.text();
  throw new EngineError("NETWORK", `Cannot use ${options.url}: status ${response.status}, ${text}`);
}

/** The `data:` lines of a stream, up to [DONE]. */
async function* serverSentEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  let rest = "";
  for await (const text of body.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line.startsWith("data: ") && line !== "data: [DONE]") yield line.slice(6);
    }
  }
}

/** Lets at most `most` in at once. */
class Gate {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(most: number) {
    this.#free = most;
  }

  async enter(): Promise<void> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  leave(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#free += 1;
    else next();
  }
}
