/** A number in memory that both threads see: an engine that is stuck can answer no question. */
export class Heartbeat {
  /** To be handed to the engine's thread. */
  readonly buffer: SharedArrayBuffer;
  /** When the turn began that runs, on the process' clock; 0: the engine has nothing to do. */
  readonly #beganMs: Float64Array;

  constructor(buffer = new SharedArrayBuffer(Float64Array.BYTES_PER_ELEMENT)) {
    this.buffer = buffer;
    this.#beganMs = new Float64Array(buffer);
  }

  /** A turn of work begins. */
  beat(nowMs: number): void {
    this.#beganMs[0] = nowMs;
  }

  /** There is nothing to do. */
  rest(): void {
    this.#beganMs[0] = 0;
  }

  /** How long the turn takes that runs; 0 where none does. */
  turnMs(nowMs: number): number {
    const beganMs = this.#beganMs[0] ?? 0;
    return beganMs === 0 ? 0 : Math.max(0, nowMs - beganMs);
  }
}
