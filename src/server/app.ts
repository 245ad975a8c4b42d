/** The HTTP application of a served model: its routes. */
import type { FastifyInstance } from "fastify";
import { admitted } from "./admitted.ts";
import { ANTHROPIC } from "./anthropic/anthropic-dialect.ts";
import { countTokens } from "./anthropic/count-tokens.ts";
import { messages } from "./anthropic/messages.ts";
import { bodyBytesMax } from "./body-limit.ts";
import type { ServerContext } from "./context.ts";
import {
  CHAT_PATH,
  type GenerationRoute,
  generationRoute,
  RESPONSES_PATH,
} from "./generation-route.ts";
import { createHttpApp } from "./http-app.ts";
import { kvEventRoutes } from "./kv-events/kv-event-routes.ts";
import { ollamaChat } from "./ollama/ollama-chat.ts";
import { OLLAMA } from "./ollama/ollama-dialect.ts";
import { ollamaEmbed, ollamaEmbeddings } from "./ollama/ollama-embed.ts";
import { ollamaGenerate } from "./ollama/ollama-generate.ts";
import { ollamaModelRoutes } from "./ollama/ollama-models.ts";
import { chatCompletions } from "./openai/chat-completions.ts";
import { completions } from "./openai/completions.ts";
import { embeddings } from "./openai/embeddings.ts";
import { getModel, listModels } from "./openai/models.ts";
import { renderChat, renderCompletions } from "./openai/render.ts";
import { rerank, rerankV2 } from "./openai/rerank.ts";
import { responseRoutes } from "./openai/responses/response-routes.ts";
import { RESPONSES, responses } from "./openai/responses/responses.ts";
import { score } from "./openai/score.ts";
import { detokenize, tokenize } from "./openai/tokenize.ts";
import { openApiRoutes, watchRoutes } from "./openapi/openapi-routes.ts";
import { operationRoutes } from "./operations.ts";

const GENERATION: readonly GenerationRoute[] = [
  { path: CHAT_PATH, handler: chatCompletions },
  { path: RESPONSES_PATH, handler: responses, dialect: RESPONSES },
  { path: "/v1/completions", handler: completions },
  { path: "/v1/embeddings", handler: embeddings },
  { path: "/v1/rerank", handler: rerank },
  { path: "/rerank", handler: rerank },
  { path: "/v2/rerank", handler: rerankV2 },
  { path: "/v1/score", handler: score },
  { path: "/score", handler: score },
  { path: "/v1/chat/completions/render", handler: renderChat },
  { path: "/v1/completions/render", handler: renderCompletions },
  { path: "/tokenize", handler: tokenize },
  { path: "/detokenize", handler: detokenize },
  { path: "/v1/messages", handler: messages, dialect: ANTHROPIC },
  { path: "/v1/messages/count_tokens", handler: countTokens, dialect: ANTHROPIC },
  { path: "/api/chat", handler: ollamaChat, dialect: OLLAMA },
  { path: "/api/generate", handler: ollamaGenerate, dialect: OLLAMA },
  { path: "/api/embed", handler: ollamaEmbed, dialect: OLLAMA },
  { path: "/api/embeddings", handler: ollamaEmbeddings, dialect: OLLAMA },
];

/** Paths of POST requests that need the model and no other part of the server. */
export const GENERATION_PATHS: ReadonlySet<string> = new Set(GENERATION.map(({ path }) => path));

/** Builds the application; it does not listen yet. */
export function createApp(context: ServerContext): FastifyInstance {
  const { config, newId } = context;
  const app = createHttpApp({
    ...{ config, newId, bodyBytesMax: bodyBytesMax(context), adminKeys: config.adminKey },
    onRequestEnd: (request) => context.metrics.countRequest(request),
  });
  const routes = watchRoutes(app);
  operationRoutes(app, context);
  openApiRoutes(app, context, routes);
  kvEventRoutes(app, context);
  modelRoutes(app, context);
  ollamaModelRoutes(app, context);
  responseRoutes(app, context);
  for (const route of GENERATION) generationRoute(app, context, route);
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
