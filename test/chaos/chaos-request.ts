/** Requests whose right answers are known, and how a client is answered. */
import { Agent, request as httpRequest, type IncomingMessage } from "node:http";

export interface ChaosRequest {
  readonly path: "/v1/chat/completions" | "/v1/completions";
  readonly body: Readonly<Record<string, unknown>> & { readonly stream?: boolean };
}

/** Texts and ends by choice, and the usage. */
export interface Answer {
  /** Of the chosen tokens, by choice; none where they were not asked for. */
  readonly logprobs: readonly (readonly number[] | null)[];
  /** Of the prompt's tokens, as they were told. */
  readonly promptLogprobs: readonly string[];
  readonly texts: readonly string[];
  readonly ends: readonly (string | null)[];
  readonly promptTokens: number;
  readonly completionTokens: number;
}

export type Heard =
  | { readonly kind: "answered"; readonly answer: Answer }
  /** Nothing of an answer: the status of a refusal. */
  | { readonly kind: "refused"; readonly status: number; readonly text: string }
  /** An error was the stream's last event, `[DONE]` behind it. */
  | { readonly kind: "failed"; readonly code: string; readonly texts: readonly string[] }
  /** The connection ended in the middle, or was never there. */
  | { readonly kind: "cut"; readonly how: string; readonly texts: readonly string[] }
  /** This client left by itself. */
  | { readonly kind: "left"; readonly texts: readonly string[] }
  | { readonly kind: "hung"; readonly texts: readonly string[] }
  /** What no server may send. */
  | { readonly kind: "nonsense"; readonly text: string };

export interface ListenOptions {
  readonly deadlineMs: number;
  /** The client goes away after so long; null: it stays. */
  readonly leaveAfterMs: number | null;
  /** The client rests for so long behind each piece; 0: it reads as fast as it can. */
  readonly pauseMs?: number;
}

const agent = new Agent({ keepAlive: true, maxSockets: 1024 });

/** Sends a request and reads its answer to whatever end. Never rejects. */
export function listen(
  url: string,
  { path, body }: ChaosRequest,
  { deadlineMs, leaveAfterMs, pauseMs = 0 }: ListenOptions,
): Promise<Heard> {
  const text = JSON.stringify(body);
  const reader = new AnswerReader();
  return new Promise((resolve) => {
    const timers: NodeJS.Timeout[] = [];
    const finish = (heard: Heard) => {
      for (const timer of timers) clearTimeout(timer);
      resolve(heard);
      request.destroy();
    };
    const cut = (error: Error) => {
      finish({ kind: "cut", how: error.message, texts: reader.texts });
    };
    const request = httpRequest(
      url + path,
      {
        ...{ method: "POST", agent },
        headers: { "content-type": "application/json", "content-length": Buffer.byteLength(text) },
      },
      (response) => {
        hear(response, { isStream: body.stream === true, reader, finish, cut });
        if (pauseMs > 0) readSlowly(response, pauseMs);
      },
    );
    timers.push(setTimeout(() => finish({ kind: "hung", texts: reader.texts }), deadlineMs));
    if (leaveAfterMs !== null) {
      timers.push(setTimeout(() => finish({ kind: "left", texts: reader.texts }), leaveAfterMs));
    }
    request.on("error", cut);
    request.end(text);
  });
}

function readSlowly(response: IncomingMessage, pauseMs: number): void {
  response.on("data", () => {
    response.pause();
    setTimeout(() => response.resume(), pauseMs);
  });
}

interface Hearing {
  readonly isStream: boolean;
  readonly reader: AnswerReader;
  readonly finish: (heard: Heard) => void;
  readonly cut: (error: Error) => void;
}

function hear(response: IncomingMessage, { isStream, reader, finish, cut }: Hearing): void {
  const { statusCode: status = 0 } = response;
  let whole = "";
  const isEvents = isStream && status === 200;
  response.setEncoding("utf8");
  response.on("data", (part: string) => {
    if (isEvents) reader.take(part);
    else whole += part;
  });
  response.on("error", cut);
  response.on("close", () => cut(new Error("closed early")));
  response.on("end", () => {
    if (!response.complete) return;
    if (status !== 200) finish({ kind: "refused", status, text: whole });
    else if (isEvents) finish(reader.end());
    else finish(wholeAnswer(whole));
  });
}

interface Choice {
  readonly index: number;
  readonly text?: string;
  readonly delta?: { readonly content?: string | null };
  readonly message?: { readonly content?: string | null };
  readonly finish_reason: string | null;
  readonly logprobs?: Logprobs | null;
  readonly prompt_logprobs?: unknown;
}

interface Logprobs {
  /** Of completions. */
  readonly token_logprobs?: readonly number[];
  /** Of chats. */
  readonly content?: readonly { readonly logprob: number }[] | null;
}

interface Chunk {
  readonly error?: { readonly code?: string };
  readonly choices?: readonly Choice[];
  readonly prompt_logprobs?: unknown;
  readonly usage?: { readonly prompt_tokens: number; readonly completion_tokens: number } | null;
}

