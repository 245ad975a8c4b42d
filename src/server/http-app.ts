/** HTTP applications without routes: limits, access, logging, and answers to invalid requests. */
import type { Duplex } from "node:stream";
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
import { OPENAI } from "./dialect.ts";
import type { EndedRequest } from "./ended-request.ts";
import type { HttpConfig } from "./http-config.ts";
import { HttpError, httpFailure } from "./http-errors.ts";
import { headerRequestId } from "./request-id.ts";
import { logFailure, logRequests } from "./request-log.ts";
import { sliceLongAnswers } from "./sliced-answer.ts";
import { enforceWriteDeadline } from "./write-deadline.ts";

const standardError = 2;
const mediaTypeCode = "FST_ERR_CTP_INVALID_MEDIA_TYPE";
const bodyLengthCode = "FST_ERR_CTP_BODY_TOO_LARGE";
/** Of Node's streams. */
const CUT_OFF = "ERR_STREAM_PREMATURE_CLOSE";
const HEADER_BYTES_MAX = 2 ** 14;
const CONNECTION_CHECK_MS_MAX = 5000;
const CHECKS_PER_LIMIT = 4;
const DISCARDED_BYTES_MAX = 64 * 2 ** 20;
const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"] as const;

/** What an application without routes is made of. */
export interface HttpAppParts {
  readonly config: HttpConfig;
  /** Accepted like API keys, where those are needed. Default: none. */
  readonly adminKeys?: readonly string[];
  /** Longest body of a request, in bytes; half of it may be numbers. */
  readonly bodyBytesMax: number;
  /** A fresh random id. */
  newId(): string;
  /** Called with each request that ended. */
  readonly onRequestEnd: (request: EndedRequest) => void;
  /** Receives the JSON text of each body before it is parsed. */
  readonly onText?: (request: FastifyRequest, text: string) => void;
}

/** An application without routes; it does not listen yet. */
export function createHttpApp(parts: HttpAppParts): FastifyInstance {
  const { config, adminKeys = [] } = parts;
  const app = newFastify(parts);
  app.removeContentTypeParser("text/plain");
  parseJson(app, parts);
  limitConnections(app, config);
  sliceLongAnswers(app);
  app.server.on("connect", (_request, socket) => answerConnect(socket));
  app.addHook("preValidation", async (request) =>
    checkBodyShape(request.body, config.requestValuesMax),
  );
  if (config.enableRequestIdHeaders) echoRequestIds(app);
  logRequests(app, parts.onRequestEnd);
  allowOrigins(app, config.corsOrigins);
  if (config.apiKey.length > 0) requireApiKey(app, [...config.apiKey, ...adminKeys]);
  answerFailures(app);
  return app;
}

