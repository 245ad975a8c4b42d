/** Routes for operators and load balancers: health, version, metrics, server info. */
import type { FastifyInstance } from "fastify";
import { EngineError } from "#base";
import type { EngineHealth } from "#engine";
import type { ServerContext } from "./context.ts";
import { pageRoutes } from "./dashboard/page-routes.ts";
import { httpFailure } from "./http-errors.ts";
import { loadRoutes } from "./load-routes.ts";
import { ResponseShelves } from "./openai/responses/response-store.ts";

const MS_PER_SECOND = 1000;

export function operationRoutes(app: FastifyInstance, context: ServerContext): void {
  const { model, metrics, version } = context;
  for (const [path, problemOf] of HEALTH) {
    app.get(path, async (_request, reply) => {
      const problem = problemOf(context);
      if (problem === null) return reply.code(200).send();
      const failure = httpFailure(problem);
      return reply.code(failure.status).send(failure.body);
    });
  }
  app.get("/version", async () => ({ version }));
  app.get("/metrics", async (_request, reply) => {
    reply.header("content-type", metrics.contentType);
    return metrics.text();
  });
  for (const path of ["/server_info", "/get_server_info"]) {
    app.get(path, async () => serverInfo(context));
  }
  for (const path of ["/model_info", "/get_model_info"]) {
    app.get(path, async () => modelInfo(context));
  }
  loadRoutes(app, context);
  pageRoutes(app, () => ({
    name: "perigee",
    version,
    model: context.modelNames[0],
    device: model.info.device,
    endpoints: ENDPOINTS,
  }));
}

type Check = (context: ServerContext) => EngineError | null;

/** `live`: whether a restart would help; `ready`: whether requests are accepted; others: both. */
const HEALTH: readonly (readonly [string, Check])[] = [
  ["/health", readinessProblem],
  ["/ping", readinessProblem],
  ["/health/ready", readinessProblem],
  ["/health/live", livenessProblem],
];

const ENDPOINTS = [
  "POST /v1/chat/completions",
  "POST /v1/responses",
  "POST /v1/completions",
  "POST /v1/embeddings",
  "POST /v1/rerank",
  "POST /v2/rerank",
  "POST /v1/score",
  "POST /v1/chat/completions/render",
  "POST /v1/completions/render",
  "POST /v1/messages",
  "POST /v1/messages/count_tokens",
  "POST /api/chat",
  "POST /api/generate",
  "POST /api/embed",
  "POST /api/show",
  "GET /api/tags",
  "GET /api/ps",
  "GET /api/version",
  "GET /v1/models",
  "POST /tokenize",
  "POST /detokenize",
  "GET /dashboard/events",
  "POST /kv_cache_events",
  "GET /kv_cache_events/stream",
  "GET /openapi.json",
  "GET /docs",
  "GET /health",
  "GET /health/live",
  "GET /health/ready",
  "GET /metrics",
  "GET /server_info",
  "GET /model_info",
  "GET /get_load",
  "GET /v1/loads",
  "POST /reset_prefix_cache",
  "GET /worker_info",
  "POST /worker_role",
  "POST /kv_fill",
];

/** The engine's state, or `draining` if the server accepts no more requests. */
function serverHealth({ model, admission }: ServerContext): EngineHealth {
  const health = model.health();
  return health.state === "ready" && admission.draining ? { state: "draining" } : health;
}

/** A draining server is still live. */
function livenessProblem({ model, config }: ServerContext): EngineError | null {
  const health = model.health();
  if (health.state === "dead") {
    return new EngineError("ENGINE_DEAD", `The engine has stopped: ${health.reason}`);
  }
  const turnMs = model.turnMs?.() ?? 0;
  if (config.stuckAfterMs === 0 || turnMs <= config.stuckAfterMs) return null;
  const seconds = Math.round(turnMs / MS_PER_SECOND);
  return new EngineError("ENGINE_STUCK", `The engine is stuck: its step takes ${seconds} s so far`);
}

function readinessProblem(context: ServerContext): EngineError | null {
  const problem = livenessProblem(context);
  if (problem !== null || serverHealth(context).state !== "draining") return problem;
  return new EngineError(
    "SHUTTING_DOWN",
    "The server is shutting down: running requests finish, new ones are refused",
  );
}

/** Model, state and options for operators, without the API keys. */
function serverInfo(context: ServerContext): unknown {
  const { model, config, modelNames, version, admission } = context;
  const { apiKey, adminKey, ...options } = config;
  return {
    version,
    // SGLang's routers read these, and take nothing else where `model` is no text.
    model: modelNames[0],
    model_path: model.info.name,
    served_model_name: modelNames[0],
    ...{ tp_size: 1, dp_size: 1 },
    model_details: model.info,
    served_model_names: modelNames,
    health: serverHealth(context),
    engine_turn_ms: model.turnMs?.() ?? null,
    stats: model.stats(),
    requests_in_work: admission.runningCount,
    kept_responses: keptResponses(context),
    tokens_per_block: model.info.blockTokens,
    kv_cache_hash_algo: model.kvEvents.hashAlgorithm,
    kv_events: kvEventsInfo(context),
    api_keys: apiKey.length,
    admin_keys: adminKey.length,
    options,
  };
}

/** How many there are, and their bytes. */
function keptResponses({ responses: { store } }: ServerContext): unknown {
  return store instanceof ResponseShelves ? store.size : null;
}

/** What SGLang's routers ask of a worker before they send it requests. */
function modelInfo({ model: { info }, modelNames }: ServerContext): unknown {
  return {
    model_path: info.name,
    tokenizer_path: info.hasTokenizer ? info.name : null,
    served_model_name: modelNames[0],
    is_generation: info.kind === "decoder",
    architectures: [info.architecture],
    max_model_len: info.contextTokensMax,
    preferred_sampling_params: null,
  };
}

/** The data that a router needs to follow the cache's events. */
function kvEventsInfo({ model: { kvEvents }, kvPublisher }: ServerContext): unknown {
  return {
    enabled: kvEvents.enabled,
    stream_id: kvEvents.streamId,
    buffer_max: kvEvents.bufferMax,
    first_event_id: kvEvents.firstId,
    next_event_id: kvEvents.nextId,
    zmq:
      kvPublisher === null
        ? null
        : {
            endpoint: kvPublisher.endpoint,
            replay_endpoint: kvPublisher.replayEndpoint,
            topic: kvPublisher.topic,
          },
  };
}
