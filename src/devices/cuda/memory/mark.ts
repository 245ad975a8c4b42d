import { type CudaDriver, CudaEvent, type CudaStream } from "#devices/cuda/driver";
import type { MovesMark } from "../../device.ts";

/** The ends of streams' work so far. Events that are done are destroyed. */
export class StreamsMark implements MovesMark {
  readonly #left: CudaEvent[];

  constructor(driver: CudaDriver, streams: readonly CudaStream[]) {
    this.#left = streams.map((stream) => {
      const event = new CudaEvent(driver);
      event.record(stream);
      return event;
    });
  }

  isDone(): boolean {
    for (let event = this.#left.at(-1); event?.isDone() === true; event = this.#left.at(-1)) {
      event.destroy();
      this.#left.pop();
    }
    return this.#left.length === 0;
  }
}
