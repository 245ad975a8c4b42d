/** Routes that use the engine: admission, client disconnects, and both kinds of answers. */
import type { ServerResponse } from "node:http";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { EngineError, messageOf } from "#base";
import { ownerOf } from "./access.ts";
import { admitted } from "./admitted.ts";
import type { Call, ServerContext } from "./context.ts";
import { type Dialect, OPENAI } from "./dialect.ts";
import { checkDuty } from "./duty.ts";
import { EventStream } from "./event-stream.ts";
import { httpFailure } from "./http-errors.ts";
import type { Answer } from "./openai/answer.ts";
import { searchesFiles } from "./openai/file-search.ts";
import { UsageCounter } from "./openai/usage.ts";
import { requestIdPattern } from "./request-id.ts";
import { logFailure, noteCall } from "./request-log.ts";

/** The path of chats. */
export const CHAT_PATH = "/v1/chat/completions";
/** The path of responses. */
export const RESPONSES_PATH = "/v1/responses";

/** Requests that an answering thread passes on if they search files. */
const SEARCHING: ReadonlySet<string> = new Set([CHAT_PATH, RESPONSES_PATH]);

export type CallHandler = (context: ServerContext, body: unknown, call: Call) => Promise<Answer>;

/** One route that uses the engine. */
export interface GenerationRoute {
  readonly path: string;
  readonly handler: CallHandler;
  /** Default: OpenAI's. */
  readonly dialect?: Dialect;
}

/** Registers `POST path`. The handler's signal is aborted as soon as the client disconnects. */
export function generationRoute(
  app: FastifyInstance,
  context: ServerContext,
  { path, handler, dialect = OPENAI }: GenerationRoute,
): void {
  const { admission, relay } = context;
  app.post(path, { config: { dialect } }, async (request, reply) => {
    if (relay !== null && SEARCHING.has(path) && searchesFiles(request.body)) {
      return await relay(request, reply);
    }
    return await admitted(admission, { request, reply }, async (signal) => {
      checkHealth(context);
      checkDuty(request.body, admission.duty);
      const call = {
        id: callId(request),
        created: context.nowSeconds(),
        signal,
        owner: ownerOf(request, context.config.apiKey),
        usage: new UsageCounter(),
      };
      noteCall(request, call);
      reply.headers(dialect.headers(request.id));
      const answer = await handler(context, request.body, call);
      if (answer.kind === "events") {
        const { streamKeepAliveMs: keepAliveMs } = context.config;
        const receiver = { request, reply, signal, keepAliveMs, dialect };
        return await sendEvents(receiver, answer);
      }
      signal.throwIfAborted();
      if (answer.kind === "json") return await reply.send(answer.value);
      return await reply.type("application/json; charset=utf-8").send(answer.json);
    });
  });
}

type EventsAnswer = Extract<Answer, { readonly kind: "events" }>;

/** The destination of events. */
interface Receiver {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly signal: AbortSignal;
  /** Maximum silence before a keep-alive comment. */
  readonly keepAliveMs: number;
  readonly dialect: Dialect;
}

/**
 * Sends events as they arrive. Before the first event, failures are plain HTTP answers; later, or
 * if the first event takes longer than `keepAliveMs`, failures are events.
 */
async function sendEvents(
  { request, reply, signal, keepAliveMs, dialect }: Receiver,
  answer: EventsAnswer,
): Promise<FastifyReply> {
  const { events } = answer;
  const first = events.next();
  const isLate = await outlasts(first, keepAliveMs);
  signal.throwIfAborted();
  reply.hijack();
  const headers = reply.getHeaders();
  const form = dialect.stream;
  const stream = new EventStream(reply.raw, { headers, keepAliveMs, signal, form });
  try {
    if (isLate) stream.keepAlive();
    let next = await first;
    while (next.done !== true && !stream.closed && !signal.aborted) {
      const full = stream.send(next.value);
      if (full !== null) await full;
      next = await events.next();
    }
    if (signal.aborted && !stream.closed) throw signal.reason;
  } catch (error) {
    const failure = httpFailure(signal.aborted ? signal.reason : error);
    if (!stream.closed) {
      logFailure(request.log, signal.aborted ? signal.reason : error, failure);
      // Sends the failure without waiting for the reader.
      const said = answer.failure?.(failure.body) ?? dialect.failureItem(failure, request.id);
      void stream.send(said);
      if (signal.aborted) stream.cutOff();
    }
  } finally {
    await endGenerator(events, request);
    stream.end();
    await finished(reply.raw);
  }
  return reply;
}

/** Whether the promise is still pending after `ms`. Rejects if the promise does. */
async function outlasts(promise: Promise<unknown>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(true), ms);
  });
  try {
    return await Promise.race([promise.then(() => false), late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Runs the generator's clean-up; the answer is already sent, so a failure is only logged. */
async function endGenerator(
  events: AsyncGenerator<string>,
  request: FastifyRequest,
): Promise<void> {
  try {
    await events.return(undefined);
  } catch (error) {
    request.log.error(`Cannot end a stream cleanly: ${messageOf(error)}`);
  }
}

/** Waits until the system has accepted the last byte, or the reader is gone. */
function finished(response: ServerResponse): Promise<void> {
  const { socket } = response.req;
  if (response.writableFinished || response.destroyed || socket.destroyed) return Promise.resolve();
  return new Promise((resolve) => {
    const done = () => {
      response.off("finish", done).off("close", done);
      socket.off("close", done);
      resolve();
    };
    response.once("finish", done).once("close", done);
    socket.once("close", done);
  });
}

function checkHealth({ model }: ServerContext): void {
  const health = model.health();
  if (health.state !== "dead") return;
  throw new EngineError("ENGINE_DEAD", "Cannot accept request: the engine has stopped");
}

/** The body's `request_id`, or the HTTP request's id (from a header, or generated). */
function callId({ body, id }: FastifyRequest): string {
  const given =
    typeof body === "object" && body !== null && "request_id" in body ? body.request_id : null;
  return typeof given === "string" && requestIdPattern.test(given) ? given : id;
}
