import type { Duplex } from "node:stream";
import { createSecureContext, createServer as createTlsServer } from "node:tls";
import type { FastifyInstance } from "fastify";
import { EngineError, messageOf } from "#base";
import { Listener, openApp } from "#server";
import { addRoutes } from "./app.ts";
import { parseRouterConfig, type RouterConfig, type RouterOptions } from "./config.ts";
import type { RouterContext } from "./context.ts";
import { checkModels } from "./model-codecs.ts";
import { createParts, type RouterParts } from "./parts.ts";
import type { RouterSecrets } from "./secrets.ts";

/** A running router. */
export interface RunningRouter extends AsyncDisposable {
  readonly url: string;
  /** Requests in work, reservations that are open. */
  readonly inWork: number;
  readonly openReservations: number;
  /** Requests in work that have no worker yet. */
  readonly waiting: number;
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
  checkTls(secrets);
  const listener = await Listener.open(config.host, config.port, (socket) => socket.destroy());
  const parts = await partsOf(config, secrets, listener);
  const { app, context } = parts;
  addRoutes(app, context);
  await firstMembers(context);
  const answer = await openApp(app);
  listener.direct(bounded(config.connectionsMax, secured(secrets.tls, answer)));
  warnWhereOpen(app, config);
  let closing: Promise<void> | null = null;
  const close = (): Promise<void> => {
    if (closing === null) closing = shutDown(parts, listener);
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
    get waiting() {
      return context.tools.room.count;
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}

/** An open port would keep the process of a router that cannot start. */
async function partsOf(
  config: RouterConfig,
  secrets: RouterSecrets,
  listener: Listener,
): Promise<RouterParts> {
  try {
    await checkModels(config.model);
    return createParts(config, secrets);
  } catch (error) {
    listener.stop();
    throw error;
  }
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

/** Throws INVALID_ARGUMENT for what is no certificate, no key, or not those of each other. */
function checkTls({ tls, workerCa }: RouterSecrets): void {
  try {
    if (tls !== undefined) createSecureContext(tls);
  } catch (cause) {
    const wanted = "--tls-cert and --tls-key must be a certificate and its key in PEM";
    throw new EngineError(
      "INVALID_ARGUMENT",
      `Cannot use TLS: ${wanted}, current value is refused: ${messageOf(cause)}`,
      { param: "--tls-cert", cause },
    );
  }
  if (workerCa === undefined || workerCa.includes("-----BEGIN CERTIFICATE-----")) return;
  throw new EngineError(
    "INVALID_ARGUMENT",
    "Cannot use --worker-ca: it must have certificates in PEM, current value has none",
    { param: "--worker-ca" },
  );
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

const FIRST_MEMBERS_MS = 1500;

/** Workers that are given, or in Redis, are mostly found at once: first requests find them. */
async function firstMembers({ config, membership }: RouterContext): Promise<void> {
  const wanted = Math.max(new Set(config.worker).size, config.redis === null ? 0 : 1);
  const untilMs = performance.now() + FIRST_MEMBERS_MS;
  while (membership.workers.size < wanted && performance.now() < untilMs) {
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}

function warnWhereOpen({ log }: FastifyInstance, { host, port, apiKey }: RouterConfig): void {
  if (apiKey.length > 0 || ["127.0.0.1", "::1", "localhost"].includes(host)) return;
  log.warn(`Anyone who reaches ${host}:${port} may use this router: no API key is set`);
}

function cancelAll({ relays, state }: RouterContext): void {
  state.cutOff = relays.size > 0;
  for (const relay of relays) relay.cancel();
}

const LOOK_MS = 10;
/** For requests that were cut off to say so. */
const LAST_WORDS_MS = 200;

async function shutDown({ app, context, close }: RouterParts, listener: Listener): Promise<void> {
  const { config, relays, state } = context;
  state.draining = true;
  // No worker has these yet: elsewhere they may be served at once.
  context.tools.room.close();
  const timer = setTimeout(() => cancelAll(context), config.shutdownTimeoutMs);
  while (relays.size > 0) await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  clearTimeout(timer);
  if (state.cutOff) await new Promise((resolve) => setTimeout(resolve, LAST_WORDS_MS));
  listener.stop();
  await app.close();
  app.server.closeAllConnections();
  await close();
}
