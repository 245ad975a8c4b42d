/** One attempt: a request at one worker, until its answer is relayed or the attempt has failed. */
import type { IncomingHttpHeaders } from "node:http";
import { EngineError } from "#base";
import { failureText } from "#cluster/http";
import type { GapWatch } from "#cluster/routing";
import { AnswerBuffer } from "./answer-buffer.ts";
import type { ClientStream } from "./client-stream.ts";
import type { Loan, LoanEnd, NativeRelay } from "./native-relay.ts";
import type { RelayedBy } from "./relay-metrics.ts";
import type { StreamReader } from "./stream-reader.ts";
import type { Sweep, Watched } from "./sweep.ts";
import {
  type BetweenParts,
  isConnectFailure,
  type UpstreamCall,
  type UpstreamReader,
} from "./upstream.ts";
import type { WorkerLink } from "./worker-link.ts";

/** A complete answer of a worker. */
export interface WorkerAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** How an attempt ended. */
export type Outcome =
  /** The stream was relayed to its end. */
  | { readonly kind: "streamed" }
  /** Nothing was sent to the client yet. */
  | { readonly kind: "answered"; readonly answer: WorkerAnswer }
  /** The answer was too long to be held, and was passed on as it came. */
  | { readonly kind: "passed-on"; readonly complete: boolean }
  | {
      readonly kind: "failed";
      readonly error: EngineError;
      readonly isConnectFailure: boolean;
      /** The worker itself said so, in its stream: it lives. */
      readonly isSaid: boolean;
    }
  /** The client is gone. */
  | { readonly kind: "cancelled" };

/** Longest times without progress, in ms. */
export interface AttemptLimits {
  readonly firstTokenTimeoutMs: number;
  readonly tokenTimeoutMs: number;
  readonly answerTimeoutMs: number;
}

/** What an attempt is made of. */
export interface AttemptParts {
  readonly link: WorkerLink;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** Null: the client wants one answer. */
  readonly reader: StreamReader | null;
  readonly client: ClientStream;
  readonly limits: AttemptLimits;
  readonly sweep: Sweep;
  /** Relays what is plain; null: nothing is lent. */
  readonly native: NativeRelay | null;
  /** How times between tokens count; null: they do not. */
  readonly gaps: GapWatch | null;
  /** Takes over the client's response, for an answer that is too long to be held. */
  readonly passOn: (status: number, headers: IncomingHttpHeaders) => void;
  /** Before the first event of this worker is sent. */
  readonly onBegin: () => void;
  /**
   * More tokens have come, as far as can be told, and the last one so long ago. The native relay
   * has counted the times between its own.
   */
  readonly onTokens: (count: number, by: RelayedBy, agoMs: number) => void;
}

export class Attempt implements UpstreamReader, Watched {
  readonly #parts: AttemptParts;
  readonly #buffer: AnswerBuffer;
  #call: UpstreamCall | null = null;
  #settle: ((outcome: Outcome) => void) | null = null;
  #status = 0;
  #headers: IncomingHttpHeaders = {};
  #streaming = false;
  #tokens = 0;
  #progressMs = performance.now();
  /** When the last token came. */
  #tokenMs = 0;
  /** How long ago what is read now came. */
  #readAgoMs = 0;
  #paused = false;
  /** The native relay has both connections. */
  #loan: Loan | null = null;
  #loanTokens = 0;
  #poorLoans = 0;

