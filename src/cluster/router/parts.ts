/** Makes the parts of a router and joins them. */
import { randomInt, randomUUID } from "node:crypto";
import type { FastifyInstance, FastifyRequest } from "fastify";
import { Counter, Registry } from "prom-client";
import { systemClock, systemTimer } from "#base";
import { ConductorConfig, FleetConductor } from "#cluster/conductor";
import { RedisStreams } from "#cluster/feeds";
import { WorkerHttp } from "#cluster/http";
import { HitCeiling } from "#cluster/index";
import { LoadWatch, openMembership, RedisBooks, RedisLink } from "#cluster/membership";
import type { Membership, WorkerInfo, WorkerLoad } from "#cluster/protocol";
import { Dispatcher, IndexedPrefixes, type Rng, seededRng, serves } from "#cluster/routing";
import { ownVersion } from "#server";
import { createRouterApp } from "./app.ts";
import { BodyBudget } from "./body-budget.ts";
import type { RouterConfig } from "./config.ts";
import type { RouterContext } from "./context.ts";
import { DeadlineMetrics, GAP_BOUNDS_MS } from "./deadline-metrics.ts";
import { DecisionBook } from "./decision-book.ts";
import { DecisionLog } from "./decision-log.ts";
import { FillMetrics } from "./fill-metrics.ts";
import { FleetCaches } from "./fleet-caches.ts";
import { HitWatch } from "./hit-watch.ts";
import { KvFills } from "./kv-fills.ts";
import { ModelCodecs } from "./model-codecs.ts";
import { NativeRelay } from "./native-relay.ts";
import { PromptReader } from "./prompt-reader.ts";
import { QueueMetrics } from "./queue-metrics.ts";
import type { Relay } from "./relay.ts";
import { RelayMetrics } from "./relay-metrics.ts";
import type { RelayTools } from "./relay-order.ts";
import { RemoteTokens } from "./remote-tokens.ts";
import { rolePartsOf } from "./role-parts.ts";
import type { RouterSecrets } from "./secrets.ts";
import { SharedLoads } from "./shared-loads.ts";
import { watchStatus } from "./status-watch.ts";
import { Sweep } from "./sweep.ts";
import { TokenWatch } from "./token-watch.ts";
import { WaitingRoom } from "./waiting-room.ts";
import { WorkerLinks } from "./worker-links.ts";

/** A router that does not listen yet. */
export interface RouterParts {
  readonly app: FastifyInstance;
  readonly context: RouterContext;
  /** Everything but the application. */
  close(): Promise<void>;
}

