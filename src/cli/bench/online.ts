import { EngineError, philox, seedFrom, shortText, systemClock } from "#base";
import { Progress } from "../progress.ts";
import { type OnlinePrompt, onlinePrompts } from "./online-prompts.ts";
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
  /** Seed of random prompts and arrivals: a repeated seed hits the server's prefix cache. */
  readonly seed: number;
  /** Random prompts are text; token ids otherwise. */
  readonly text: boolean;
  /** /v1/chat/completions; /v1/completions otherwise. */
  readonly chat: boolean;
  /** A file with prompts; null: random prompts. */
  readonly dataset: string | null;
  /** Warm-up requests, with their own prompts, sent before and not counted. */
  readonly warmups: number;
}

interface RequestTiming {
  readonly firstTokenMs: number;
  readonly gapsMs: readonly number[];
  readonly endToEndMs: number;
  readonly tokens: number;
  readonly promptTokens: number;
  /** Prompt tokens that the server found in its cache. */
  readonly cachedTokens: number;
  /** Bytes of KV blocks times seconds that they were held; null: the server does not say. */
  readonly kvByteSeconds: number | null;
}

/** A run's report, and the times that it sums up. */
export interface OnlineRun {
  readonly result: OnlineResult;
  readonly samples: OnlineSamples;
}

export type OnlineResult = ReturnType<typeof summary>;

/** Times of all completed requests. */
export interface OnlineSamples {
  readonly firstTokenMs: readonly number[];
  readonly gapsMs: readonly number[];
  readonly endToEndMs: readonly number[];
}

/** Drives a server with streaming completions; reports first-token, inter-token, total times. */
export async function benchServe(options: OnlineOptions): Promise<OnlineRun> {
  const prompts = await onlinePrompts(options);
  await warmUp(options);
  const progress = await Progress.start("requests", prompts.length);
  const started = systemClock.nowMs();
  const arrivals = arrivalTimes(options);
  const gate = new Gate(options.concurrencyMax);
  const timings: RequestTiming[] = [];
  let failed = 0;
  const one = async (prompt: OnlinePrompt, place: number) => {
    await waitUntil(started + (arrivals[place] ?? 0));
    await gate.enter();
    try {
      timings.push(await timeRequest(options, prompt));
    } catch (error) {
      failed += 1;
      if (failed === prompts.length) throw error;
    } finally {
      gate.leave();
      progress.advance();
    }
  };
  try {
    await Promise.all(prompts.map(one));
  } finally {
    progress.stop();
  }
  const seconds = (systemClock.nowMs() - started) / MS_PER_SECOND;
  const samples = {
    firstTokenMs: timings.map((timing) => timing.firstTokenMs),
    gapsMs: timings.flatMap((timing) => timing.gapsMs),
    endToEndMs: timings.map((timing) => timing.endToEndMs),
  };
  return { result: summary(options, { timings, samples, failed, seconds }), samples };
}

/** Uses other prompts than the measured ones, which would otherwise be in the cache. */
async function warmUp(options: OnlineOptions): Promise<void> {
  const { warmups, seed, chat } = options;
  if (warmups === 0) return;
  const others = { ...options, prompts: warmups, seed: seed + 0x5eed, dataset: null };
  const prompts = await onlinePrompts({ ...others, text: options.text || chat });
  for (const prompt of prompts) await timeRequest(options, prompt);
}

interface Outcome {
  readonly timings: readonly RequestTiming[];
  readonly samples: OnlineSamples;
  readonly failed: number;
  readonly seconds: number;
}

