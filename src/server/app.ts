/** The HTTP application of a served model: its routes. */
import type { FastifyInstance } from "fastify";
import { admitted } from "./admitted.ts";
import type { ServerContext } from "./context.ts";
import { type CallHandler, CHAT_PATH, generationRoute } from "./generation-route.ts";
import { createHttpApp } from "./http-app.ts";
import { kvEventRoutes } from "./kv-events/kv-event-routes.ts";
import { chatCompletions } from "./openai/chat-completions.ts";
import { completions } from "./openai/completions.ts";
import { embeddings } from "./openai/embeddings.ts";
import { getModel, listModels } from "./openai/models.ts";
import { renderChat, renderCompletions } from "./openai/render.ts";
import { rerank, rerankV2 } from "./openai/rerank.ts";
import { score } from "./openai/score.ts";
import { detokenize, tokenize } from "./openai/tokenize.ts";
import { operationRoutes } from "./operations.ts";

const BODY_BYTES_MIN = 4 * 2 ** 20;

const GENERATION: readonly (readonly [string, CallHandler])[] = [
  [CHAT_PATH, chatCompletions],
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
    ...{ config, newId, bodyBytesMax: bodyBytesMax(context), adminKeys: config.adminKey },
    onRequestEnd: (request) => context.metrics.countRequest(request),
  });
  operationRoutes(app, context);
  kvEventRoutes(app, context);
  modelRoutes(app, context);
  for (const [path, handler] of GENERATION) generationRoute(app, context, path, handler);
  context.extension?.addRoutes(app, (request, reply, work) =>
    admitted(context.admission, { request, reply }, work),
  );
  return app;
}

/** Maximum bytes of a body, sized for the longest prompts: token ids, or text with escapes. */
function bodyBytesMax({ config, model }: ServerContext): number {
  return config.requestBytesMax ?? Math.max(BODY_BYTES_MIN, 16 * model.info.contextTokensMax);
}

function modelRoutes(app: FastifyInstance, context: ServerContext): void {
  const startedSeconds = context.nowSeconds();
  app.get("/v1/models", async () => listModels(context, startedSeconds));
  // A wildcard, because names such as ORG/NAME contain slashes.
  app.get<{ Params: { "*": string } }>("/v1/models/*", async (request) =>
    getModel(context, request.params["*"], startedSeconds),
  );
}
