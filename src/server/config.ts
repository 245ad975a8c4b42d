import { z } from "zod";
import { invalidSetting, issueText } from "#base";

/** Default sampling parameters of requests, from the model's authors or from the operator. */
export const SamplingDefaults = z
  .strictObject({
    temperature: z.number().min(0).max(2).optional().describe("Default temperature; 0 is greedy."),
    topP: z
      .number()
      .gt(0)
      .max(1)
      .optional()
      .describe(
        "Default top_p: sample from the smallest set of likeliest tokens with this total " +
          "probability.",
      ),
    topK: z
      .int()
      .min(-1)
      .optional()
      .describe("Default top_k: keep the k likeliest tokens; -1 and 0: all."),
    minP: z
      .number()
      .min(0)
      .max(1)
      .optional()
      .describe(
        "Default min_p: drop tokens below this share of the likeliest token's probability.",
      ),
    repetitionPenalty: z.number().gt(0).optional().describe("Default repetition penalty; 1: none."),
    maxTokens: z.int().positive().optional().describe("Default of the most new tokens."),
  })
  .readonly();
export type SamplingDefaults = z.output<typeof SamplingDefaults>;

/** Options of the HTTP server: address, access, limits. */
export const ServerOptions = z
  .strictObject({
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
    servedModelName: z
      .array(z.string().min(1))
      .default([])
      .describe(
        "Model names that clients may request; the first is shown in answers. none: the " +
          "model's own.",
      ),
    requestBytesMax: z
      .int()
      .positive()
      .nullable()
      .default(null)
      .describe(
        "Longest request body, of which half may be numbers; null: 16 bytes for each token of " +
          "the context, at least 4 MiB.",
      ),
    requestValuesMax: z
      .int()
      .positive()
      .default(100_000)
      .describe("Most values in a request body, in lists and fields; token ids apart."),
    answeringThreads: z
      .int()
      .min(0)
      .max(64)
      .nullable()
      .default(null)
      .describe(
        "Threads in addition to the main one that read requests and write answers; null: by " +
          "the number of cores.",
      ),
    stuckAfterMs: z
      .int()
      .nonnegative()
      .default(120_000)
      .describe(
        "Longest time that one engine step may take before /health answers 503; 0: no limit.",
      ),
    concurrentRequestsMax: z
      .int()
      .positive()
      .default(1024)
      .describe("Most concurrent requests; further ones get 429 and Retry-After."),
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
    kvEventStreamsMax: z
      .int()
      .positive()
      .default(64)
      .describe("Most clients that follow KV events at once; further ones get 429."),
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
    toolCallParser: z
      .enum(["auto", "hermes", "llama3_json", "none"])
      .default("auto")
      .describe("How tool calls are read from a model's text; auto: by what the text begins with."),
    allowRequestChatTemplate: z
      .boolean()
      .default(false)
      .describe("Let requests bring their own chat template (code that runs in the server)."),
    enableRequestIdHeaders: z
      .boolean()
      .default(false)
      .describe("Echo X-Request-Id, or make one, in every answer."),
    logLevel: z
      .enum(["silent", "error", "warn", "info", "debug"])
      .default("info")
      .describe("Lowest level of the log lines that are written to standard error."),
    kvEventsZmq: z
      .string()
      .nullable()
      .default(null)
      .describe(
        "Publish KV events for routers of vLLM workers: tcp://*:5557 listens for subscribers, " +
          "tcp://host:5557 connects to one that listens; needs the package zeromq. Hashes are " +
          "vLLM's only with hashAlgorithm sha256_cbor.",
      ),
    kvEventsZmqReplay: z
      .string()
      .nullable()
      .default(null)
      .describe(
        "Where subscribers ask for events that they missed: tcp://*:5558, or one address of this " +
          "machine; always listens.",
      ),
    kvEventsTopic: z
      .string()
      .default("")
      .describe("Topic of published events, their first frame; llm-d expects kv@ADDRESS@MODEL."),
    defaultSampling: SamplingDefaults.prefault({}).describe(
      "Sampling parameters of requests that leave them out.",
    ),
  })
  .refine((options) => options.kvEventsZmqReplay === null || options.kvEventsZmq !== null, {
    path: ["kvEventsZmqReplay"],
    error: "needs kvEventsZmq: without it nothing is published",
  })
  .readonly();
/** Options as passed to `startServer`. */
export type ServerOptions = z.input<typeof ServerOptions>;
/** Validated options with defaults filled in. */
export type ServerConfig = z.output<typeof ServerOptions>;

/** Validates options and fills in defaults. Throws INVALID_ARGUMENT naming the invalid option. */
export function parseServerConfig(options: ServerOptions): ServerConfig {
  const parsed = ServerOptions.safeParse(options, { error: issueText });
  if (parsed.success) return parsed.data;
  throw invalidSetting(parsed.error, options);
}
