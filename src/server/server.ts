import { randomUUID } from "node:crypto";
import type { MessagePort } from "node:worker_threads";
import type { FastifyInstance } from "fastify";
import { EngineError, messageOf, requireOptions } from "#base";
import type { ServedModel } from "#engine";
import { isLoopback } from "./access.ts";
import { Admission } from "./admission.ts";
import {
  type AnsweringParts,
  AnsweringThreads,
  defaultThreads,
} from "./answering/answering-threads.ts";
import { PortStream } from "./answering/port-stream.ts";
import { createApp } from "./app.ts";
import { ownVersion } from "./build-version.ts";
import {
  parseServerConfig,
  type SamplingDefaults,
  type ServerConfig,
  type ServerOptions,
} from "./config.ts";
import { createContext, type KeptResponses, type ServerContext } from "./context.ts";
import { dashboardRoutes } from "./dashboard/dashboard-routes.ts";
import type { ServerExtension } from "./extension.ts";
import { openApp } from "./http-app.ts";
import { KvPublishing } from "./kv-events/kv-publishing.ts";
import { ZmqKvPublisher } from "./kv-events/zmq-publisher.ts";
import { kvFillRoute } from "./kv-fill.ts";
import { Listener, type TakeConnection } from "./listener.ts";
import { EngineMetrics } from "./metrics.ts";
import { answerNotReady } from "./not-ready.ts";
import { serverTag } from "./openai/responses/response-ids.ts";
import { ResponseShelves } from "./openai/responses/response-store.ts";
import {
  type WorkerIdentity,
  type WorkerReport,
  workerInfoRoute,
  workerReport,
} from "./worker-info.ts";
import { workerRoleRoute } from "./worker-role.ts";

const msPerSecond = 1000;

/** A running server. */
export interface RunningServer extends AsyncDisposable {
  /** The server's address, e.g. `http://127.0.0.1:8000`. */
  readonly url: string;
  /** The address of published KV events, e.g. `listening at tcp://0.0.0.0:5557`; null: none. */
  readonly kvEvents: string | null;
  /** Who it is and how much work it has, as `GET /worker_info` answers it. */
  report(): WorkerReport;
  /** Told when its role has changed; `report` tells the new one. */
  onRole(listener: () => void): void;
  /**
   * Rejects new requests (503), lets running requests finish for at most `shutdownTimeoutMs`, then
   * closes all connections. The model stays loaded; it belongs to the caller. A second call aborts
   * the running requests at once.
   */
  close(): Promise<void>;
}

/** What becomes known while the model is loaded. */
export interface Serving {
  /** Replaces the option of that name. */
  readonly defaultSampling?: SamplingDefaults;
  /** Who the server is in a fleet. Default: its address, and a new epoch. */
  readonly worker?: WorkerIdentity;
  /** Who knows one of them may change its role. Default: who may use the server. */
  readonly fleetSecrets?: readonly string[];
  /** What another layer adds to it. Default: nothing. It stays its owner's to close. */
  readonly extension?: ServerExtension | null;
}

/** A held address and starting threads, while a model is loaded. */
export interface ReservedServer extends AsyncDisposable {
  /** The address of the server: until `serve`, every request gets 503. */
  readonly url: string;
  /** Serves the model until closed. */
  serve(model: ServedModel, how?: Serving): Promise<RunningServer>;
  /** Releases the address if no model is served. */
  close(): Promise<void>;
}

/**
 * Serves a model over HTTP until closed.
 *
 * @throws EngineError INVALID_ARGUMENT for an invalid option, IO if the address cannot be used,
 *   ENGINE_DEAD and SHUTTING_DOWN for a model that was closed or is being closed
 */
export async function startServer(
  model: ServedModel,
  options: ServerOptions = {},
  how: Serving = {},
): Promise<RunningServer> {
  requireModel(model);
  requireAlive(model);
  requireOptions(options);
  const mayConnect = model.connect !== undefined;
  const reserved = await reserveServer(mayConnect ? options : { ...options, answeringThreads: 0 });
  try {
    return await reserved.serve(model, how);
  } catch (error) {
    await reserved.close();
    throw error;
  }
}