  constructor(parts: AttemptParts) {
    this.#parts = parts;
    this.#buffer = new AnswerBuffer({
      begin: () => parts.passOn(this.#status, this.#headers),
      write: (text) => this.#send(text, true),
    });
  }

  run(): Promise<Outcome> {
    const { link, path, headers, body, sweep } = this.#parts;
    return new Promise((resolve) => {
      this.#settle = resolve;
      sweep.add(this);
      const request = { method: "POST", path, body, headers: { ...headers, ...link.headers } };
      this.#call = link.upstream.send({ ...request, method: "POST" }, this);
    });
  }

  /** Ends the attempt at once; the worker is told by the end of its connection. */
  cancel(): void {
    this.#end({ kind: "cancelled" });
  }

  /** The worker is gone as others say; one that still makes progress is left alone. */
  workerGone(reason: string): void {
    if (this.#loan !== null) this.#parts.native?.drain();
    if (performance.now() - this.#progressMs >= GONE_MS) {
      this.#fail(failed(this.#name, reason));
    }
  }

  look(nowMs: number): void {
    const { limits, client } = this.#parts;
    if (this.#paused) {
      this.#progressMs = nowMs;
      return;
    }
    const limitMs = this.#limitMs(limits);
    if (nowMs - this.#progressMs <= limitMs) return;
    if (this.#loan !== null) {
      this.#parts.native?.drain();
      if (nowMs - this.#progressMs <= limitMs || this.#settle === null) return;
    }
    const what = this.#tokens > 0 || client.hasContent ? "next" : "first";
    this.#fail(
      new EngineError(
        "WORKER_TIMEOUT",
        `Cannot relay answer: worker ${this.#name} has not sent its ${what} part in ${limitMs} ms`,
      ),
    );
  }

  onHead(status: number, headers: IncomingHttpHeaders): void {
    this.#status = status;
    this.#headers = headers;
    const { reader } = this.#parts;
    const [type = ""] = (headers["content-type"] ?? "").split(";", 1);
    const isStream = reader !== null && type.trim().toLowerCase() === reader.mediaType;
    this.#streaming = status === 200 && isStream;
  }

  onData(bytes: Buffer): void {
    const { reader } = this.#parts;
    if (!this.#streaming || reader === null) {
      this.#progressMs = performance.now();
      this.#buffer.add(bytes);
      return;
    }
    const { text, tokens } = reader.read(bytes);
    const isContent = text !== "" && reader.hasEvents(text);
    if (tokens > 0 || this.#tokens === 0) this.#advance(tokens, isContent);
    if (text !== "") this.#send(text, isContent);
    if (reader.broken !== null) this.#fail(failed(this.#name, reader.broken));
    else if (reader.failure !== null) {
      this.#fail(ownFailure(this.#name, reader.failure), { isSaid: true });
    }
  }

  onBetween({ descriptor, contentBytesMax }: BetweenParts): boolean {
    const { reader, native, client, gaps } = this.#parts;
    const mayLend = this.#settle !== null && this.#streaming && !this.#paused;
    if (!mayLend || native === null || this.#tokens < LENT_BEHIND_TOKENS) return false;
    const form = this.#poorLoans < POOR_LOANS_MAX ? (reader?.plainForm ?? null) : null;
    const own = form === null ? -1 : client.descriptor;
    if (form === null || own < 0) return false;
    this.#loanTokens = this.#tokens;
    this.#loan = native.lend({
      ...{ form, contentBytesMax, worker: descriptor, client: own, gaps },
      agoMs: performance.now() - this.#tokenMs,
      onSent: (tokens, agoMs) => this.#wasSent({ tokens, agoMs, rest: NOTHING_LEFT }),
      onStop: () => this.takeBack(),
    });
    return this.#loan !== null;
  }

  /** The native relay writes to the client. */
  get isLent(): boolean {
    return this.#loan !== null;
  }

  /** Reads and writes itself, where the native relay did until now. */
  takeBack(): void {
    const left = this.#endLoan();
    if (left === null) return;
    // Where many answers end at once, the last ones are read late.
    this.#readAgoMs = left.pendingAgoMs;
    try {
      this.#call?.giveBack(left.contentBytes, left.pending);
    } finally {
      this.#readAgoMs = 0;
    }
  }

  onEnd(): void {
    const { reader } = this.#parts;
    if (this.#streaming && reader !== null) {
      if (reader.isComplete) this.#end({ kind: "streamed" });
      else this.#fail(failed(this.#name, "its stream ended early"));
    } else if (this.#buffer.passedOn) {
      this.#end({ kind: "passed-on", complete: true });
    } else {
      const answer = { status: this.#status, headers: this.#headers, body: this.#buffer.take() };
      this.#end({ kind: "answered", answer });
    }
  }

  onFailure(error: Error): void {
    const isConnect = isConnectFailure(error);
    this.#fail(failed(this.#name, failureText(error), error), { isConnect });
  }

  get #name(): string {
    return this.#parts.link.info.id;
  }

  #limitMs({ firstTokenTimeoutMs, tokenTimeoutMs, answerTimeoutMs }: AttemptLimits): number {
    if (this.#parts.reader === null) {
      return this.#status === 0 ? answerTimeoutMs : tokenTimeoutMs;
    }
    return this.#tokens === 0 ? firstTokenTimeoutMs : tokenTimeoutMs;
  }

  #advance(tokens: number, isContent: boolean): void {
    if (tokens === 0 && !isContent) return;
    // Now, not when it came: what waited here to be read is not the worker's silence.
    this.#progressMs = performance.now();
    if (tokens === 0) return;
    this.#tokenMs = this.#progressMs - this.#readAgoMs;
    this.#tokens += tokens;
    this.#parts.onTokens(tokens, "javascript", this.#readAgoMs);
  }

  #send(text: string, isContent: boolean): void {
    const { client } = this.#parts;
    if (this.#streaming) this.#parts.onBegin();
    if (!client.write(text, this.#progressMs, isContent)) this.#pause();
  }

  #pause(): void {
    if (this.#paused) return;
    this.#paused = true;
    this.#call?.pause();
    this.#parts.client.onRoom(() => {
      this.#paused = false;
      this.#progressMs = performance.now();
      this.#call?.resume();
    });
  }

  #wasSent({ tokens, agoMs, rest }: Sent): void {
    const nowMs = performance.now();
    if (tokens > 0) {
      this.#progressMs = nowMs - agoMs;
      this.#tokenMs = this.#progressMs;
      this.#tokens += tokens;
      this.#parts.onTokens(tokens, "native", agoMs);
    }
    if (!this.#parts.client.wasSent(rest, nowMs)) this.#pause();
  }

  /** Null: there was none. What it has left of the worker's bytes is as if it had not come. */
  #endLoan(): LoanEnd | null {
    const left = this.#loan?.end() ?? null;
    this.#loan = null;
    if (left === null) return null;
    this.#parts.reader?.addRelayed(left.ids);
    const { tokens, agoMs, hasSent, unsent } = left;
    if (hasSent || unsent.length > 0) this.#wasSent({ tokens, agoMs, rest: unsent });
    if (this.#tokens - this.#loanTokens < POOR_LOAN_TOKENS) this.#poorLoans++;
    return left;
  }

  #fail(error: EngineError, { isConnect = false, isSaid = false } = {}): void {
    if (this.#buffer.passedOn) this.#end({ kind: "passed-on", complete: false });
    else this.#end({ kind: "failed", error, isConnectFailure: isConnect, isSaid });
  }

  #end(outcome: Outcome): void {
    const settle = this.#settle;
    if (settle === null) return;
    this.#settle = null;
    // Another worker goes on behind all that the client has of this one.
    this.#endLoan();
    this.#parts.sweep.delete(this);
    const isOver = outcome.kind === "streamed" || outcome.kind === "answered";
    if (!isOver) this.#call?.abort(ENDED);
    settle(outcome);
  }
}

/** What the native relay has sent, and the rest that it could not. */
interface Sent {
  readonly tokens: number;
  readonly agoMs: number;
  readonly rest: Buffer;
}

/** What is shorter is over before a loan pays. */
const LENT_BEHIND_TOKENS = 3;
/** A stream that is rarely plain is not lent again and again. */
const POOR_LOANS_MAX = 8;
const POOR_LOAN_TOKENS = 16;

const NOTHING_LEFT = Buffer.alloc(0);

/** A worker that others hold for gone is believed to be, if it was silent for this long, too. */
const GONE_MS = 1000;

/** Made once: an error per request would cost a stack trace each. */
const ENDED = new EngineError("ABORTED", "Cannot continue: the request is over");

function failed(worker: string, reason: string, cause?: unknown): EngineError {
  return new EngineError("WORKER_FAILED", `Cannot relay answer: worker ${worker}: ${reason}`, {
    cause,
  });
}

/** The worker's own words, as they stood in its stream. */
function ownFailure(worker: string, latin1: string): EngineError {
  const text = Buffer.from(latin1, "latin1").toString("utf8").slice(0, 500);
  return failed(worker, `it says ${text}`);
}
