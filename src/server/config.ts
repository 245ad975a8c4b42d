import { z } from "zod";
import { fieldNames, invalidSetting, issueText } from "#base";
import { CALL_FORMATS, REASONING_FORMATS } from "#chat";
import { httpFields } from "./http-config.ts";

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
    ...httpFields,
    servedModelName: z
      .array(z.string().min(1))
      .default([])
      .describe(
        "Model names that clients may request; the first is shown in answers. none: the " +
          "model's own.",
      ),
    adminKey: z
      .array(z.string().min(1))
      .default([])
      .describe(
        "Keys that also show texts of prompts on the page at /, and are accepted as API keys; " +
          "none: no request does. `perigee serve` also takes --admin-key-file, which others " +
          "cannot read in the list of processes.",
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
    kvEventStreamsMax: z
      .int()
      .positive()
      .default(64)
      .describe("Most clients that follow KV events at once; further ones get 429."),
    toolCallParser: z
      .enum([...CALL_FORMATS, "none"])
      .default("auto")
      .describe(
        "How tool calls are read from a model's text; auto: by the chat template, and where it " +
          "shows no format by what the text begins with.",
      ),
    reasoningParser: z
      .enum([...REASONING_FORMATS, "none"])
      .default("auto")
      .describe(
        "How a model's thinking is told from its answer; auto: by the marks in the chat template " +
          "or the vocabulary; deepseek_r1: an output begins with thinking even without a mark.",
      ),
    moveKnownNoise: z
      .boolean()
      .default(true)
      .describe(
        "Move what coding agents put before their system prompt and change with every request (a " +
          "billing header) behind the conversation, so that the prefix cache hits; usage says so.",
      ),
    responsesStoredMax: z
      .int()
      .nonnegative()
      .default(1000)
      .describe(
        "Most responses of /v1/responses that are kept for each API key, in memory; the one that " +
          "was used longest ago gives way. 0: none is kept.",
      ),
    responsesBytesMax: z
      .int()
      .positive()
      .default(64 * 2 ** 20)
      .describe(
        "Most bytes that kept responses and their conversations have for each API key; those of " +
          "all keys have at most 8 times as many.",
      ),
    responsesKeptMs: z
      .int()
      .positive()
      .max(2 ** 31 - 1)
      .default(3_600_000)
      .describe("Time after its last use for which a response is kept."),
    responsesWarmMs: z
      .int()
      .nonnegative()
      .max(2 ** 31 - 1)
      .default(600_000)
      .describe(
        "Time for which the cache keeps a kept response's keys and values before those of other " +
          "requests, where the request has no retention of its own; 0: no longer than those.",
      ),
    allowRequestChatTemplate: z
      .boolean()
      .default(false)
      .describe("Let requests bring their own chat template (code that runs in the server)."),
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
  throw invalidSetting(parsed.error, options, fieldNames(ServerOptions));
}
