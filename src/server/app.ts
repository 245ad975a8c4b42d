/** The HTTP application: routes, limits, and answers to invalid requests. */
import fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  LogController,
} from "fastify";
import { pino } from "pino";
import { allowOrigins, requireApiKey } from "./access.ts";
import { checkBodyShape, checkTextShape } from "./body-shape.ts";
import { answerBrokenRequest, answerConnect } from "./broken-request.ts";
import type { ServerConfig } from "./config.ts";
import type { ServerContext } from "./context.ts";
import { type CallHandler, generationRoute } from "./generation-route.ts";
import { HttpError, httpFailure } from "./http-errors.ts";
import { kvEventRoutes } from "./kv-events/kv-event-routes.ts";
import { chatCompletions } from "./openai/chat-completions.ts";
import { completions } from "./openai/completions.ts";
import { embeddings } from "./openai/embeddings.ts";
import { getModel, listModels } from "./openai/models.ts";
import { detokenize, tokenize } from "./openai/tokenize.ts";
import { operationRoutes } from "./operations.ts";
import { headerRequestId } from "./request-id.ts";
import { logFailure, logRequests } from "./request-log.ts";
import { sliceLongAnswers } from "./sliced-answer.ts";
import { enforceWriteDeadline } from "./write-deadline.ts";

const standardError = 2;
const mediaTypeCode = "FST_ERR_CTP_INVALID_MEDIA_TYPE";
const HEADER_BYTES_MAX = 2 ** 14;
const CONNECTION_CHECK_MS_MAX = 5000;
const CHECKS_PER_LIMIT = 4;
const BODY_BYTES_MIN = 4 * 2 ** 20;
const DISCARDED_BYTES_MAX = 64 * 2 ** 20;
const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"] as const;

const GENERATION: readonly (readonly [string, CallHandler])[] = [
  ["/v1/chat/completions", chatCompletions],
  ["/v1/completions", completions],
  ["/v1/embeddings", embeddings],
  ["/tokenize", tokenize],
  ["/detokenize", detokenize],
];

/** Paths of POST requests that need the model and no other part of the server. */
export const GENERATION_PATHS: ReadonlySet<string> = new Set(GENERATION.map(([path]) => path));

/** Builds the application; it does not listen yet. */
export function createApp(context: ServerContext): FastifyInstance {
  const { config } = context;
  const app = newFastify(context);
  app.removeContentTypeParser("text/plain");
  parseJson(app, config.requestValuesMax, bodyBytesMax(context) / 2);
  limitConnections(app, config);
  sliceLongAnswers(app);
  app.server.on("connect", (_request, socket) => answerConnect(socket));
  app.addHook("preValidation", async (request) =>
    checkBodyShape(request.body, config.requestValuesMax),
  );
  if (config.enableRequestIdHeaders) echoRequestIds(app);
  logRequests(app, (request) => context.metrics.countRequest(request));
  allowOrigins(app, config.corsOrigins);
  requireApiKey(app, config.apiKey);
  answerFailures(app);
  operationRoutes(app, context);
  kvEventRoutes(app, context);
  modelRoutes(app, context);
  for (const [path, handler] of GENERATION) generationRoute(app, context, path, handler);
  return app;
}

/** Maximum bytes of a body, sized for the longest prompts: token ids, or text with escapes. */
function bodyBytesMax({ config, model }: ServerContext): number {
  return config.requestBytesMax ?? Math.max(BODY_BYTES_MIN, 16 * model.info.contextTokensMax);
}

function newFastify(context: ServerContext): FastifyInstance {
  const { config, newId } = context;
  return fastify({
    genReqId: ({ headers }) => headerRequestId(headers) ?? newId(),
    loggerInstance: createLogger(config),
    logController: new LogController({ disableRequestLogging: true }), // see logRequests
    bodyLimit: bodyBytesMax(context),
    requestTimeout: config.requestTimeoutMs,
    keepAliveTimeout: config.idleTimeoutMs,
    http: connectionOptions(config),
    forceCloseConnections: true,
    exposeHeadRoutes: true,
    routerOptions: { maxParamLength: 512 },
    clientErrorHandler: answerBrokenRequest,
    frameworkErrors: (error, _request, reply: FastifyReply) => {
      const failure = httpFailure(error);
      reply.code(failure.status).send(failure.body);
    },
  });
}