function summary(options: OnlineOptions, { timings, samples, failed, seconds }: Outcome) {
  const tokens = timings.reduce((sum, timing) => sum + timing.tokens, 0);
  const promptTokens = timings.reduce((sum, timing) => sum + timing.promptTokens, 0);
  const cachedTokens = timings.reduce((sum, timing) => sum + timing.cachedTokens, 0);
  const held = timings.flatMap(({ kvByteSeconds }) => kvByteSeconds ?? []);
  return {
    benchmark: "serve",
    ...options,
    apiKey: undefined,
    completed: timings.length,
    failed,
    seconds,
    requestsPerSecond: timings.length / seconds,
    outputTokensPerSecond: tokens / seconds,
    promptTokens,
    cachedTokens,
    cachedShare: promptTokens === 0 ? 0 : cachedTokens / promptTokens,
    timeToFirstTokenMs: summarize(samples.firstTokenMs),
    interTokenMs: summarize(samples.gapsMs),
    endToEndMs: summarize(samples.endToEndMs),
    ...(held.length > 0 && { kvByteSeconds: summarize(held) }),
  };
}

/** The send time of each request, in milliseconds from the start. */
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

async function timeRequest(options: OnlineOptions, prompt: OnlinePrompt): Promise<RequestTiming> {
  const started = systemClock.nowMs();
  const body = await openStream(options, prompt);
  const times: number[] = [];
  let usage: Usage = {};
  for await (const chunk of serverSentEvents(body)) {
    const event = JSON.parse(chunk) as StreamEvent;
    if (event.choices?.some(hasText) === true) times.push(systemClock.nowMs());
    usage = event.usage ?? usage;
    if (event.error != null) throw brokenStream(options.url, event.error.message);
  }
  const [first = systemClock.nowMs()] = times;
  return {
    firstTokenMs: first - started,
    gapsMs: times.slice(1).map((time, place) => time - (times[place] ?? time)),
    endToEndMs: systemClock.nowMs() - started,
    tokens: usage.completion_tokens ?? 0,
    promptTokens: usage.prompt_tokens ?? 0,
    cachedTokens: usage.prompt_tokens_details?.cached_tokens ?? 0,
    kvByteSeconds: usage.perigee?.kv_byte_seconds ?? null,
  };
}

interface Usage {
  readonly prompt_tokens?: number;
  readonly completion_tokens?: number;
  readonly prompt_tokens_details?: { readonly cached_tokens?: number } | null;
  readonly perigee?: { readonly kv_byte_seconds?: number };
}

/** The measured fields of an event in OpenAI's format. */
interface StreamEvent {
  readonly choices?: readonly StreamChoice[];
  readonly usage?: Usage | null;
  /** The answer broke off: its status was sent before. */
  readonly error?: { readonly message?: string } | null;
}

function brokenStream(url: string, message = "without a reason"): EngineError {
  const said = shortText(message, ANSWER_LENGTH_MAX);
  return new EngineError("NETWORK", `Cannot use ${url}: a stream broke off, ${said}`);
}

interface StreamChoice {
  readonly text?: string;
  readonly delta?: { readonly role?: string; readonly content?: string | null };
  readonly finish_reason?: string | null;
}

/** The first chunk of a chat contains only the role, and is not a token. */
function hasText({ delta, finish_reason: reason }: StreamChoice): boolean {
  if (delta === undefined || (reason ?? null) !== null) return true;
  return delta.role === undefined || (delta.content ?? "") !== "";
}

async function openStream(
  options: OnlineOptions,
  prompt: OnlinePrompt,
): Promise<ReadableStream<Uint8Array>> {
  const route = "messages" in prompt ? "/v1/chat/completions" : "/v1/completions";
  const response = await fetch(new URL(route, options.url), {
    method: "POST",
    headers: {
      "content-type": "application/json",
      ...(options.apiKey === null ? {} : { authorization: `Bearer ${options.apiKey}` }),
    },
    body: JSON.stringify({
      model: options.model,
      ...prompt,
      max_tokens: options.outputLength,
      temperature: 0,
      ignore_eos: true,
      stream: true,
      stream_options: { include_usage: true },
      return_kv_byte_seconds: true,
    }),
  });
  if (response.ok && response.body !== null) return response.body;
  const text = await response.text();
  const said = shortText(text, ANSWER_LENGTH_MAX);
  throw new EngineError("NETWORK", `Cannot use ${options.url}: status ${response.status}, ${said}`);
}

/** Maximum characters of a server's error answer in a message. */
const ANSWER_LENGTH_MAX = 500;

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

/** Admits at most `most` at once. */
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
