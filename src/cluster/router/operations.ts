/** Routes for operators and load balancers. */
import type { FastifyInstance } from "fastify";
import { EngineError } from "#base";
import type { WorkerInfo, WorkerKv } from "#cluster/protocol";
import { readRedisAddress } from "#cluster/redis";
import { computes } from "#cluster/routing";
import { httpFailure } from "#server";
import { booksJson } from "./books-json.ts";
import type { RouterContext } from "./context.ts";

export function operationRoutes(app: FastifyInstance, context: RouterContext): void {
  for (const path of ["/health", "/ping", "/health/ready"]) {
    app.get(path, async (_request, reply) => {
      const problem = readinessProblem(context);
      if (problem === null) return reply.code(200).send();
      const { status, body, retryAfterSeconds } = httpFailure(problem);
      if (retryAfterSeconds !== null) reply.header("retry-after", retryAfterSeconds);
      return reply.code(status).send(body);
    });
  }
  app.get("/health/live", async (_request, reply) => reply.code(200).send());
  app.get("/version", async () => ({ version: context.version }));
  for (const path of ["/server_info", "/get_server_info"]) {
    app.get(path, async () => serverInfo(context));
  }
}

/** Null: some worker takes requests. */
function readinessProblem({ state, membership, links }: RouterContext): EngineError | null {
  if (state.draining) {
    return new EngineError("SHUTTING_DOWN", "The router is shutting down: running requests finish");
  }
  const ready = [...membership.workers.values()].some(
    ({ info, state: own }) =>
      own === "ready" && computes(info) && links.find(info.id)?.breaker.state !== "open",
  );
  if (ready) return null;
  const count = membership.workers.size;
  return new EngineError("NOT_READY", `No worker is ready: ${count} are known`);
}

/** In snake_case, as all that this route says; absent fields of a worker are left out. */
function workerJson(info: WorkerInfo): object {
  const { contextTokensMax, kv, roleEpoch, rolePinned, ...same } = info;
  return {
    ...same,
    context_tokens_max: contextTokensMax,
    kv: kv === null ? null : kvJson(kv),
    ...(roleEpoch !== undefined && { role_epoch: roleEpoch }),
    ...(rolePinned !== undefined && { role_pinned: rolePinned }),
  };
}

function kvJson({ blockTokens, groupWindows, ...same }: WorkerKv): object {
  return { ...same, block_tokens: blockTokens, group_windows: groupWindows };
}

/** The fleet as this router sees it, without secrets. */
function serverInfo(context: RouterContext): unknown {
  const { version, config, membership, links, dispatcher, relays, state } = context;
  const { apiKey, redis, ...options } = config;
  return {
    version,
    role: "router",
    draining: state.draining,
    requests_in_work: relays.size,
    workers: [...membership.workers.values()].map(({ info, state: workerState }) => ({
      ...workerJson(info),
      state: workerState,
      breaker: links.find(info.id)?.breaker.state ?? null,
      books: booksJson(dispatcher.books.viewOf(info.id, null)),
    })),
    api_keys: apiKey.length,
    // An address may have a password.
    options: { ...options, redis: redis === null ? null : readRedisAddress(redis).place },
  };
}
