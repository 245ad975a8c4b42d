/** The HTTP application of a served model: its routes. */
import type { FastifyInstance } from "fastify";
import { admitted } from "./admitted.ts";
import { bodyBytesMax } from "./body-limit.ts";
import type { ServerContext } from "./context.ts";
import {
  type CallHandler,
  CHAT_PATH,
  generationRoute,
  RESPONSES_PATH,
} from "./generation-route.ts";
import { createHttpApp } from "./http-app.ts";
import { kvEventRoutes } from "./kv-events/kv-event-routes.ts";
import { chatCompletions } from "./openai/chat-completions.ts";
import { completions } from "./openai/completions.ts";
import { embeddings } from "./openai/embeddings.ts";
import { getModel, listModels } from "./openai/models.ts";
import { renderChat, renderCompletions } from "./openai/render.ts";
import { rerank, rerankV2 } from "./openai/rerank.ts";
import { responseRoutes } from "./openai/responses/response-routes.ts";
import { responses } from "./openai/responses/responses.ts";
import { score } from "./openai/score.ts";
import { detokenize, tokenize } from "./openai/tokenize.ts";
import { openApiRoutes, watchRoutes } from "./openapi/openapi-routes.ts";
import { operationRoutes } from "./operations.ts";

const GENERATION: readonly (readonly [string, CallHandler])[] = [
  [CHAT_PATH, chatCompletions],
  [RESPONSES_PATH, responses],
  ["/v1/completions", completions],
  ["/v1/embeddings", embeddings],
  ["/v1/rerank", rerank],
  ["/rerank", rerank],
  ["/v2/rerank", rerankV2],
  ["/v1/score", score],
  ["/score", score],
  ["/v1/chat/completions/render", renderChat],
  ["/v1/completions/render", renderCompletions],
  ["/tokenize", tokenize],
  ["/detokenize", detokenize],
];

/** Paths of POST requests that need the model and no other part of the server. */
export const GENERATION_PATHS: ReadonlySet<string> = new Set(GENERATION.map(([path]) => path));

/** Builds the application; it does not listen yet. */
export function createApp(context: ServerContext): FastifyInstance {
  const { config, newId } = context;
  const app = createHttpApp({
    ...{ config, newId, bodyBytesMax: bodyBytesMax(context) },
    onRequestEnd: (request) => context.metrics.countRequest(request),
  });
  const routes = watchRoutes(app);
  operationRoutes(app, context);
  openApiRoutes(app, context, routes);
  kvEventRoutes(app, context);
  modelRoutes(app, context);
  responseRoutes(app, context);
  for (const [path, handler] of GENERATION) generationRoute(app, context, path, handler);
  context.extension?.addRoutes(app, (request, reply, work) =>
    admitted(context.admission, { request, reply }, work),
  );
  return app;
}

function modelRoutes(app: FastifyInstance, context: ServerContext): void {
  const startedSeconds = context.nowSeconds();
  app.get("/v1/models", async () => listModels(context, startedSeconds));
  // A wildcard, because names such as ORG/NAME contain slashes.
  app.get<{ Params: { "*": string } }>("/v1/models/*", async (request) =>
    getModel(context, request.params["*"], startedSeconds),
  );
}
