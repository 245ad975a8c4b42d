import { z } from "zod";
import { fieldNames, invalidSetting, issueText } from "#base";
import { ROUTING_POLICIES } from "#cluster/routing";
import { httpFields } from "#server";

/** Options of the router: address, workers, limits, what happens when a worker fails. */
export const RouterOptions = z
  .strictObject({
    ...httpFields,
    worker: z
      .array(z.url({ protocol: /^https?$/, error: "must be an http or https URL" }))
      .default([])
      .describe(
        "URL of a worker: a Perigee server, vLLM, SGLang, TensorRT-LLM or any server with " +
          "OpenAI's API; may be repeated.",
      ),
    redis: z
      .string()
      .min(1)
      .nullable()
      .default(null)
      .describe(
        "Redis or Valkey of the fleet, where workers announce themselves, or its sentinels, e.g. " +
          "redis+sentinel://10.0.0.1:26379,10.0.0.2:26379/MASTER; a password belongs into the " +
          "variable PERIGEE_REDIS, which other users of the machine cannot read. none: workers " +
          "are those that are given.",
      ),
    policy: z
      .enum(ROUTING_POLICIES)
      .default("kv")
      .describe("How a worker is chosen; kv: where the answer costs the fleet least time."),
    ttftDeadline: z
      .number()
      .positive()
      .max(1e9)
      .nullable()
      .default(null)
      .describe(
        "Deadline of a request's first token, from its arrival, in ms: what is predicted to miss " +
          "it gets 429 and Retry-After before anything is computed; a request's own " +
          "deadlines.ttft_ms goes before. none: nothing is rejected for it.",
      ),
    tbtDeadline: z
      .number()
      .positive()
      .max(1e9)
      .nullable()
      .default(null)
      .describe("The same between two tokens (deadlines.tbt_ms)."),
    rejection: z
      .enum(["predicted", "arrival", "none"])
      .default("predicted")
      .describe(
        "When a request is rejected that would miss a deadline: predicted (at the load of when " +
          "its prompt will be computed), arrival (at the load of now), none.",
      ),
    kvFill: z
      .enum(["all", "reused", "off"])
      .default("all")
      .describe(
        "What workers of the role kv fetch of computed prompts: reused (what was asked for more " +
          "than once), all (the rest, too, while their memory is free), off.",
      ),
    roleChanges: z
      .enum(["off", "auto"])
      .default("off")
      .describe(
        "Whether the conductor gives workers of a fleet with pools other roles when the load " +
          "shifts: off, auto. Of several routers that share a Redis one decides for all, of " +
          "several without it one should.",
      ),
    roleChangeAfterMs: z
      .int()
      .positive()
      .max(1e9)
      .default(3000)
      .describe(
        "How much service may be lost for want of a worker in the other pool before its role " +
          "changes, in ms of all requests: 10 s pass where 3 of 10 are lost by 3000.",
      ),
    roleChangePauseMs: z
      .int()
      .positive()
      .max(1e9)
      .default(5000)
      .describe("How long no role changes behind a change, of a worker that joins or leaves, too."),
    decisionLog: z
      .string()
      .min(1)
      .nullable()
      .default(null)
      .describe(
        "File to which each decision is appended as a line of JSON; it may be renamed at any " +
          "time. none: decisions are not logged.",
      ),
    indexBytesMax: z
      .int()
      .min(2 ** 24)
      .default(2 ** 30)
      .describe("Most bytes of the index of all workers' blocks; the oldest go first."),
    approximateTtlMs: z
      .int()
      .positive()
      .default(120_000)
      .describe("How long a worker that announces nothing is thought to have what it was sent."),
    model: z
      .array(z.string().min(1))
      .default([])
      .describe(
        "Folder with the tokenizer of a model that workers serve, as FOLDER or NAME=FOLDER; may " +
          "be repeated. The router then renders and encodes its prompts once, and sends ids.",
      ),
    requestBytesMax: z
      .int()
      .positive()
      .default(64 * 2 ** 20)
      .describe("Longest request body, in bytes; half of it may be numbers."),
    bodiesBytesMax: z
      .int()
      .positive()
      .nullable()
      .default(null)
      .describe(
        "Most bytes of the bodies of all requests in work, of which one may take what it leaves " +
          "to others; beyond it 503 and Retry-After. none: an eighth of what the process's heap " +
          "may grow to, and at least twice the longest body.",
      ),
    concurrentRequestsMax: z
      .int()
      .positive()
      .default(8192)
      .describe("Most requests in work at a time; further ones get 429 and Retry-After."),
    workerWaitMs: z
      .int()
      .positive()
      .default(2000)
      .describe(
        "A worker is full where a further request would wait longer for its first token, by " +
          "measured speeds, or one has waited so long already. Where all workers are full, " +
          "requests wait in the router.",
      ),
    workerRequestsMax: z
      .int()
      .positive()
      .nullable()
      .default(null)
      .describe(
        "A worker is full, too, with this many requests of this router. none: when it says so " +
          "(429), or lets requests wait.",
      ),
    queueRequestsMax: z
      .int()
      .positive()
      .default(4096)
      .describe("Most requests that wait in the router; further ones get 503 and Retry-After."),
    queueKeyRequestsMax: z
      .int()
      .positive()
      .default(1024)
      .describe("Most of them of one API key; further ones get 429 and Retry-After."),
    queueBytesMax: z
      .int()
      .positive()
      .default(2 ** 28)
      .describe("Most bytes of bodies that wait in the router."),
    queueTimeoutMs: z
      .int()
      .positive()
      .default(60_000)
      .describe("Longest wait in the router; then 503 and Retry-After."),
    retriesMax: z
      .int()
      .min(0)
      .default(2)
      .describe("Most further attempts at other workers before a request's first token."),
    migrationsMax: z
      .int()
      .min(0)
      .default(3)
      .describe("Most moves of one request to another worker behind its first token."),
    connectTimeoutMs: z
      .int()
      .positive()
      .default(2000)
      .describe("Longest time to connect to a worker."),
    firstTokenTimeoutMs: z
      .int()
      .positive()
      .default(600_000)
      .describe("Longest time to a stream's first token."),
    tokenTimeoutMs: z
      .int()
      .positive()
      .default(60_000)
      .describe("Longest time between two tokens of a stream."),
    answerTimeoutMs: z
      .int()
      .positive()
      .default(3_600_000)
      .describe("Longest time to an answer that is not streamed."),
    breakerFailures: z
      .int()
      .positive()
      .default(3)
      .describe("Failures of a worker in a row after which it gets no requests for a while."),
    breakerOpenMs: z
      .int()
      .positive()
      .default(10_000)
      .describe("How long a worker gets no requests then; one request tries it afterwards."),
    answerBytesMax: z
      .int()
      .positive()
      .default(2 ** 30)
      .describe("Longest answer of a worker, in bytes; a longer one is cut off."),
    nativeRelay: z
      .enum(["auto", "off"])
      .default("auto")
      .describe(
        "Who relays what is plain of streamed answers: auto, a native thread where there is its " +
          "library; off, JavaScript.",
      ),
    sessionHeader: z
      .string()
      .regex(/^[a-z0-9-]+$/, "must be a header's name in lower case")
      .default("x-session-id")
      .describe("Header that names a client's session, for the policy session."),
    showWorker: z
      .boolean()
      .default(false)
      .describe("Tell clients in the header x-perigee-worker which worker answered."),
    statusIntervalMs: z
      .int()
      .positive()
      .default(60_000)
      .describe("How often the state of index and workers is looked at for the log."),
  })
  .refine(
    ({ bodiesBytesMax, requestBytesMax }) =>
      bodiesBytesMax === null || bodiesBytesMax >= 2 * requestBytesMax,
    {
      path: ["bodiesBytesMax"],
      error: "must be at least twice requestBytesMax, so that the longest body fits",
    },
  )
  .readonly();
/** Options as passed to `startRouter`. */
export type RouterOptions = z.input<typeof RouterOptions>;
/** Validated options with defaults filled in. */
export type RouterConfig = z.output<typeof RouterOptions>;

/** Validates options and fills in defaults. Throws INVALID_ARGUMENT naming the invalid option. */
export function parseRouterConfig(options: RouterOptions): RouterConfig {
  const parsed = RouterOptions.safeParse(options, { error: issueText });
  if (parsed.success) return parsed.data;
  throw invalidSetting(parsed.error, options, fieldNames(RouterOptions));
}
