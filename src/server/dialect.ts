/** How an API that is not OpenAI's writes failures and streams: the forms its clients read. */
import type { HttpFailure } from "./http-errors.ts";

/** A failure as one API's clients expect it. */
export interface DialectFailure {
  readonly status: number;
  readonly body: unknown;
}

/** How streamed answers are framed. */
export interface StreamForm {
  readonly contentType: string;
  /** Sent during silence, so that proxies keep the connection open; "": nothing. */
  readonly keepAlive: string;
  /** Behind the last item, also of a stream that failed. */
  readonly end: string;
}

/** The forms of one API. */
export interface Dialect {
  /** `requestId`: that of the HTTP request. */
  failure(failure: HttpFailure, requestId: string): DialectFailure;
  /** The text of a failure within a stream: its last item. */
  failureItem(failure: HttpFailure, requestId: string): string;
  /** Headers of every answer. */
  headers(requestId: string): Readonly<Record<string, string>>;
  readonly stream: StreamForm;
}

declare module "fastify" {
  interface FastifyContextConfig {
    /** Of the route; absent: OpenAI's. */
    readonly dialect?: Dialect;
  }
}

/** The form of OpenAI's streams. */
export const OPENAI_STREAM: StreamForm = {
  contentType: "text/event-stream; charset=utf-8",
  keepAlive: ": keep-alive\n\n",
  end: "data: [DONE]\n\n",
};

/** OpenAI's API, which all routes without a dialect speak. */
export const OPENAI: Dialect = {
  failure: ({ status, body }) => ({ status, body }),
  failureItem: ({ body }) => `data: ${JSON.stringify(body)}\n\n`,
  headers: () => ({}),
  stream: OPENAI_STREAM,
};
