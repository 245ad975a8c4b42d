import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import type { FastifyInstance } from "fastify";
import { EngineError, messageOf } from "#base";
import type { ServedModel } from "#engine";
import { Admission } from "./admission.ts";
import { createApp } from "./app.ts";
import { parseServerConfig, type ServerConfig, type ServerOptions } from "./config.ts";
import type { ServerContext } from "./context.ts";
import { KvPublishing } from "./kv-events/kv-publishing.ts";
import { ZmqKvPublisher } from "./kv-events/zmq-publisher.ts";
import { EngineMetrics } from "./metrics.ts";

const msPerSecond = 1000;

/** A server that listens. */
export interface RunningServer extends AsyncDisposable {
  /** Where it listens, e.g. `http://127.0.0.1:8000`. */
  readonly url: string;
  /** Where KV events are published, e.g. `listening at tcp://0.0.0.0:5557`; null: nowhere. */
  readonly kvEvents: string | null;
  /**
   * Refuses new work (503), lets running requests finish for at most `shutdownTimeoutMs`, then
   * closes all connections. The model stays loaded; it belongs to the caller. Called again, it
   * ends what runs at once.
   */
  close(): Promise<void>;
}

/**
 * Serves a model over HTTP until closed.
 *
 * @throws EngineError INVALID_ARGUMENT for a wrong option, IO when the address cannot be used
 */
export async function startServer(
  model: ServedModel,
  options: ServerOptions = {},
): Promise<RunningServer> {
  const config = parseServerConfig(options);
  const kvPublisher = await startKvPublisher(model, config);
  const context = createContext(model, config, kvPublisher);
  const app = createApp(context);
  try {
    await listen(app, config);
  } catch (error) {
    await kvPublisher?.close();
    throw error;
  }
  const publishing = publishKvEvents(app, context);
  let closing: Promise<void> | null = null;
  const close = (): Promise<void> => {
    if (closing === null) closing = shutDown({ app, context, publishing });
    else context.admission.abortAll();
    return closing;
  };
  return {
    url: urlOf(app),
    kvEvents: kvPublisher?.description ?? null,
    close,
    [Symbol.asyncDispose]: close,
  };
}

/** Null where KV events are not to be published. */
async function startKvPublisher(
  { kvEvents, info }: ServedModel,
  { kvEventsZmq, kvEventsZmqReplay, kvEventsTopic }: ServerConfig,
): Promise<ZmqKvPublisher | null> {
  if (kvEventsZmq === null) return null;
  if (!kvEvents.enabled) {
    throw new EngineError(
      "INVALID_ARGUMENT",
      "Cannot publish KV events: the model's cache must tell them, " +
        `${info.name} does not; serve a decoder with eventBufferMax above 0`,
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
    window: model.info.attentionWindow,
    onFailure: (error) => app.log.error(`Cannot publish KV events: ${messageOf(error)}`),
  });
}

function createContext(
  model: ServedModel,
  config: ServerConfig,
  kvPublisher: ZmqKvPublisher | null,
): ServerContext {
  const [first = model.info.name, ...others] = config.servedModelName;
  return {
    model,
    config,
    modelNames: [first, ...others],
    admission: new Admission(config.concurrentRequestsMax),
    metrics: new EngineMetrics(model, first),
    kvPublisher,
    version: ownVersion(),
    newId: () => randomUUID(),
    nowSeconds: () => Math.floor(Date.now() / msPerSecond),
  };
}

async function listen(app: FastifyInstance, { host, port, apiKey }: ServerConfig): Promise<void> {
  const { level } = app.log;
  app.log.level = "silent"; // whoever starts a server says where it listens: Fastify need not
  try {
    await app.listen({ host, port });
  } catch (error) {
    const message = `Cannot listen on ${host}:${port}: ${messageOf(error)}; choose another port`;
    throw new EngineError("IO", message, { cause: error, param: "port" });
  } finally {
    app.log.level = level;
  }
  if (apiKey.length === 0 && !["127.0.0.1", "::1", "localhost"].includes(host)) {
    app.log.warn(`Anyone who reaches ${host}:${port} may use this server: no API key is set`);
  }
}

/** What is to be closed. */
interface Parts {
  readonly app: FastifyInstance;
  readonly context: ServerContext;
  readonly publishing: KvPublishing | null;
}

async function shutDown({ app, context, publishing }: Parts): Promise<void> {
  const { admission, metrics, config } = context;
  const timer = setTimeout(() => admission.abortAll(), config.shutdownTimeoutMs);
  await admission.drain();
  clearTimeout(timer);
  await app.close();
  await publishing?.close();
  metrics.close();
}

function urlOf(app: FastifyInstance): string {
  const address = app.server.address();
  if (address === null || typeof address === "string") return "";
  const host = address.family === "IPv6" ? `[${address.address}]` : address.address;
  return `http://${host}:${address.port}`;
}

function ownVersion(): string {
  // Both src/server and dist/server are two folders below the package's root.
  const text = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  const manifest: unknown = JSON.parse(text);
  const hasVersion = typeof manifest === "object" && manifest !== null && "version" in manifest;
  return hasVersion ? String(manifest.version) : "unknown";
}
