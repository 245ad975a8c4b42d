/** The router's HTTP application. */
import { randomUUID } from "node:crypto";
import type { FastifyInstance, FastifyRequest } from "fastify";
import type { Counter } from "prom-client";
import { createHttpApp } from "#server";
import type { BodyBudget } from "./body-budget.ts";
import type { RouterContext } from "./context.ts";
import { explainRoutes } from "./explain.ts";
import { metricsRoute } from "./fleet-metrics.ts";
import { fleetPage } from "./fleet-page.ts";
import { kvEventRoutes } from "./kv-events-route.ts";
import { modelsRoutes } from "./models-route.ts";
import { ollamaRoutes } from "./ollama-routes.ts";
import { operationRoutes } from "./operations.ts";
import { relayRoutes } from "./relay-route.ts";
import { responseRoutes } from "./response-routes.ts";
import { rolesRoute } from "./roles-route.ts";
import { workerMetricsRoute } from "./worker-metrics.ts";

/** What the application needs before its routes' context exists. */
export interface AppParts {
  readonly config: RouterContext["config"];
  readonly texts: WeakMap<FastifyRequest, string>;
  readonly requests: Counter<"route" | "status">;
  readonly bodies: BodyBudget;
}

/** An application without routes; it does not listen yet. */
export function createRouterApp({ config, texts, requests, bodies }: AppParts): FastifyInstance {
  const app = createHttpApp({
    config,
    bodyBytesMax: config.requestBytesMax,
    newId: () => randomUUID(),
    onRequestEnd: ({ route, status }) =>
      requests.inc({ route: route ?? "none", status: String(status) }),
    onText: (request, text) => texts.set(request, text),
  });
  bodies.watch(app);
  return app;
}

export function addRoutes(app: FastifyInstance, context: RouterContext): void {
  operationRoutes(app, context);
  fleetPage(app, context);
  modelsRoutes(app, context);
  relayRoutes(app, context);
  responseRoutes(app, context);
  ollamaRoutes(app, context);
  explainRoutes(app, context);
  rolesRoute(app, context);
  metricsRoute(app, context);
  workerMetricsRoute(app, context);
  kvEventRoutes(app, context);
}
