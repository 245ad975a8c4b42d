import { randomInt } from "node:crypto";
import type { Duplex } from "node:stream";
import { createServer as createTlsServer } from "node:tls";
import type { FastifyInstance, FastifyRequest } from "fastify";
import { Counter, Registry } from "prom-client";
import { systemClock } from "#base";
import type { Membership } from "#cluster/protocol";
import { Dispatcher, IndexedPrefixes, seededRng } from "#cluster/routing";
import { Listener, openApp, ownVersion } from "#server";
import { addRoutes, createRouterApp } from "./app.ts";
import { parseRouterConfig, type RouterConfig, type RouterOptions } from "./config.ts";
import type { RouterContext } from "./context.ts";
import { PromptReader } from "./prompt-reader.ts";
import type { Relay } from "./relay.ts";
import { RelayMetrics } from "./relay-metrics.ts";
import { StaticFleet } from "./static-fleet.ts";
import { Sweep } from "./sweep.ts";
import { WorkerLinks } from "./worker-links.ts";

/** Secrets and certificates, which are not settings: nothing prints them. */
export interface RouterSecrets {
  /** Sent to workers as bearer token. */
  readonly workerApiKey?: string;
  /** Certificate and key of this server, in PEM: clients come by https. */
  readonly tls?: { readonly cert: string; readonly key: string };
  /** Certificates of authorities for https workers, in PEM. */
  readonly workerCa?: string;
}

/** A running router. */
export interface RunningRouter extends AsyncDisposable {
  readonly url: string;
  /** Requests in work, reservations that are open. */
  readonly inWork: number;
  readonly openReservations: number;
  /**
   * Takes no more requests; those in work may finish for `shutdownTimeoutMs`. A second call ends
   * them at once.
   */
  close(): Promise<void>;
}

/**
 * Starts a router. Workers that do not answer yet are asked again.
 *
 * @throws EngineError INVALID_ARGUMENT for an invalid option, IO if the address cannot be used
 */
export async function startRouter(
  options: RouterOptions,
  secrets: RouterSecrets = {},
): Promise<RunningRouter> {
  const config = parseRouterConfig(options);
  const listener = await Listener.open(config.host, config.port, (socket) => socket.destroy());
  const parts = createParts(config, secrets);
  const { app, context } = parts;
  await parts.fleet.look();
  addRoutes(app, context);
  const answer = await openApp(app);
  listener.direct(bounded(config.connectionsMax, secured(secrets.tls, answer)));
  warnWhereOpen(app, config);
  let closing: Promise<void> | null = null;
  const close = (): Promise<void> => {
    if (closing === null) closing = shutDown({ ...parts, listener });
    else cancelAll(context);
    return closing;
  };
  return {
    url: secrets.tls === undefined ? listener.url : listener.url.replace(/^http:/, "https:"),
    get inWork() {
      return context.relays.size;
    },
    get openReservations() {
      return context.dispatcher.books.openCount;
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}

interface Parts {
  readonly app: FastifyInstance;
  readonly context: RouterContext;
  readonly fleet: StaticFleet;
}

function createParts(config: RouterConfig, secrets: RouterSecrets): Parts {
  const registry = new Registry();
  const requests = new Counter({
    name: "perigee_router_http_requests_total",
    help: "Requests of clients, by route and status.",
    labelNames: ["route", "status"],
    registers: [registry],
  });
  const texts = new WeakMap<FastifyRequest, string>();
  const app = createRouterApp({ config, texts, requests });
  const say = (message: string, fields: object = {}) => app.log.info(fields, message);
  const fleet = new StaticFleet(config.worker, secrets.workerApiKey ?? null, say);
  const relays = new Set<Relay>();
  const links = linksOf(fleet, config, secrets, relays, say);
  const dispatcher = new Dispatcher({
    ...{ membership: fleet, policy: "kv", clock: systemClock },
    rng: seededRng(randomInt(2 ** 31)),
    prefixes: new IndexedPrefixes(() => null, systemClock),
    isOpen: (id) => links.admits(id),
  });
  const sweep = new Sweep(shortestOf(config));
  const metrics = new RelayMetrics(registry);
  const { showWorker } = config;
  const context: RouterContext = {
    ...{ config, links, dispatcher, relays, registry, texts },
    ...{ version: ownVersion(), membership: fleet, prompts: new PromptReader() },
    tools: { dispatcher, links, sweep, metrics, limits: config, showWorker, say },
    state: { draining: false },
    log: () => app.log,
  };
  return { app, context, fleet };
}

function linksOf(
  membership: Membership,
  config: RouterConfig,
  secrets: RouterSecrets,
  relays: Set<Relay>,
  say: (message: string) => void,
): WorkerLinks {
  return new WorkerLinks(membership, {
    ...{ ...config, clock: systemClock, say },
    workerApiKey: secrets.workerApiKey ?? null,
    ca: secrets.workerCa ?? null,
    onGone: (workerId, reason) => {
      for (const relay of relays) if (relay.workerId === workerId) relay.workerGone(reason);
    },
  });
}

function shortestOf(config: RouterConfig): number {
  const { firstTokenTimeoutMs, tokenTimeoutMs, answerTimeoutMs, streamKeepAliveMs } = config;
  return Math.min(firstTokenTimeoutMs, tokenTimeoutMs, answerTimeoutMs, streamKeepAliveMs);
}

type TakeConnection = (connection: Duplex) => void;

/** Closes connections above the limit. */
function bounded(connectionsMax: number, take: TakeConnection): TakeConnection {
  let open = 0;
  return (socket) => {
    if (open >= connectionsMax) {
      socket.destroy();
      return;
    }
    open++;
    socket.once("close", () => open--);
    take(socket);
  };
}

const HANDSHAKE_MS = 10_000;

/** Connections with TLS, where the router has a certificate. */
function secured(tls: RouterSecrets["tls"], take: TakeConnection): TakeConnection {
  if (tls === undefined) return take;
  const server = createTlsServer(
    { ...tls, handshakeTimeout: HANDSHAKE_MS, ALPNProtocols: ["http/1.1"] },
    take,
  );
  server.on("tlsClientError", (_error, socket) => socket.destroy());
  return (connection) => server.emit("connection", connection);
}

function warnWhereOpen({ log }: FastifyInstance, { host, port, apiKey }: RouterConfig): void {
  if (apiKey.length > 0 || ["127.0.0.1", "::1", "localhost"].includes(host)) return;
  log.warn(`Anyone who reaches ${host}:${port} may use this router: no API key is set`);
}

function cancelAll({ relays }: RouterContext): void {
  for (const relay of relays) relay.cancel();
}

const LOOK_MS = 10;

async function shutDown({
  app,
  context,
  fleet,
  listener,
}: Parts & { readonly listener: Listener }): Promise<void> {
  const { config, relays, links, dispatcher, tools, state } = context;
  state.draining = true;
  const timer = setTimeout(() => cancelAll(context), config.shutdownTimeoutMs);
  while (relays.size > 0) await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  clearTimeout(timer);
  listener.stop();
  await app.close();
  app.server.closeAllConnections();
  tools.sweep.close();
  dispatcher.close();
  await links.close();
  await fleet.close();
}
