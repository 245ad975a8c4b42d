/** A number in memory shared by both threads: a stuck engine cannot answer messages. */
export class Heartbeat {
  /** To be handed to the engine's thread. */
  readonly buffer: SharedArrayBuffer;
  /** When the current turn began, on the process' clock; 0: the engine is idle. */
  readonly #beganMs: Float64Array;

  constructor(buffer = new SharedArrayBuffer(Float64Array.BYTES_PER_ELEMENT)) {
    this.buffer = buffer;
    this.#beganMs = new Float64Array(buffer);
  }

  /** A turn of work begins. */
  beat(nowMs: number): void {
    this.#beganMs[0] = nowMs;
  }

  /** The engine is idle. */
  rest(): void {
    this.#beganMs[0] = 0;
  }

  /** How long the current turn has taken, in ms; 0 while the engine is idle. */
  turnMs(nowMs: number): number {
    const beganMs = this.#beganMs[0] ?? 0;
    return beganMs === 0 ? 0 : Math.max(0, nowMs - beganMs);
  }
}
