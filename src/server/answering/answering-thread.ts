/**
 * An answering thread: the whole HTTP application over its own connection to the engine. The main
 * thread hands connections to it, and answers the requests that only the main thread can answer.
 */
import { closeSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";
import { MessageChannel, type MessagePort, parentPort, workerData } from "node:worker_threads";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { assert, messageOf } from "#base";
import { LLM } from "#engine";
import { Admission } from "../admission.ts";
import { createApp, GENERATION_PATHS } from "../app.ts";
import { createContext } from "../context.ts";
import { RequestWatch } from "../dashboard/request-watch.ts";
import { EngineMetrics } from "../metrics.ts";
import { noteRelayed } from "../request-log.ts";
import { forward } from "./forward.ts";
import { RemoteResponses } from "./remote-responses.ts";
import { SharedPlaces } from "./shared-places.ts";
import type { FromThread, ThreadData, ThreadWork, ToThread } from "./thread-messages.ts";

/** Maximum wait for forwarded requests when the thread closes. */
const FORWARDS_MS = 1000;

/** Without a question for so long, the thread does not listen for news any more. */
const NEWS_MS = 3000;

/** The parts of a serving thread. */
interface Serving {
  readonly model: LLM;
  readonly app: FastifyInstance;
  readonly admission: Admission;
  readonly metrics: EngineMetrics;
}

class AnsweringThread {
  readonly #place: number;
  readonly #places: SharedPlaces;
  readonly #port: MessagePort;
  readonly #forwards = new Set<Promise<void>>();
  readonly #responses = new RemoteResponses((ask, what) =>
    this.#post({ type: "responses", ask, what }),
  );
  #serving: Serving | null = null;
  #watch: RequestWatch | null = null;
  #watchEnd: NodeJS.Timeout | null = null;

  constructor({ place, counters }: ThreadData, port: MessagePort) {
    this.#place = place;
    this.#places = new SharedPlaces(counters);
    this.#port = port;
  }

  receive(message: ToThread): void {
    switch (message.type) {
      case "serve":
        void this.#serve(message.work);
        break;
      case "connection":
        this.#adopt(message.descriptor);
        break;
      case "metrics":
        void this.#tellMetrics(message.ask);
        break;
      case "responses":
        this.#responses.receive(message.ask, message.reply);
        break;
      case "news":
        this.#tellNews();
        break;
      case "drain":
        void this.#serving?.admission.drain().then(() => this.#post({ type: "drained" }));
        break;
      case "abort":
        this.#serving?.admission.abortAll();
        break;
      case "close":
        void this.#close();
        break;
    }
  }

  async #serve(work: ThreadWork): Promise<void> {
    try {
      this.#serving = await this.#build(work);
      this.#post({ type: "ready" });
    } catch (error) {
      this.#post({ type: "failed", message: messageOf(error) });
      this.#port.close();
    }
  }

  async #build({ connection, config, ...work }: ThreadWork): Promise<Serving> {
    const { modelNames, version, responseTag: tag } = work;
    const model = await LLM.join(connection);
    const admission = new Admission(config.concurrentRequestsMax, this.#places, this.#place);
    const metrics = new EngineMetrics(model, modelNames[0], { books: false });
    const parts = { model, config, modelNames, admission, metrics, version, kvPublisher: null };
    const relay = (request: FastifyRequest, reply: FastifyReply) => this.#relay(request, reply);
    const responses = { tag, store: this.#responses };
    const app = createApp(createContext({ ...parts, responses, extension: null, relay }));
    await app.ready();
    model.warmUp();
    const [answer] = app.server.listeners("request");
    assert(answer !== undefined, "The application answers requests");
    app.server.removeAllListeners("request");
    app.server.on("request", (request: IncomingMessage, response: ServerResponse) => {
      if (isGeneration(request)) answer.call(app.server, request, response);
      else void this.#forward(request, response);
    });
    // Node checks for slow requests only in servers that listen; this one receives its connections.
    app.server.emit("listening");
    return { model, app, admission, metrics };
  }

  #adopt(descriptor: number): void {
    // Recorded first: if this thread ended right here, the main thread must not close the
    // descriptor, whose number another connection may have by then.
    this.#places.adopt(this.#place);
    try {
      assert(this.#serving !== null, "Connections come when the thread is ready");
      const options = { fd: descriptor, readable: true, writable: true, allowHalfOpen: true };
      const socket = new Socket(options);
      socket.once("close", () => this.#places.disconnect(this.#place));
      this.#serving.app.server.emit("connection", socket);
    } catch (error) {
      this.#places.disconnect(this.#place);
      this.#serving?.app.log.error(
        `Cannot accept a connection from the main thread: ${messageOf(error)}`,
      );
      closeSync(descriptor);
    }
  }

  /** `body`: that of the request, where it has been read. */
  #forward(request: IncomingMessage, response: ServerResponse, body?: Buffer): Promise<void> {
    const { port1, port2 } = new MessageChannel();
    this.#port.postMessage({ type: "forward", port: port2 } satisfies FromThread, [port2]);
    const done = forward(request, response, { port: port1, ...(body && { body }) });
    this.#forwards.add(done);
    return done.then(() => void this.#forwards.delete(done));
  }

  /** Forwards a request whose body has been read. */
  async #relay(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    noteRelayed(request);
    reply.hijack();
    await this.#forward(request.raw, reply.raw, Buffer.from(JSON.stringify(request.body)));
    return reply;
  }

  async #tellMetrics(ask: number): Promise<void> {
    const metrics = (await this.#serving?.metrics.snapshot()) ?? [];
    this.#post({ type: "metrics", ask, metrics });
  }

  /** Listens from the first question on, until there are none. */
  #tellNews(): void {
    if (this.#serving === null) return;
    if (this.#watchEnd !== null) clearTimeout(this.#watchEnd);
    this.#watch ??= new RequestWatch(this.#serving.model);
    this.#watchEnd = setTimeout(() => this.#stopWatch(), NEWS_MS).unref();
    this.#post({ type: "news", news: this.#watch.take() });
  }

  #stopWatch(): void {
    this.#watch?.close();
    this.#watch = null;
  }

  /** Sends the main thread's answers to forwarded requests, then ends all connections. */
  async #close(): Promise<void> {
    const late = new Promise((resolve) => setTimeout(resolve, FORWARDS_MS).unref());
    await Promise.race([Promise.all(this.#forwards), late]);
    this.#stopWatch();
    if (this.#serving !== null) {
      const { app, metrics, model } = this.#serving;
      await app.close();
      app.server.closeAllConnections();
      metrics.close();
      await model[Symbol.asyncDispose]();
    }
    this.#port.close();
  }

  #post(message: FromThread): void {
    this.#port.postMessage(message);
  }
}

/** Whether this thread answers a request; the main thread answers all others, errors included. */
function isGeneration({ method, url = "" }: IncomingMessage): boolean {
  return method === "POST" && GENERATION_PATHS.has(url.split("?", 1)[0] ?? "");
}

const port = parentPort;
assert(port !== null, "answering-thread.js is started by AnsweringThreads, as a worker");
const thread = new AnsweringThread(workerData as ThreadData, port); // as AnsweringThreads gives it
port.on("message", (message: ToThread) => thread.receive(message));
