/** KV cache events over HTTP: polled as on TensorRT-LLM's servers, or streamed. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { EngineError } from "#base";
import type { ModelInfo } from "#engine";
import { kvEventJson, type TokenForm } from "#kvcache";
import type { ServerContext } from "../context.ts";
import { EventStream } from "../event-stream.ts";
import { HttpError, httpFailure } from "../http-errors.ts";
import { logFailure } from "../request-log.ts";
import { EventFeed, withTime } from "./event-feed.ts";
import { parseResumePoint } from "./resume-point.ts";

const TIMEOUT_MS_MAX = 600_000;

/** Registers `POST /kv_cache_events` and `GET /kv_cache_events/stream`. */
export function kvEventRoutes(app: FastifyInstance, context: ServerContext): void {
  // Its own scope: clients send this request without a body, with any content type.
  app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser(
      "*",
      { parseAs: "string" },
      async (_request: unknown, body: string) => parseBody(body),
    );
    scope.post("/kv_cache_events", (request, reply) => drain(context, request, reply));
  });
  const feeds = new Set<EventFeed>();
  app.get("/kv_cache_events/stream", { exposeHeadRoute: false }, (request, reply) =>
    follow(context, feeds, { request, reply }),
  );
  // Streams end before their connections are closed: readers see an end, not a failure.
  app.addHook("preClose", async () => {
    for (const feed of feeds) feed.leave();
    await new Promise((resolve) => setImmediate(resolve));
  });
}

/** All events since the last call. Undelivered events are lost: only one client may poll. */
async function drain(
  { model }: ServerContext,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const isTimed = tellsTimes(queryValue(request.query, "times"));
  const timeoutMs = timeoutOf(request.body) ?? timeoutOf(request.query) ?? 0;
  const hungUp = new AbortController();
  reply.raw.once("close", () => hungUp.abort());
  const { kvEvents: source } = model;
  const events = await source.getLatestEvents(timeoutMs, hungUp.signal);
  const windows = windowSizes(model.info);
  const texts = events.map((event) => {
    const text = kvEventJson(event, windows);
    return isTimed ? withTime(text, source.timeOf(event.id)) : text;
  });
  const type = "application/json; charset=utf-8";
  return reply.header("content-type", type).send(`[${texts.join(",")}]`);
}

async function follow(
  { model, config }: ServerContext,
  feeds: Set<EventFeed>,
  { request, reply }: { readonly request: FastifyRequest; readonly reply: FastifyReply },
): Promise<FastifyReply> {
  const { kvEvents: source } = model;
  if (!source.enabled) {
    throw new HttpError(
      409,
      "kv_events_disabled",
      "Cannot stream KV events: this model's cache records none; serve a decoder with " +
        "eventBufferMax (--kv-event-buffer-max) above 0",
    );
  }
  if (feeds.size >= config.kvEventStreamsMax) {
    throw new EngineError(
      "QUEUE_FULL",
      `Cannot stream KV events: at most ${config.kvEventStreamsMax} clients may follow them, ` +
        `current value is ${feeds.size}; try again later or raise kvEventStreamsMax`,
    );
  }
  const tokens = tokenForm(queryValue(request.query, "tokens"));
  const isPacked = packsRuns(queryValue(request.query, "runs"));
  const isTimed = tellsTimes(queryValue(request.query, "times"));
  const from = parseResumePoint(lastEventId(request) ?? queryValue(request.query, "after"));
  reply.hijack();
  const stream = new EventStream(reply.raw, {
    headers: reply.getHeaders(),
    keepAliveMs: config.streamKeepAliveMs,
  });
  const form = { windowSizes: windowSizes(model.info), tokens, isPacked, isTimed };
  const feed = new EventFeed(source, stream, form);
  reply.raw.once("close", () => feed.leave());
  feeds.add(feed);
  try {
    await feed.run(from);
  } catch (error) {
    const failure = httpFailure(error);
    logFailure(request.log, error, failure);
    await stream.send(`event: error\ndata: ${JSON.stringify(failure.body)}\n\n`);
  } finally {
    feeds.delete(feed);
    stream.close();
  }
  return reply;
}

/** `tokens=plain`: lists of ids, for readers of our own. */
function tokenForm(given: string | undefined): TokenForm {
  if (given === undefined || given === "objects" || given === "plain") return given ?? "objects";
  throw new HttpError(
    400,
    "invalid_argument",
    "Cannot stream KV events: tokens must be objects or plain, " +
      `current value is ${given.slice(0, 80)}`,
  );
}

/** `runs=packed`: runs of stored blocks take a tenth of a reader's time; for routers. */
function packsRuns(given: string | undefined): boolean {
  if (given === undefined || given === "packed") return given === "packed";
  throw new HttpError(
    400,
    "invalid_argument",
    `Cannot stream KV events: runs must be packed, current value is ${given.slice(0, 80)}; ` +
      "leave it out to get events in full",
  );
}

/** `times=on`: TensorRT-LLM's form has no times, so that they come where they are asked for. */
function tellsTimes(given: string | undefined): boolean {
  if (given === undefined || given === "on" || given === "off") return given === "on";
  throw new HttpError(
    400,
    "invalid_argument",
    `Cannot read KV events: times must be on or off, current value is ${given.slice(0, 80)}`,
  );
}

/** By group of layers. TensorRT-LLM's readers follow only the largest window. */
function windowSizes({ groupWindows, contextTokensMax }: ModelInfo): readonly number[] {
  return groupWindows.map((window) => window ?? contextTokensMax);
}

/** The id that a reconnecting browser sends; it is newer than the one in its URL. */
function lastEventId(request: FastifyRequest): string | undefined {
  const value = request.headers["last-event-id"];
  return typeof value === "string" ? value : undefined;
}

/** `timeout_ms` of a body or a query; null without one. */
function timeoutOf(fields: unknown): number | null {
  const given = queryValue(fields, "timeout_ms");
  if (given === undefined) return null;
  const value = /^\d+(\.\d+)?$/.test(given) ? Number(given) : Number.NaN;
  if (value >= 0 && value <= TIMEOUT_MS_MAX) return value;
  throw new HttpError(
    400,
    "invalid_argument",
    `Cannot wait for KV events: timeout_ms must be 0 to ${TIMEOUT_MS_MAX}, ` +
      `current value is ${given.slice(0, 80)}`,
  );
}

function queryValue(fields: unknown, name: string): string | undefined {
  if (typeof fields !== "object" || fields === null) return undefined;
  const value = Object.entries(fields).find(([key]) => key === name)?.[1];
  return value === undefined || value === null ? undefined : String(value);
}

function parseBody(body: string): unknown {
  if (body.trim() === "") return null;
  try {
    return JSON.parse(body);
  } catch (cause) {
    const message = "Cannot read body: it must be empty or JSON, it is neither; leave it out";
    throw new HttpError(400, "invalid_json", message, { cause });
  }
}
