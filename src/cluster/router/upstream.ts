/** Connections to workers: one request, its answer as it comes, deadlines without a timer each. */
import type { IncomingHttpHeaders } from "node:http";
import { type Dispatcher, Pool } from "undici";
import { EngineError } from "#base";
import { type DirectBody, directBody, directConnector } from "./direct-reads.ts";

/** Sockets without a request are closed after this long, before most servers close them. */
const IDLE_MS = 4_000;
/** Longest headers of an answer, in bytes. */
const HEADER_BYTES_MAX = 32 * 2 ** 10;

/** A request to a worker. */
export interface UpstreamRequest {
  readonly method: "DELETE" | "GET" | "POST";
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
}

/** Receives an answer. After `onEnd` or `onFailure` nothing follows. */
export interface UpstreamReader {
  onHead(status: number, headers: IncomingHttpHeaders): void;
  /** The bytes hold until it returns: what is kept of them is copied. */
  onData(bytes: Buffer): void;
  onEnd(): void;
  onFailure(error: Error): void;
  /** The connection is between two parts of an answer. True: it was lent, and is given back. */
  onBetween?(connection: BetweenParts): boolean;
}

/** A connection from which others may read on. */
export interface BetweenParts {
  readonly descriptor: number;
  /** The answer may have so many more bytes of content. */
  readonly contentBytesMax: number;
}

/** A request in work. */
export interface UpstreamCall {
  /** Closes the connection at once; `onFailure` gets the reason, unless the answer has ended. */
  abort(reason: Error): void;
  /** Reads no more from the worker until `resume`. */
  pause(): void;
  resume(): void;
  /** Ends a loan: what came meanwhile, and of that what follows and is to be read here. */
  giveBack(contentBytes: number, pending: Buffer): void;
}

export interface UpstreamOptions {
  readonly connectTimeoutMs: number;
  readonly answerBytesMax: number;
  /** Certificates of authorities, in PEM, for https; null: the system's. */
  readonly ca: string | null;
}

/** One worker's connections, kept alive. Requests are never sent twice by itself. */
export class Upstream {
  readonly #pool: Pool;
  readonly #prefix: string;
  readonly #answerBytesMax: number;

  /** `url`: the worker's, maybe with a path. */
  constructor(url: string, { connectTimeoutMs, answerBytesMax, ca }: UpstreamOptions) {
    const { origin, pathname } = new URL(url);
    this.#prefix = pathname.replace(/\/+$/, "");
    this.#answerBytesMax = answerBytesMax;
    this.#pool = new Pool(origin, {
      connections: null,
      pipelining: 1,
      connect: directConnector({ connectTimeoutMs, ca }),
      // The router has its own deadlines, which know a token from a comment.
      ...{ headersTimeout: 0, bodyTimeout: 0, keepAliveTimeout: IDLE_MS },
      maxHeaderSize: HEADER_BYTES_MAX,
    });
  }

  send({ method, path, headers, body }: UpstreamRequest, reader: UpstreamReader): UpstreamCall {
    const call = new Call(reader, this.#answerBytesMax);
    this.#pool.dispatch({ method, path: this.#prefix + path, headers, body }, call);
    return call;
  }

  /** Ends the connections; requests in work fail. */
  async close(): Promise<void> {
    await this.#pool.destroy();
  }
}

class Call implements UpstreamCall, Dispatcher.DispatchHandler {
  readonly #reader: UpstreamReader;
  readonly #bytesMax: number;
  #controller: Dispatcher.DispatchController | null = null;
  #aborted: Error | null = null;
  /** Null: undici tells of all content. */
  #body: DirectBody | null = null;
  #bytes = 0;
  #over = false;

  constructor(reader: UpstreamReader, bytesMax: number) {
    this.#reader = reader;
    this.#bytesMax = bytesMax;
  }

  abort(reason: Error): void {
    if (this.#aborted !== null) return;
    this.#aborted = reason;
    if (this.#controller !== null) this.#controller.abort(reason);
    else this.#fail(reason); // still connecting: the socket is not waited for
  }

  pause(): void {
    // Both: at any time undici may be the one that reads on.
    this.#controller?.pause();
    this.#body?.pause();
  }

  resume(): void {
    this.#controller?.resume();
    this.#body?.resume();
  }

  giveBack(contentBytes: number, pending: Buffer): void {
    this.#bytes += contentBytes;
    this.#body?.giveBack(pending);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#aborted !== null) controller.abort(this.#aborted);
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders,
  ): void {
    if (status < 200 || this.#over) return;
    if (status === 200 && headers["transfer-encoding"] === "chunked") {
      this.#body = directBody({
        onContent: (content) => this.#read(content),
        onBetween: (descriptor) => this.#mayLend(descriptor),
      });
    }
    this.#reader.onHead(status, headers);
  }

  onResponseData(_controller: Dispatcher.DispatchController, bytes: Buffer): void {
    this.#read(bytes);
  }

  onResponseEnd(): void {
    if (this.#over) return;
    this.#over = true;
    this.#reader.onEnd();
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#fail(this.#aborted ?? error);
  }

  #read(bytes: Buffer): void {
    // An answer without a length has an empty part for each look at its connection.
    if (this.#over || bytes.length === 0) return;
    this.#bytes += bytes.length;
    if (this.#bytes > this.#bytesMax) this.#controller?.abort(tooLong(this.#bytesMax));
    else this.#reader.onData(bytes);
  }

  #mayLend(descriptor: number): boolean {
    if (this.#over || this.#aborted !== null) return false;
    const contentBytesMax = this.#bytesMax - this.#bytes;
    return this.#reader.onBetween?.({ descriptor, contentBytesMax }) ?? false;
  }

  #fail(error: Error): void {
    if (this.#over) return;
    this.#over = true;
    this.#reader.onFailure(error);
  }
}

function tooLong(bytesMax: number): EngineError {
  return new EngineError(
    "NETWORK",
    `Cannot relay answer: at most ${bytesMax} bytes are wanted, the worker sends more`,
  );
}

/** Codes of connections that were never made. */
const CONNECT_CODES: ReadonlySet<string> = new Set([
  ...["UND_ERR_CONNECT_TIMEOUT", "ECONNREFUSED", "EHOSTUNREACH", "ENETUNREACH"],
  ...["ENOTFOUND", "EAI_AGAIN"],
]);

/** Whether nothing of the request can have reached the worker. */
export function isConnectFailure(error: Error): boolean {
  return "code" in error && CONNECT_CODES.has(String(error.code));
}
