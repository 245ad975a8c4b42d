import type { Clock, Timer } from "#base";
import type { MovesMark } from "#devices";

/** How often marks are looked at: a fraction of a chunk's time. */
const LOOK_MS = 1;

/** Waits until a mark is done, while this thread does other work. */
export async function whenDone(mark: MovesMark, timer: Timer): Promise<void> {
  while (!mark.isDone()) await new Promise<void>((resolve) => timer.after(LOOK_MS, resolve));
}

/** When a mark was reached, as closely as it is looked at. */
export class Moment {
  readonly #mark: MovesMark;
  readonly #parts: { readonly clock: Clock; readonly timer: Timer };
  /** Where ops run at once. */
  readonly #atOnceMs: number | null;

  /** To be made when the mark is, since ops that run at once are done then. */
  constructor(mark: MovesMark, parts: { readonly clock: Clock; readonly timer: Timer }) {
    this.#mark = mark;
    this.#parts = parts;
    this.#atOnceMs = mark.isDone() ? parts.clock.nowMs() : null;
  }

  /** It was reached when this was made, as where ops run at once. */
  get atOnce(): boolean {
    return this.#atOnceMs !== null;
  }

  /** Waits for it; rejects with the device's error. */
  async reached(): Promise<number> {
    if (this.#atOnceMs !== null) return this.#atOnceMs;
    await whenDone(this.#mark, this.#parts.timer);
    return this.#parts.clock.nowMs();
  }
}
