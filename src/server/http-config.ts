/** Options of every HTTP server of the project: address, access, limits of connections. */
import { z } from "zod";

/** Fields for a `strictObject`. */
export const httpFields = {
  host: z.string().min(1).default("127.0.0.1").describe("Address to listen on."),
  port: z.int().min(0).max(65535).default(8000).describe("Port to listen on; 0: a free one."),
  apiKey: z
    .array(z.string().min(1))
    .default([])
    .describe(
      "API keys, one of which clients must send as bearer token; none: no key is needed. " +
        "`perigee serve` also takes --api-key-file (one key per line, # begins a comment) and, " +
        "where no key is given, the variable PERIGEE_API_KEY.",
    ),
  dashboardViewersMax: z
    .int()
    .nonnegative()
    .default(16)
    .describe("Most pages that may watch the server at once; further ones get 429. 0: none may."),
  requestValuesMax: z
    .int()
    .positive()
    .default(100_000)
    .describe("Most values in a request body, in lists and fields; token ids apart."),
  requestTimeoutMs: z
    .int()
    .nonnegative()
    .default(60_000)
    .describe("Time a client has to send a whole request; 0: no limit."),
  headersTimeoutMs: z
    .int()
    .nonnegative()
    .default(15_000)
    .describe("Time a client has to send a request's headers; 0: no limit."),
  writeTimeoutMs: z
    .int()
    .positive()
    .default(30_000)
    .describe(
      "Longest time in which a client reads nothing of the data that waits for it; then its " +
        "connection is closed, and its request ends.",
    ),
  idleTimeoutMs: z
    .int()
    .positive()
    .default(72_000)
    .describe("Time that a connection stays open between requests."),
  connectionsMax: z
    .int()
    .positive()
    .default(4096)
    .describe("Most open connections; further ones are closed at once."),
  streamKeepAliveMs: z
    .int()
    .positive()
    .default(15_000)
    .describe(
      "Longest silence of a stream before a comment is sent, so that proxies keep it open.",
    ),
  shutdownTimeoutMs: z
    .int()
    .nonnegative()
    .default(30_000)
    .describe("Time for running requests to finish at shutdown."),
  corsOrigins: z
    .array(z.string().min(1))
    .default([])
    .describe("Web origins that may call from a browser; `*`: all."),
  enableRequestIdHeaders: z
    .boolean()
    .default(false)
    .describe("Echo X-Request-Id, or make one, in every answer."),
  logLevel: z
    .enum(["silent", "error", "warn", "info", "debug"])
    .default("info")
    .describe("Lowest level of the log lines that are written to standard error."),
};

const HttpOptions = z.object(httpFields).readonly();
/** Validated options with defaults filled in. */
export type HttpConfig = z.output<typeof HttpOptions>;
