/** The page of a fleet: the same files as a server's, and a stream of what the router sees. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { WorkerInfo } from "#cluster/protocol";
import { EventStream, namedEvent, pageRoutes, Viewers } from "#server";
import type { RouterContext } from "./context.ts";

const TICK_MS = 1000;
/** Workers of one message. */
const WORKERS_MAX = 256;
/** Decisions of one message: the newest ones since the last message. */
const DECISIONS_MAX = 32;
const MODELS_MAX = 64;

/** `GET /` and `GET /dashboard/events` of a router. */
export function fleetPage(app: FastifyInstance, context: RouterContext): void {
  const { version, config } = context;
  pageRoutes(app, () => ({ name: "perigee router", version }));
  const viewers = new Viewers(config.dashboardViewersMax);
  let timer: NodeJS.Timeout | null = null;
  let decided = context.decisions.count;
  const stop = () => {
    if (timer !== null) clearInterval(timer);
    timer = null;
  };
  const tick = () => {
    const decisions = context.decisions.since(decided).slice(-DECISIONS_MAX);
    decided = context.decisions.count;
    viewers.send(namedEvent("fleet", fleetMessage(context, { decisions, viewers: viewers.count })));
  };
  app.get("/dashboard/events", { exposeHeadRoute: false }, async (request, reply) => {
    viewers.checkRoom();
    const stream = open(request, reply, context);
    const leave = viewers.add(stream, "now");
    // Nothing is collected while no page is open.
    if (timer === null) {
      decided = Math.max(0, context.decisions.count - DECISIONS_MAX);
      timer = setInterval(tick, TICK_MS).unref();
      tick();
    }
    const end = () => {
      leave();
      if (viewers.count === 0) stop();
    };
    reply.raw.once("close", end);
    if (request.raw.socket.destroyed) end();
    return reply;
  });
  app.addHook("preClose", async () => {
    stop();
    viewers.close();
    await new Promise((resolve) => setImmediate(resolve));
  });
}

function open(request: FastifyRequest, reply: FastifyReply, context: RouterContext): EventStream {
  reply.hijack();
  const { streamKeepAliveMs: keepAliveMs } = context.config;
  const stream = new EventStream(reply.raw, { headers: reply.getHeaders(), keepAliveMs });
  stream.send(namedEvent("hello", hello(context)));
  request.log.debug("a page is open");
  return stream;
}

function hello({ version, membership }: RouterContext): unknown {
  const models = [...membership.workers.values()].flatMap(({ info }) => info.models);
  return {
    ...{ kind: "router", version, tickMs: TICK_MS, model: null, canLook: false },
    models: [...new Set(models)].slice(0, MODELS_MAX),
    ...{ admin: false, hasAdmin: false, hasVectorStores: false },
  };
}

function fleetMessage(
  context: RouterContext,
  { decisions, viewers }: { readonly decisions: readonly string[]; readonly viewers: number },
): unknown {
  const { config, membership, relays, tools, state } = context;
  const workers = [...membership.workers.values()];
  return {
    ms: Math.round(performance.now()),
    viewers,
    requestsInWork: relays.size,
    waiting: tools.room.count,
    draining: state.draining,
    policy: config.policy,
    ttftDeadlineMs: config.ttftDeadline,
    tbtDeadlineMs: config.tbtDeadline,
    workers: workers.slice(0, WORKERS_MAX).map(({ info, state: own }) => ({
      ...workerJson(context, info),
      state: own,
    })),
    workersMore: Math.max(0, workers.length - WORKERS_MAX),
    decisions,
  };
}

function workerJson({ links, dispatcher, caches }: RouterContext, info: WorkerInfo): object {
  const books = dispatcher.books.viewOf(info.id, null);
  return {
    id: info.id,
    url: info.url,
    kind: info.kind,
    role: info.role ?? "both",
    breaker: links.find(info.id)?.breaker.state ?? null,
    models: info.models.slice(0, MODELS_MAX),
    requests: books.requests,
    decoding: books.decoding,
    uncachedTokens: books.uncachedTokens,
    heldBlocks: books.heldBlocks,
    blocks: info.kv?.blocks ?? [],
    announces: caches.announces(info),
  };
}
