/** Bytes of request bodies that are held at once: from their first byte to their answer's last. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { getHeapStatistics } from "node:v8";
import type { FastifyInstance } from "fastify";
import { Counter, type Registry } from "prom-client";
import { EngineError } from "#base";

/** A body is held as text, as values and as token ids: in all some times its bytes. */
const HEAP_SHARE = 8;

export interface BodyLimits {
  /** Null: an eighth of what the heap may grow to, at least two of the longest bodies. */
  readonly bodiesBytesMax: number | null;
  readonly requestBytesMax: number;
}

export class BodyBudget {
  readonly bytesMax: number;
  readonly #refused: Counter;
  #heldBytes = 0;

  constructor({ bodiesBytesMax, requestBytesMax }: BodyLimits, registry: Registry) {
    const share = Math.floor(getHeapStatistics().heap_size_limit / HEAP_SHARE);
    this.bytesMax = bodiesBytesMax ?? Math.max(share, 2 * requestBytesMax);
    this.#refused = new Counter({
      name: "perigee_router_bodies_refused_total",
      help: "Requests that were refused since the bodies of others took the room.",
      registers: [registry],
    });
  }

  get heldBytes(): number {
    return this.#heldBytes;
  }

  /** Counts the bodies of all requests that may use the application. */
  watch(app: FastifyInstance): void {
    app.addHook("preParsing", (request, reply, _payload, done) => {
      const { headers, raw } = request;
      const hasBody = headers["transfer-encoding"] !== undefined || headers["content-length"];
      if (hasBody) this.#count(raw, reply.raw);
      done();
    });
  }

  /**
   * A body may take at most as much as it leaves to others: few long ones never take the room of
   * all short ones.
   */
  #count(incoming: IncomingMessage, response: ServerResponse): void {
    const { socket } = incoming;
    let bytes = 0;
    const onData = (chunk: Uint8Array) => {
      // An answer behind which the body still comes: it is read and thrown away.
      if (response.headersSent) return stop();
      bytes += chunk.length;
      this.#heldBytes += chunk.length;
      if (bytes + this.#heldBytes <= this.bytesMax) return;
      stop();
      this.#refused.inc();
      if (incoming.listenerCount("error") > 0) incoming.emit("error", this.#refusal());
    };
    const stop = () => {
      incoming.off("data", onData);
      response.off("close", stop);
      socket.off("close", stop);
      this.#heldBytes -= bytes;
      bytes = 0;
    };
    incoming.on("data", onData);
    // A pipelined response gets no `close` event of its own where its connection ends.
    response.once("close", stop);
    socket.setMaxListeners(0).once("close", stop);
  }

  #refusal(): EngineError {
    return new EngineError(
      "OVERLOADED",
      `Cannot accept request: bodies of requests in work may have ${this.bytesMax} bytes, and ` +
        `one at most what it leaves to others; current value is ${this.#heldBytes} without this ` +
        "one; try again later",
    );
  }
}