/** Throws INVALID_ARGUMENT where no worker can be found. */
export function createParts(config: RouterConfig, secrets: RouterSecrets): RouterParts {
  const registry = new Registry();
  const texts = new WeakMap<FastifyRequest, string>();
  const bodies = new BodyBudget(config, registry);
  const app = createRouterApp({ config, texts, bodies, requests: requestCounter(registry) });
  const say = (message: string, fields: object = {}) => app.log.info(fields, message);
  const warn = (message: string, fields: object = {}) => app.log.warn(fields, message);
  const warnOfRedis = unlessSaid(warn);
  const keys = keysOf(secrets);
  const http = new WorkerHttp(secrets.workerCa ?? null);
  const membership = openMembership({
    ...{ redis: config.redis, workers: config.worker, warn: warnOfRedis, say, http, ...keys },
  });
  const relays = new Set<Relay>();
  const codecs = new ModelCodecs({ models: config.model, say: warn });
  const links = linksOf(membership, { config, secrets, relays, codecs, say, warn });
  const { caches, ceiling, streams, watch } = cachesOf(membership, {
    ...{ config, secrets, codecs, warn, http },
  });
  const prefixes = new IndexedPrefixes({
    placeOf: (info, query) => caches.placeOf(info, query),
    ...{ clock: systemClock, ledger: ceiling },
  });
  const metrics = new FillMetrics(registry);
  const fills = new KvFills({ membership, links, prefixes, kind: config.kvFill, metrics, warn });
  const startingMs = config.redis === null ? 0 : STARTING_MS;
  const rng = seededRng(randomInt(2 ** 31));
  const native = config.nativeRelay === "off" ? null : NativeRelay.open(GAP_BOUNDS_MS);
  const common = { config, membership, registry };
  const { conductor, decisions, log } = conductorOf({ ...common, rng, warn, native });
  const told = { onComputed: fills.computed.bind(fills), onHeld: decisions.held.bind(decisions) };
  const hits = new HitWatch({ prefixes, caches, tokens: watch, say: warn, ...told });
  const dispatcher = new Dispatcher({
    ...{ membership, prefixes, policy: config.policy, clock: systemClock, rng },
    ...{ planner: conductor, startingMs, isOpen: (id: string) => links.admits(id) },
    room: { waitMsMax: config.workerWaitMs, requestsMax: config.workerRequestsMax },
  });
  const waiting = { startingMs, dispatcher, clock: systemClock, timer: systemTimer };
  const room = new WaitingRoom({ ...config, ...waiting, metrics: new QueueMetrics(registry) });
  const loads = new LoadWatch(membership, {
    ...{ secret: keys.secret, http },
    onLoad: (info, load) => noteLoad({ dispatcher, conductor }, info, load),
  });
  const { link, books } = booksOf(config, warnOfRedis);
  const shared = books === null ? null : sharedLoads(books, membership, dispatcher);
  const sweep = new Sweep(shortestOf(config));
  const { roles, roleOrders, balancer } = rolePartsOf({
    ...{ ...common, conductor, dispatcher, links, room, link, say, decisions },
  });
  const tools: RelayTools = {
    ...{ dispatcher, links, sweep, native, codecs, hits, room, shared, warn, limits: config },
    ...{ metrics: new RelayMetrics(registry, native), showWorker: config.showWorker, roles },
  };
  const context: RouterContext = {
    ...{ config, membership, links, dispatcher, codecs, caches, ceiling, hits, relays },
    ...{ conductor, decisions, registry, bodies, texts, tools, version: ownVersion() },
    ...{ prompts: promptsOf(links, codecs), roleOrders, balancer },
    state: { draining: false, cutOff: false },
    log: () => app.log,
  };
  const stopWatching = watchStatus(context, warn);
  const close = async () => {
    stopWatching();
    await balancer?.close();
    for (const part of [sweep, loads, dispatcher, conductor, fills]) part.close();
    await Promise.all([membership.close(), caches.close(), books?.close(), log?.close()]);
    await Promise.all([links.close(), codecs.close(), streams?.close(), http.close()]);
    native?.close();
  };
  return { app, context, close };
}

interface ConductorParts {
  readonly config: RouterConfig;
  readonly membership: Membership;
  readonly registry: Registry;
  readonly rng: Rng;
  readonly warn: (message: string) => void;
  readonly native: NativeRelay | null;
}

/** Prompts are computed from what their worker has: it cannot be given a part by a third one. */
function conductorOf({ config, membership, registry, rng, warn, native }: ConductorParts) {
  const { ttftDeadline: ttftDeadlineMs, tbtDeadline: tbtDeadlineMs, rejection } = config;
  const metrics = new DeadlineMetrics(registry, () => conductor.errors(), native);
  const log = config.decisionLog === null ? null : new DecisionLog(config.decisionLog, warn);
  const decisions = new DecisionBook({ metrics, log });
  const conductor: FleetConductor = new FleetConductor({
    ...{ membership, clock: systemClock, rng, watch: decisions, usesPools: config.policy === "kv" },
    config: ConductorConfig.parse({ policy: "global", ttftDeadlineMs, tbtDeadlineMs, rejection }),
  });
  return { conductor, decisions, log };
}

/** A Redis that has just started is empty until all workers have written their entries. */
const STARTING_MS = 10_000;

function requestCounter(registry: Registry): Counter<"route" | "status"> {
  return new Counter({
    name: "perigee_router_http_requests_total",
    help: "Requests of clients, by route and status.",
    labelNames: ["route", "status"],
    registers: [registry],
  });
}

interface CacheParts {
  readonly config: RouterConfig;
  readonly secrets: RouterSecrets;
  readonly codecs: ModelCodecs;
  readonly warn: (message: string) => void;
  readonly http: WorkerHttp;
}