/** JavaScript callers may pass the options alone. Throws INVALID_ARGUMENT. */
function requireModel(model: unknown): asserts model is ServedModel {
  if (typeof model === "object" && model !== null && "info" in model && "health" in model) return;
  const message =
    "Cannot start a server: the first argument must be a loaded model, it is none; " +
    "startServer(await LLM.load(), options)";
  throw new EngineError("INVALID_ARGUMENT", message, { param: "model" });
}

/** A server of a model that ended could only fail. Throws ENGINE_DEAD, SHUTTING_DOWN. */
function requireAlive(model: ServedModel): void {
  const health = model.health();
  if (health.state === "ready") return;
  const [code, state] =
    health.state === "dead"
      ? (["ENGINE_DEAD", `has ended (${health.reason})`] as const)
      : (["SHUTTING_DOWN", "takes no new work (drain or close was called)"] as const);
  const message =
    `Cannot start a server: ${model.info.name} must take requests, it ${state}; ` +
    "load the model again, and close the server before the model";
  throw new EngineError(code, message, { param: "model" });
}

/**
 * Holds the address and starts the answering threads before a model is loaded. Throws as
 * `startServer` does.
 */
export async function reserveServer(options: ServerOptions = {}): Promise<ReservedServer> {
  requireOptions(options);
  const config = parseServerConfig(options);
  const waiting = answerNotReady();
  const listener = await Listener.open(config.host, config.port, (socket) => waiting.take(socket));
  const threads = AnsweringThreads.start(config.answeringThreads ?? defaultThreads());
  let served = false;
  const close = async () => {
    if (served) return;
    listener.stop();
    waiting.close();
    await threads.close();
  };
  return {
    url: listener.url,
    serve: async (model, how = {}) => {
      requireAlive(model);
      const { defaultSampling = config.defaultSampling, worker, fleetSecrets = [] } = how;
      const { extension = null } = how;
      const own = { ...config, defaultSampling };
      const starting = { listener, threads, worker, fleetSecrets, extension };
      const server = await serve(model, own, starting);
      served = true;
      waiting.close();
      return server;
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}

/** The parts that were started before the model was loaded. */
interface Reserved {
  readonly listener: Listener;
  readonly threads: AnsweringThreads;
}

interface Starting extends Reserved {
  readonly worker: WorkerIdentity | undefined;
  readonly fleetSecrets: readonly string[];
  readonly extension: ServerExtension | null;
}

async function serve(
  model: ServedModel,
  config: ServerConfig,
  { listener, threads, worker, fleetSecrets, extension }: Starting,
): Promise<RunningServer> {
  const kvPublisher = await startKvPublisher(model, config);
  const [first = model.info.name, ...others] = config.servedModelName;
  const modelNames = [first, ...others] as const;
  const version = ownVersion();
  const { concurrentRequestsMax } = config;
  const { url } = listener;
  const identity = worker ?? { id: url, epoch: randomUUID(), url };
  const responses = keptResponses(config, identity);
  const context = createContext({
    ...{ model, config, modelNames, version, kvPublisher, extension, responses, relay: null },
    admission: new Admission(concurrentRequestsMax, threads.places, threads.ownPlace),
    metrics: new EngineMetrics(model, first, { others: () => threads.metrics() }),
  });
  const app = createApp(context);
  context.admission.duty = { role: identity.role ?? "both", roleEpoch: 0 };
  workerInfoRoute(app, context, identity);
  const roleListeners = new Set<() => void>();
  workerRoleRoute(app, context, {
    ...{ identity, fleetSecrets },
    onChange: () => {
      for (const listener of roleListeners) listener();
    },
  });
  kvFillRoute(app, context, fleetSecrets);
  dashboardRoutes(app, context, { askOthers: (take) => threads.askNews(take) });
  const answerHere = await openApp(app);
  if (isShared(model)) {
    const { log } = app;
    const onForward = (port: MessagePort) => answerHere(new PortStream(port));
    const { tag: responseTag, store } = responses;
    const parts = { model, config, modelNames, version, responseTag, log, onForward };
    await threads.serve({ ...parts, responses: store });
  }
  if (threads.ownPlace === 0) model.warmUp?.();
  listener.direct(bounded(config.connectionsMax, threads, answerHere));
  warnWhereOpen(app, config);
  const publishing = publishKvEvents(app, context);
  let closing: Promise<void> | null = null;
  const close = (): Promise<void> => {
    if (closing === null) closing = shutDown({ app, context, publishing, listener, threads });
    else abortAll(context, threads);
    return closing;
  };
  return {
    url,
    kvEvents: kvPublisher?.description ?? null,
    report: () => workerReport(context, identity),
    onRole: (listener) => void roleListeners.add(listener),
    close,
    [Symbol.asyncDispose]: close,
  };
}

function keptResponses(config: ServerConfig, { id, epoch }: WorkerIdentity): KeptResponses {
  const { responsesStoredMax: countMax, responsesBytesMax: bytesMax } = config;
  const limits = { countMax, bytesMax, keptMs: config.responsesKeptMs };
  const store = new ResponseShelves(limits, () => performance.now());
  return { tag: serverTag(id, epoch), store };
}

/** Whether other threads can serve the model, too. */
function isShared(model: ServedModel): model is AnsweringParts["model"] {
  return model.connect !== undefined;
}

/** Gives connections to the threads, or answers them here; closes those above the limit. */
function bounded(
  connectionsMax: number,
  threads: AnsweringThreads,
  answerHere: TakeConnection,
): TakeConnection {
  let own = 0;
  return (socket) => {
    if (own + threads.places.connections >= connectionsMax) {
      socket.destroy();
    } else if (!threads.take(socket)) {
      own++;
      socket.once("close", () => own--);
      answerHere(socket);
    }
  };
}

/** Null if KV events are not published. */
async function startKvPublisher(
  { kvEvents, info }: ServedModel,
  { kvEventsZmq, kvEventsZmqReplay, kvEventsTopic }: ServerConfig,
): Promise<ZmqKvPublisher | null> {
  if (kvEventsZmq === null) return null;
  if (!kvEvents.enabled) {
    throw new EngineError(
      "INVALID_ARGUMENT",
      `Cannot publish KV events: the model's cache must record them, that of ${info.name} ` +
        "does not; serve a decoder with eventBufferMax above 0",
      { param: "kvEventsZmq" },
    );
  }
  return ZmqKvPublisher.start({
    endpoint: kvEventsZmq,
    replayEndpoint: kvEventsZmqReplay,
    topic: kvEventsTopic,
    nowSeconds: () => Date.now() / msPerSecond,
  });
}

function publishKvEvents(
  app: FastifyInstance,
  { model, kvPublisher }: ServerContext,
): KvPublishing | null {
  if (kvPublisher === null) return null;
  return new KvPublishing(model.kvEvents, kvPublisher, {
    blockTokens: model.info.blockTokens,
    windows: model.info.groupWindows,
    onFailure: (error) => app.log.error(`Cannot publish KV events: ${messageOf(error)}`),
  });
}

function warnWhereOpen({ log }: FastifyInstance, { host, port, apiKey }: ServerConfig): void {
  if (apiKey.length > 0 || isLoopback(host)) return;
  log.warn(`Anyone who reaches ${host}:${port} may use this server: no API key is set`);
}

/** The parts to close. */
interface Parts extends Reserved {
  readonly app: FastifyInstance;
  readonly context: ServerContext;
  readonly publishing: KvPublishing | null;
}

async function shutDown(parts: Parts): Promise<void> {
  const { app, context, publishing, listener, threads } = parts;
  const { admission, metrics, config } = context;
  const timer = setTimeout(() => abortAll(context, threads), config.shutdownTimeoutMs);
  await Promise.all([admission.drain(), threads.drain()]);
  clearTimeout(timer);
  listener.stop();
  await app.close();
  // Threads send the answers to their forwarded requests, so this thread's connections end last.
  await threads.close();
  app.server.closeAllConnections();
  await publishing?.close();
  metrics.close();
}

/** Aborts the running requests of all threads. */
function abortAll({ admission }: ServerContext, threads: AnsweringThreads): void {
  admission.abortAll();
  threads.abortAll();
}
