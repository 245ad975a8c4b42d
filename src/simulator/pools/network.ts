/** Transfers between nodes that share the speed of their ends. */
import type { SimClock } from "../sim-clock.ts";

/** One end: a node's connection, each way. */
export interface NetworkEnd {
  readonly bytesPerMs: number;
}

interface Flow {
  readonly from: Port;
  readonly to: Port;
  left: number;
  rate: number;
  sinceMs: number;
  readonly done: () => void;
  cancel: (() => void) | null;
}

/** A node's connection with the transfers on it. */
interface Port {
  readonly bytesPerMs: number;
  readonly out: Set<Flow>;
  readonly in: Set<Flow>;
}

/**
 * Each transfer has the smaller of the equal shares of its two ends; shares change when a transfer
 * on one of them begins or ends. What an end leaves over is not given to others.
 */
export class Network {
  readonly #clock: SimClock;
  readonly #latencyMs: number;
  readonly #ports: Port[] = [];
  #bytes = 0;

  constructor(clock: SimClock, latencyMs: number) {
    this.#clock = clock;
    this.#latencyMs = latencyMs;
  }

  /** Returns the number of the new end. */
  addEnd({ bytesPerMs }: NetworkEnd): number {
    this.#ports.push({ bytesPerMs, out: new Set(), in: new Set() });
    return this.#ports.length - 1;
  }

  /** Bytes of all transfers that began. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Begins a transfer; `done` runs when its last byte came. */
  send(
    ends: { readonly from: number; readonly to: number },
    bytes: number,
    done: () => void,
  ): void {
    const [from, to] = [this.#ports[ends.from], this.#ports[ends.to]];
    this.#bytes += bytes;
    if (from === undefined || to === undefined || from === to || !(bytes > 0)) {
      this.#clock.after(0, done);
      return;
    }
    const flow: Flow = { from, to, left: bytes, rate: 0, sinceMs: 0, done, cancel: null };
    this.#clock.after(this.#latencyMs, () => {
      flow.sinceMs = this.#clock.nowMs();
      from.out.add(flow);
      to.in.add(flow);
      this.#share(from, to);
    });
  }

  /** The transfers of both ends get their shares anew. */
  #share(from: Port, to: Port): void {
    for (const flow of from.out) this.#setRate(flow);
    for (const flow of to.in) if (flow.from !== from) this.#setRate(flow);
  }

  #setRate(flow: Flow): void {
    const { from, to } = flow;
    const rate = Math.min(from.bytesPerMs / from.out.size, to.bytesPerMs / to.in.size);
    if (rate === flow.rate) return;
    const nowMs = this.#clock.nowMs();
    flow.left = Math.max(0, flow.left - flow.rate * (nowMs - flow.sinceMs));
    flow.sinceMs = nowMs;
    flow.rate = rate;
    flow.cancel?.();
    flow.cancel = this.#clock.after(flow.left / rate, () => this.#end(flow));
  }

  #end(flow: Flow): void {
    flow.from.out.delete(flow);
    flow.to.in.delete(flow);
    this.#share(flow.from, flow.to);
    flow.done();
  }
}