function cachesOf(membership: Membership, parts: CacheParts) {
  const { config, secrets, codecs, warn, http } = parts;
  const ceiling = new HitCeiling();
  // Where Redis is away, the connection of the membership says so.
  const streams =
    config.redis === null
      ? null
      : new RedisStreams(config.redis, warn, { connectionWarn: () => {} });
  const caches = new FleetCaches(membership, {
    ...{ clock: systemClock, say: warn },
    onStored: (worker, keys) => {
      ceiling.stored(keys);
      watch.stored(worker, keys);
    },
    onLeft: (worker) => watch.left(worker),
    ...{ bytesMax: config.indexBytesMax, ttlMs: config.approximateTtlMs, streams },
    apiKeyOf: (info) => keyFor(info, secrets),
    // Servers of other engines are asked for the tokens of prompts.
    readsTokens: (info) => info.kind !== "perigee" || codecs.knows(info),
    http,
  });
  const watch = new TokenWatch({
    ...{ clock: systemClock, say: warn },
    unknownParents: () => caches.stats().exact.unknownParents,
    beginningsOf: (workerId) => caches.beginningsOf(workerId),
  });
  return { caches, ceiling, streams, watch };
}

function keysOf({ clusterSecret, workerApiKey }: RouterSecrets) {
  return { secret: clusterSecret ?? workerApiKey ?? null, workerApiKey: workerApiKey ?? null };
}

/** What a worker wants as bearer token; null: nothing is known. */
function keyFor({ kind }: WorkerInfo, { clusterSecret, workerApiKey }: RouterSecrets) {
  const own = kind === "perigee" ? clusterSecret : undefined;
  return own ?? workerApiKey ?? null;
}

interface LinkParts {
  readonly config: RouterConfig;
  readonly secrets: RouterSecrets;
  readonly relays: ReadonlySet<Relay>;
  readonly codecs: ModelCodecs;
  readonly say: (message: string) => void;
  readonly warn: (message: string) => void;
}

function linksOf(membership: Membership, parts: LinkParts): WorkerLinks {
  const { config, secrets, relays, codecs, say, warn } = parts;
  return new WorkerLinks(membership, {
    ...{ ...config, clock: systemClock, say, warn, ca: secrets.workerCa ?? null },
    keyFor: (info) => keyFor(info, secrets),
    onJoined: (link) => void codecs.check(link),
    onGone: (workerId, reason) => {
      for (const relay of relays) if (relay.workerId === workerId) relay.workerGone(reason);
    },
    onLeft: (workerId) => codecs.left(workerId),
  });
}

/** Several connections to one Redis have the same trouble: what was said last is not said again. */
function unlessSaid(warn: (message: string) => void): (message: string) => void {
  let last = "";
  return (message) => {
    if (message !== last) warn(message);
    last = message;
  };
}

/** Null: no Redis, so this router is alone. The link is closed with the books. */
function booksOf({ redis }: RouterConfig, warn: (message: string) => void) {
  if (redis === null) return { link: null, books: null };
  const link = new RedisLink({ url: redis, warn });
  return { link, books: new RedisBooks({ link, router: randomUUID() }) };
}

function sharedLoads(books: RedisBooks, membership: Membership, dispatcher: Dispatcher) {
  return new SharedLoads({
    books,
    members: () => membership.workers.values(),
    onLoad: (id, load) => dispatcher.books.shared(id, load),
  });
}

function promptsOf(links: WorkerLinks, codecs: ModelCodecs): PromptReader {
  const remote = new RemoteTokens(systemClock);
  return new PromptReader({
    ...{ codecs, remote },
    askable: (request) => {
      const { model } = request;
      for (const link of links.all) {
        const { info, breaker } = link;
        const mayAsk = serves(info, model) && breaker.admits;
        if (mayAsk && remote.mayAsk(link, request)) return link;
      }
      return null;
    },
  });
}

function shortestOf(config: RouterConfig): number {
  const { firstTokenTimeoutMs, tokenTimeoutMs, answerTimeoutMs, streamKeepAliveMs } = config;
  return Math.min(firstTokenTimeoutMs, tokenTimeoutMs, answerTimeoutMs, streamKeepAliveMs);
}

function noteLoad(
  { dispatcher, conductor }: Pick<RouterContext, "dispatcher" | "conductor">,
  { id, kv }: WorkerInfo,
  load: WorkerLoad,
): void {
  dispatcher.books.report(id, load, kv?.blocks[0] ?? 0);
  conductor.fetched(id, load.fetched);
}
