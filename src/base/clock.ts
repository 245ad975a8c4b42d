/** Time as a parameter: the engine and the simulator read it from here, never from the system. */
export interface Clock {
  /** Milliseconds since an arbitrary origin, monotonic, with a fraction. */
  nowMs(): number;
}

/** The machine's monotonic clock. */
export const systemClock: Clock = { nowMs: () => performance.now() };

/** The same time on all threads of the process; `performance.now()` begins with the thread. */
export const processClock: Clock = { nowMs: () => performance.timeOrigin + performance.now() };

/** Timeouts as a parameter. */
export interface Timer {
  /** Calls `run` once after `ms` milliseconds, unless the returned function is called before. */
  after(ms: number, run: () => void): () => void;
}

/** Node's timers fire at once beyond this: 2^31 - 1 ms, some 25 days. */
const TIMER_MS_MAX = 2 ** 31 - 1;

/** The machine's timers. While one runs, the process stays alive. */
export const systemTimer: Timer = {
  after: (ms, run) => {
    const timeout = setTimeout(run, Math.min(ms, TIMER_MS_MAX));
    return () => clearTimeout(timeout);
  },
};
