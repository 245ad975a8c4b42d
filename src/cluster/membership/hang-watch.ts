/** Between ticks, and how much later than planned a tick counts as a hang. */
const TICK_MS = 50;

/**
 * Notices how long this process itself did nothing, e.g. stopped or starved of processor time:
 * its timers come late then. A slow answer of another machine is no hang.
 */
export class HangWatch {
  #plannedMs = performance.now() + TICK_MS;
  #hungMs = 0;
  readonly #timer = setInterval(() => this.#tick(), TICK_MS);

  /** Ends the watch. Milliseconds that the process hung meanwhile; 0: it never did. */
  stop(): number {
    clearInterval(this.#timer);
    this.#tick();
    return this.#hungMs;
  }

  #tick(): void {
    const nowMs = performance.now();
    const lateMs = nowMs - this.#plannedMs;
    if (lateMs > TICK_MS) this.#hungMs += lateMs;
    this.#plannedMs = nowMs + TICK_MS;
  }
}
