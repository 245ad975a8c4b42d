/** The prefix tree for those who watch: one look at a time, shared, and bounded in its cost. */
import { EngineError } from "#base";
import type { CacheAsk, ServedModel, TimedLook } from "#engine";

/** Looks that wait; further ones are refused. */
const WAITING_MAX = 8;
/** An answer is given again for so long. */
const FRESH_MS = 250;
/** At most this share of the engine's time goes to looks at the tree. */
const LOOK_SHARE = 0.005;
/** Longest wait between two looks: on a busy machine a look takes longer than it computes. */
const REST_MS_MAX = 2000;
/** Different questions whose answers are kept. */
const KEPT_MAX = 16;

interface Kept {
  /** Without end while it is under way. */
  untilMs: number;
  readonly look: Promise<TimedLook>;
}

/** Looks into a model's cache, one after the other. */
export class TreeLook {
  readonly #model: Pick<ServedModel, "look">;
  readonly #kept = new Map<string, Kept>();
  #last: Promise<unknown> = Promise.resolve();
  #waiting = 0;
  #dueMs = 0;

  constructor(model: Pick<ServedModel, "look">) {
    this.#model = model;
  }

  /** Throws INVALID_ARGUMENT without a cache, QUEUE_FULL where too many wait. */
  look(ask: CacheAsk): Promise<TimedLook> {
    const key = JSON.stringify(ask);
    const kept = this.#kept.get(key);
    if (kept !== undefined && performance.now() < kept.untilMs) return kept.look;
    if (this.#waiting >= WAITING_MAX) {
      throw new EngineError(
        "QUEUE_FULL",
        `Cannot look into the cache: at most ${WAITING_MAX} looks may wait, current value is ` +
          `${this.#waiting}; try again later`,
      );
    }
    this.#waiting++;
    const look = this.#last.then(() => this.#lookNow(ask)).finally(() => this.#waiting--);
    this.#last = look.catch(() => {});
    this.#keep(key, look);
    return look;
  }

  async #lookNow(ask: CacheAsk): Promise<TimedLook> {
    const model = this.#model;
    if (model.look === undefined) {
      throw new EngineError(
        "INVALID_ARGUMENT",
        "Cannot look into the cache: the model must have one, this one has none",
      );
    }
    const waitMs = this.#dueMs - performance.now();
    if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
    const look = await model.look(ask);
    this.#dueMs = performance.now() + Math.min(REST_MS_MAX, look.tookMs / LOOK_SHARE);
    return look;
  }

  #keep(key: string, look: Promise<TimedLook>): void {
    const kept: Kept = { look, untilMs: Number.POSITIVE_INFINITY };
    this.#kept.set(key, kept);
    look.then(
      () => {
        kept.untilMs = performance.now() + FRESH_MS;
      },
      () => this.#kept.delete(key),
    );
    if (this.#kept.size <= KEPT_MAX) return;
    for (const oldest of this.#kept.keys()) {
      this.#kept.delete(oldest);
      return;
    }
  }
}
