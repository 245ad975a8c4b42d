/** Time as an argument: the engine and the simulator read it from here, never from the system. */
export interface Clock {
  /** Milliseconds since an arbitrary origin, monotonic, with a fraction. */
  nowMs(): number;
}

/** The machine's monotonic clock. */
export const systemClock: Clock = { nowMs: () => performance.now() };