class AnswerReader {
  readonly texts: string[] = [];
  readonly #ends: (string | null)[] = [];
  readonly #logprobs: number[][] = [];
  readonly #promptLogprobs: string[] = [];
  #rest = "";
  #usages: { readonly promptTokens: number; readonly completionTokens: number }[] = [];
  #isDone = false;
  #error: string | null = null;
  #problem: string | null = null;

  take(part: string): void {
    const events = (this.#rest + part).split("\n\n");
    this.#rest = events.pop() ?? "";
    for (const event of events) this.#read(event);
  }

  end(): Heard {
    const { texts } = this;
    if (this.#problem !== null) return { kind: "nonsense", text: this.#problem };
    if (!this.#isDone) return { kind: "cut", how: "no [DONE]", texts };
    if (this.#error !== null) return { kind: "failed", code: this.#error, texts };
    const [usage, ...more] = this.#usages;
    if (usage === undefined || more.length > 0) {
      return { kind: "nonsense", text: `${this.#usages.length} usages` };
    }
    // Those of several prompts come in any order.
    const told = { logprobs: this.#logprobs, promptLogprobs: this.#promptLogprobs.sort() };
    return { kind: "answered", answer: { texts, ends: this.#ends, ...told, ...usage } };
  }

  add({ choices = [], usage, prompt_logprobs: ofPrompt }: Chunk): void {
    if (ofPrompt != null) this.#promptLogprobs.push(JSON.stringify(ofPrompt));
    for (const { index, text, delta, message, finish_reason: end, ...told } of choices) {
      this.#addLogprobs(index, told.logprobs);
      if (told.prompt_logprobs != null) {
        this.#promptLogprobs.push(JSON.stringify(told.prompt_logprobs));
      }
      const piece = text ?? delta?.content ?? message?.content ?? "";
      this.texts[index] = (this.texts[index] ?? "") + piece;
      if (end === null) continue;
      if (this.#ends[index] !== undefined) this.#problem = "two ends of a choice";
      this.#ends[index] = end;
    }
    if (usage == null) return;
    const { prompt_tokens: promptTokens, completion_tokens: completionTokens } = usage;
    this.#usages.push({ promptTokens, completionTokens });
  }

  #addLogprobs(index: number, told: Logprobs | null | undefined): void {
    if (told == null) return;
    const added = told.token_logprobs ?? told.content?.map(({ logprob }) => logprob) ?? [];
    const of = this.#logprobs[index] ?? [];
    this.#logprobs[index] = of;
    of.push(...added);
  }

  done(): void {
    this.#isDone = true;
  }

  #read(event: string): void {
    const lines = event.split("\n").filter((line) => line !== "" && !line.startsWith(":"));
    if (lines.length === 0) return; // comments
    const [line = ""] = lines;
    if (this.#isDone || lines.length > 1 || !line.startsWith("data: ")) {
      this.#problem ??= `an event that is none: ${event.slice(0, 200)}`;
    } else if (line === "data: [DONE]") this.#isDone = true;
    else this.#readChunk(line.slice("data: ".length));
  }

  #readChunk(text: string): void {
    try {
      const chunk: Chunk = JSON.parse(text);
      if (chunk.error === undefined) this.add(chunk);
      else this.#error = String(chunk.error.code);
    } catch {
      this.#problem ??= `no JSON: ${text.slice(0, 200)}`;
    }
  }
}

function wholeAnswer(text: string): Heard {
  const reader = new AnswerReader();
  try {
    reader.add(JSON.parse(text));
  } catch {
    return { kind: "nonsense", text: text.slice(0, 200) };
  }
  reader.done();
  return reader.end();
}

/** What is wrong with what was heard; null: nothing. `isRouterKilled`: while it was in work. */
export function problemOf(heard: Heard, right: Answer, isRouterKilled: boolean): string | null {
  switch (heard.kind) {
    case "answered":
      return sameAnswer(heard.answer, right)
        ? null
        : `wrong: ${JSON.stringify(heard.answer)} instead of ${JSON.stringify(right)}`;
    case "refused":
      return REFUSALS.has(heard.status) ? null : `status ${heard.status}: ${heard.text}`;
    case "cut":
      if (!isRouterKilled) return `cut without a reason: ${heard.how}`;
      return beginsAs(heard.texts, right);
    case "failed":
      return FAILURES.has(heard.code) ? beginsAs(heard.texts, right) : `failed: ${heard.code}`;
    case "left":
      return beginsAs(heard.texts, right);
    case "hung":
      return `hangs behind ${JSON.stringify(heard.texts)}`;
    case "nonsense":
      return `nonsense: ${heard.text}`;
  }
}

/** Full, no worker, a worker's failure, a deadline. */
const REFUSALS: ReadonlySet<number> = new Set([429, 502, 503, 504]);
const FAILURES: ReadonlySet<string> = new Set([
  ...["worker_failed", "worker_timeout", "not_ready", "queue_full", "shutting_down"],
]);

function sameAnswer(one: Answer, two: Answer): boolean {
  return JSON.stringify(one) === JSON.stringify(two);
}

function beginsAs(texts: readonly string[], right: Answer): string | null {
  const isRight = texts.every((text, at) => (right.texts[at] ?? "").startsWith(text ?? ""));
  return isRight ? null : `not a beginning: ${JSON.stringify(texts)} of ${JSON.stringify(right)}`;
}