function newFastify({ config, bodyBytesMax, newId }: HttpAppParts): FastifyInstance {
  return fastify({
    genReqId: ({ headers }) => headerRequestId(headers) ?? newId(),
    loggerInstance: createLogger(config),
    logController: new LogController({
      requestIdLogLabel: "requestId",
      disableRequestLogging: true, // see logRequests
    }),
    bodyLimit: bodyBytesMax,
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

/** Prepares the application, which has no address of its own; returns the connection handler. */
export async function openApp(app: FastifyInstance): Promise<(connection: Duplex) => void> {
  await app.ready();
  // Node checks for slow requests only in servers that listen; this one receives its connections.
  app.server.emit("listening");
  return (connection) => {
    app.server.emit("connection", connection);
    connection.resume();
  };
}

/** Limits for headers and bodies that arrive slowly or never end. */
function connectionOptions({ headersTimeoutMs, requestTimeoutMs }: HttpConfig) {
  const limits = [headersTimeoutMs, requestTimeoutMs].filter((limit) => limit > 0);
  const shortest = Math.min(...limits, CONNECTION_CHECK_MS_MAX * CHECKS_PER_LIMIT);
  return {
    headersTimeout: headersTimeoutMs,
    connectionsCheckingInterval: Math.ceil(shortest / CHECKS_PER_LIMIT),
    maxHeaderSize: HEADER_BYTES_MAX,
  };
}

function createLogger({ logLevel }: HttpConfig): FastifyBaseLogger {
  return pino({ level: logLevel }, pino.destination(standardError));
}

/**
 * Fastify's JSON parser, after a scan of the text that bounds the cost. Fastify's own check for
 * prototype names is off: it takes 0.5 s for a million numbers; `checkBodyShape` replaces it.
 */
function parseJson(app: FastifyInstance, { config, bodyBytesMax, onText }: HttpAppParts): void {
  const limits = { valuesMax: config.requestValuesMax, bareMax: bodyBytesMax / 2 };
  const parse = app.getDefaultJsonParser("ignore", "ignore");
  app.addContentTypeParser<string>(
    "application/json",
    { parseAs: "string" },
    (request, text, done) => {
      try {
        checkTextShape(text, limits);
      } catch (error) {
        done(error as Error); // an HttpError
        return;
      }
      onText?.(request, text);
      parse(request, text, done);
    },
  );
}

function limitConnections(app: FastifyInstance, config: HttpConfig): void {
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

function answerFailures(app: FastifyInstance): void {
  app.setErrorHandler((error, request, reply) => {
    const failure = httpFailure(withRemedy(error, request));
    if (!isCutOff(error, request)) logFailure(request.log, error, failure);
    if (failure.retryAfterSeconds !== null) reply.header("retry-after", failure.retryAfterSeconds);
    const mayBeUnread = failure.status === 413 || failure.status === 503;
    if (mayBeUnread && isShortEnough(request)) reply.removeHeader("connection");
    if (failure.status === 401) reply.header("www-authenticate", "Bearer");
    const { dialect = OPENAI } = request.routeOptions.config;
    const { status, body } = dialect.failure(failure, request.id);
    reply.code(status).headers(dialect.headers(request.id)).send(body);
  });
  app.setNotFoundHandler((request, reply) => {
    const path = request.url.split("?", 1)[0] ?? "";
    const allowed = METHODS.filter((method) => app.findRoute({ method, url: path }) !== null);
    if (allowed.length === 0) {
      // A base URL without /v1 is the commonest slip of OpenAI's clients.
      const isKnown = METHODS.some(
        (method) => app.findRoute({ method, url: `/v1${path}` }) !== null,
      );
      const hint = isKnown ? `; it is /v1${path}: clients' base URL ends in /v1` : "";
      throw new HttpError(
        404,
        "not_found",
        `Cannot find ${path}: there is no such endpoint${hint}`,
      );
    }
    reply.header("allow", allowed.join(", "));
    throw new HttpError(
      405,
      "method_not_allowed",
      `Cannot ${request.method} ${path}: use ${allowed.join(" or ")}`,
    );
  });
}

/** Whether a connection ended before all of it was read or written: no failure of the server's. */
function isCutOff(error: unknown, { raw }: FastifyRequest): boolean {
  const isEnd = error instanceof Error && "code" in error && error.code === CUT_OFF;
  return isEnd && raw.socket.destroyed;
}

/**
 * Whether the rest of a body that is too long is read and discarded: a client that is disconnected
 * while it writes often does not receive the answer.
 */
function isShortEnough({ headers }: FastifyRequest): boolean {
  return Number(headers["content-length"] ?? Number.POSITIVE_INFINITY) <= DISCARDED_BYTES_MAX;
}

/**
 * Adds a remedy to Fastify's bare "Unsupported Media Type", since the header is often forgotten,
 * and the limit to its "Request body is too large".
 */
function withRemedy(error: unknown, request: FastifyRequest): unknown {
  if (hasCode(error, bodyLengthCode)) {
    const length = request.headers["content-length"] ?? "more";
    return new HttpError(
      413,
      "body_too_large",
      `Cannot read body: must have at most ${request.routeOptions.bodyLimit} bytes ` +
        `(requestBytesMax), current value is ${length}; send less at once`,
    );
  }
  if (!hasCode(error, mediaTypeCode)) return error;
  const type = request.headers["content-type"] ?? "missing";
  return new HttpError(
    415,
    "invalid_media_type",
    `Cannot read body: its type must be JSON, current value is ${type}; ` +
      "send content-type: application/json",
  );
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}
