import { EngineError } from "#base";
import type { WorkerNumber } from "#cluster/protocol";
import { WORKERS_MAX } from "./member-sets.ts";

/** Numbers of workers: the lowest that is free is given first, so that shards give the same. */
export class WorkerNumbers {
  readonly #taken = new Uint8Array(WORKERS_MAX);
  #count = 0;

  get count(): number {
    return this.#count;
  }

  isTaken(worker: WorkerNumber): boolean {
    return this.#taken[worker] === 1;
  }

  take(): WorkerNumber {
    const worker = this.#taken.indexOf(0);
    if (worker < 0) {
      throw new EngineError(
        "INVALID_ARGUMENT",
        `Cannot add a worker to the index: at most ${WORKERS_MAX}, current value is ` +
          `${WORKERS_MAX}; let some leave, or route them elsewhere`,
      );
    }
    this.#taken[worker] = 1;
    this.#count++;
    return worker;
  }

  /** False: it was not taken. */
  release(worker: WorkerNumber): boolean {
    if (!this.isTaken(worker)) return false;
    this.#taken[worker] = 0;
    this.#count--;
    return true;
  }
}