/** Limits for headers and bodies that arrive slowly or never end. */
function connectionOptions({ headersTimeoutMs, requestTimeoutMs }: ServerConfig) {
  const limits = [headersTimeoutMs, requestTimeoutMs].filter((limit) => limit > 0);
  const shortest = Math.min(...limits, CONNECTION_CHECK_MS_MAX * CHECKS_PER_LIMIT);
  return {
    headersTimeout: headersTimeoutMs,
    connectionsCheckingInterval: Math.ceil(shortest / CHECKS_PER_LIMIT),
    maxHeaderSize: HEADER_BYTES_MAX,
  };
}

function createLogger({ logLevel }: ServerConfig): FastifyBaseLogger {
  return pino({ level: logLevel }, pino.destination(standardError));
}

/**
 * Fastify's JSON parser, after a scan of the text that bounds the cost. Fastify's own check for
 * prototype names is off: it takes 0.5 s for a million numbers; `checkBodyShape` replaces it.
 */
function parseJson(app: FastifyInstance, valuesMax: number, bareMax: number): void {
  const parse = app.getDefaultJsonParser("ignore", "ignore");
  app.addContentTypeParser<string>(
    "application/json",
    { parseAs: "string" },
    (request, text, done) => {
      try {
        checkTextShape(text, { valuesMax, bareMax });
      } catch (error) {
        done(error as Error); // an HttpError
        return;
      }
      parse(request, text, done);
    },
  );
}

function limitConnections(app: FastifyInstance, config: ServerConfig): void {
  const stop = enforceWriteDeadline(app.server, config.writeTimeoutMs, (address) => {
    app.log.info(
      { address, ms: config.writeTimeoutMs },
      "closed a connection: its client stopped reading",
    );
  });
  app.addHook("onClose", async () => stop());
}

function echoRequestIds(app: FastifyInstance): void {
  app.addHook("onRequest", async (request, reply) => {
    reply.header("x-request-id", request.id);
  });
}

function modelRoutes(app: FastifyInstance, context: ServerContext): void {
  const startedSeconds = context.nowSeconds();
  app.get("/v1/models", async () => listModels(context, startedSeconds));
  // A wildcard, because names such as ORG/NAME contain slashes.
  app.get<{ Params: { "*": string } }>("/v1/models/*", async (request) =>
    getModel(context, request.params["*"], startedSeconds),
  );
}

function answerFailures(app: FastifyInstance): void {
  app.setErrorHandler((error, request, reply) => {
    const failure = httpFailure(withRemedy(error, request));
    logFailure(request.log, error, failure);
    if (failure.retryAfterSeconds !== null) reply.header("retry-after", failure.retryAfterSeconds);
    if (failure.status === 413 && isShortEnough(request)) reply.removeHeader("connection");
    if (failure.status === 401) reply.header("www-authenticate", "Bearer");
    reply.code(failure.status).send(failure.body);
  });
  app.setNotFoundHandler((request, reply) => {
    const path = request.url.split("?", 1)[0] ?? "";
    const allowed = METHODS.filter((method) => app.findRoute({ method, url: path }) !== null);
    if (allowed.length === 0) {
      throw new HttpError(404, "not_found", `Cannot find ${path}: there is no such endpoint`);
    }
    reply.header("allow", allowed.join(", "));
    throw new HttpError(
      405,
      "method_not_allowed",
      `Cannot ${request.method} ${path}: use ${allowed.join(" or ")}`,
    );
  });
}

/**
 * Whether the rest of a body that is too long is read and discarded: a client that is disconnected
 * while it writes often does not receive the answer.
 */
function isShortEnough({ headers }: FastifyRequest): boolean {
  return Number(headers["content-length"] ?? Number.POSITIVE_INFINITY) <= DISCARDED_BYTES_MAX;
}

/** Adds a remedy to Fastify's bare "Unsupported Media Type": the header is often forgotten. */
function withRemedy(error: unknown, request: FastifyRequest): unknown {
  if (!isMediaTypeError(error)) return error;
  const type = request.headers["content-type"] ?? "missing";
  return new HttpError(
    415,
    "invalid_media_type",
    `Cannot read body: its type must be JSON, current value is ${type}; ` +
      "send content-type: application/json",
  );
}

function isMediaTypeError(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === mediaTypeCode;
}
