import type { Clock } from "#base";

/** A model whose last worker left so long ago does not exist any more. */
const REMEMBERED_MS = 600_000;
/** Most names; those that left first go first. */
const NAMES_MAX = 1024;

/**
 * Models that were served a while ago. Workers come back: a client that asks for such a model is
 * told to try again, not that the model does not exist.
 */
export class KnownModels {
  readonly #clock: Clock;
  readonly #served = new Map<string, readonly string[]>();
  /** When its last worker left, by model; the latest last. */
  readonly #left = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  joined(workerId: string, models: readonly string[]): void {
    this.#served.set(workerId, models);
  }

  left(workerId: string): void {
    for (const model of this.#served.get(workerId) ?? []) {
      this.#left.delete(model);
      this.#left.set(model, this.#clock.nowMs());
    }
    this.#served.delete(workerId);
    while (this.#left.size > NAMES_MAX) {
      for (const [first] of this.#left) {
        this.#left.delete(first);
        break;
      }
    }
  }

  /** Whether a worker has served it lately. */
  has(model: string): boolean {
    const leftMs = this.#left.get(model);
    return leftMs !== undefined && this.#clock.nowMs() - leftMs < REMEMBERED_MS;
  }
}
