import type { CudaDriver } from "./driver.ts";
import { CudaEvent } from "./event.ts";
import type { CudaStream } from "./stream.ts";

/** A place in the stream that the GPU reached, and the time: milliseconds since the first one. */
export interface Mark {
  readonly label: string;
  /** What is beside the label: the key of a replayed step, else "". */
  readonly key: string;
  readonly ms: number;
}

/**
 * Timed places in the stream, for timelines. Records, and costs time, only between `start` and
 * `stop`.
 */
export class Marks {
  readonly #driver: CudaDriver;
  readonly #stream: CudaStream;
  #events: (Omit<Mark, "ms"> & { readonly event: CudaEvent })[] | null = null;

  constructor(driver: CudaDriver, stream: CudaStream) {
    this.#driver = driver;
    this.#stream = stream;
  }

  /** Starts recording marks. */
  start(): void {
    this.#events ??= [];
  }

  /** Records the GPU's time when all work before is done; does nothing while not started. */
  add(label: string, key = ""): void {
    if (this.#events === null) return;
    const event = new CudaEvent(this.#driver, true);
    event.record(this.#stream);
    this.#events.push({ label, key, event });
  }

  /** Waits for the stream; returns all marks since `start`, in order. */
  stop(): Mark[] {
    const events = this.#events ?? [];
    this.#events = null;
    const [first] = events;
    if (first === undefined) return [];
    this.#stream.synchronize();
    const marks = events.map(({ label, key, event }) => ({
      ...{ label, key },
      ms: event.elapsedMs(first.event),
    }));
    for (const { event } of events) event.destroy();
    return marks;
  }
}
