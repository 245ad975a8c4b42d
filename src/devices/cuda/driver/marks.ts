import type { CudaDriver } from "./driver.ts";
import { CudaEvent } from "./event.ts";
import type { CudaStream } from "./stream.ts";

/** A place in the stream that the GPU reached, and when: milliseconds since the first one. */
export interface Mark {
  readonly label: string;
  readonly ms: number;
}

/**
 * Timed places in the stream, for timelines. Nothing is recorded, and nothing costs time, but
 * between `start` and `stop`.
 */
export class Marks {
  readonly #driver: CudaDriver;
  readonly #stream: CudaStream;
  #events: { readonly label: string; readonly event: CudaEvent }[] | null = null;

  constructor(driver: CudaDriver, stream: CudaStream) {
    this.#driver = driver;
    this.#stream = stream;
  }

  /** Marks from now on. */
  start(): void {
    this.#events ??= [];
  }

  /** The GPU's time when all before is done; nothing while it is not started. */
  add(label: string): void {
    if (this.#events === null) return;
    const event = new CudaEvent(this.#driver, true);
    event.record(this.#stream);
    this.#events.push({ label, event });
  }

  /** Waits for the stream; gives all marks since `start`, in order. */
  stop(): Mark[] {
    const events = this.#events ?? [];
    this.#events = null;
    const [first] = events;
    if (first === undefined) return [];
    this.#stream.synchronize();
    const marks = events.map(({ label, event }) => ({ label, ms: event.elapsedMs(first.event) }));
    for (const { event } of events) event.destroy();
    return marks;
  }
}
