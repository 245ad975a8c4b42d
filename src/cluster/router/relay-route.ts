/** Routes that a worker answers. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { EngineError } from "#base";
import { httpFailure, logFailure } from "#server";
import { keyOf } from "./client-key.ts";
import { freshSeed, type RouterContext } from "./context.ts";
import {
  dialectOf,
  type GenerationRequest,
  isGenerating,
  readRequest,
} from "./generation-request.ts";
import { othersThanOllama, withPlainName } from "./ollama-workers.ts";
import { Relay } from "./relay.ts";
import { passedHeaders } from "./relay-answers.ts";
import type { RelayAnswer } from "./relay-order.ts";
import { keeperOf, keptFailure, othersThan, ownerHeaders } from "./response-workers.ts";
import { withModel } from "./unnamed-model.ts";

const MS_PER_SECOND = 1000;

/** Paths of POST requests that one worker answers. */
export const RELAYED_PATHS = [
  "/v1/chat/completions",
  "/v1/completions",
  "/v1/messages",
  "/v1/messages/count_tokens",
  "/v1/responses",
  "/v1/embeddings",
  "/v1/rerank",
  "/rerank",
  "/v2/rerank",
  "/v1/score",
  "/score",
  "/v1/chat/completions/render",
  "/v1/completions/render",
  "/tokenize",
  "/detokenize",
  "/api/chat",
  "/api/generate",
  "/api/embed",
  "/api/embeddings",
  "/api/show",
] as const;

export function relayRoutes(app: FastifyInstance, context: RouterContext): void {
  for (const path of RELAYED_PATHS) {
    const config = { dialect: dialectOf(path) };
    app.post(path, { config }, async (request, reply) =>
      relayRequest(context, path, request, reply),
    );
  }
}

async function relayRequest(
  context: RouterContext,
  path: string,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const arrivedMs = performance.now();
  admit(context);
  const read = readRequest({
    ...{ path, id: request.id, body: request.body, headers: request.headers },
    text: context.texts.get(request) ?? "",
    sessionHeader: context.config.sessionHeader,
  });
  const { membership } = context;
  const named = withPlainName(withModel(read, membership.workers), membership.workers);
  const order = { ...named, headers: { ...named.headers, ...ownerHeaders(context, request) } };
  const keeper = keeperOf(membership, order);
  const strangers = othersThanOllama(order, membership.workers);
  const excluded = new Set([...othersThan(membership, keeper), ...strangers]);
  const found = await context.prompts.read(order, hangUpSignal(reply));
  const prompts = { ...found, query: { ...found.query, ...plannedFields(order, arrivedMs) } };
  const relay = new Relay(context.tools, {
    ...{ request: order, ...prompts, excluded, key: keyOf(context, request) },
    ...{ response: reply.raw, form: dialectOf(path).stream },
    ...{ headers: reply.getHeaders(), arrivedMs },
    ...{ seed: freshSeed(), created: Math.floor(Date.now() / MS_PER_SECOND) },
  });
  context.relays.add(relay);
  const stop = onHangUp(request, reply, () => relay.cancel());
  try {
    const answer = await relay.run();
    // An answer that is passed on as it comes has no place for a message.
    const hasPlace = isOpen(reply) && (order.stream || !reply.raw.headersSent);
    if (answer === null && context.state.cutOff && hasPlace) throw cutOff();
    return send(context, reply, answer);
  } catch (error) {
    if (!reply.raw.headersSent) throw keptFailure(error, keeper);
    endWithError(request, reply, error);
    return reply;
  } finally {
    stop();
    context.relays.delete(relay);
  }
}

/** Whether the client may still be told something. */
function isOpen({ raw }: FastifyReply): boolean {
  return !raw.destroyed && !raw.writableEnded;
}

function cutOff(): EngineError {
  return new EngineError(
    "SHUTTING_DOWN",
    "The router is shutting down and cut this answer off: it was not complete at the end of " +
      "shutdownTimeoutMs; send the request again later or elsewhere",
  );
}

/** What plans by deadlines read beside the prompt. */
export function plannedFields(
  { kind, id, deadlines, isBatch, choiceCount }: GenerationRequest,
  arrivedMs: number,
) {
  const isGenerated = isGenerating(kind);
  return { id, arrivedMs, isBatch, isGenerated, deadlines, choices: choiceCount };
}

/** Throws SHUTTING_DOWN and QUEUE_FULL. */
function admit({ state, relays, config }: RouterContext): void {
  if (state.draining) {
    throw new EngineError(
      "SHUTTING_DOWN",
      "Cannot accept request: the router is shutting down; try again later or elsewhere",
    );
  }
  const { concurrentRequestsMax } = config;
  if (relays.size < concurrentRequestsMax) return;
  throw new EngineError(
    "QUEUE_FULL",
    `Cannot accept request: at most ${concurrentRequestsMax} may be in work; try again later`,
  );
}

/** Ends work for a client that goes away while its prompt is read. */
function hangUpSignal({ raw }: FastifyReply): AbortSignal {
  const controller = new AbortController();
  raw.once("close", () => {
    if (!raw.writableFinished) controller.abort(GONE);
  });
  return controller.signal;
}

const GONE = new EngineError("ABORTED", "Cannot complete request: the client disconnected");

/** Calls back when the client goes away before its answer is complete. */
function onHangUp(request: FastifyRequest, reply: FastifyReply, callback: () => void): () => void {
  const { socket } = request.raw;
  const { raw } = reply;
  const onClose = () => {
    if (!raw.writableFinished) callback();
  };
  // Listen to the connection, too: a pipelined response gets no `close` event of its own.
  socket.setMaxListeners(0).once("close", onClose);
  raw.once("close", onClose);
  if (raw.destroyed || socket.destroyed) onClose();
  return () => {
    socket.off("close", onClose);
    raw.off("close", onClose);
  };
}

function send(context: RouterContext, reply: FastifyReply, answer: RelayAnswer): FastifyReply {
  if (answer === null) return reply.hijack();
  const { status, headers, body, workerId } = answer;
  if (context.config.showWorker) reply.header("x-perigee-worker", workerId);
  return reply.code(status).headers(passedHeaders(headers)).send(body);
}

/** The head was sent: the failure is the stream's last event. */
function endWithError(request: FastifyRequest, reply: FastifyReply, error: unknown): void {
  reply.hijack();
  const { raw } = reply;
  const failure = httpFailure(error);
  logFailure(request.log, error, failure);
  if (!isOpen(reply)) return;
  const dialect = dialectOf(request.routeOptions.url ?? "");
  // Whole lines were relayed, of an event that may lack its blank line.
  const gap = dialect.stream.contentType.startsWith("text/event-stream") ? "\n\n" : "";
  raw.end(`${gap}${dialect.failureItem(failure, request.id)}${dialect.stream.end}`);
}
