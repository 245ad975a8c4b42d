import type { Socket } from "node:net";

/** Frames of one turn, written together: a write of its own costs each more than making it. */
export class FrameOutbox {
  readonly #socket: Socket;
  #frames: Buffer[] = [];
  #bytes = 0;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  /** Bytes that the system has not taken yet. */
  get unsentBytes(): number {
    return this.#bytes + this.#socket.writableLength;
  }

  push(frame: Buffer): void {
    if (this.#frames.length === 0) queueMicrotask(() => this.#flush());
    this.#frames.push(frame);
    this.#bytes += frame.byteLength;
  }

  #flush(): void {
    const frames = this.#frames;
    this.#frames = [];
    this.#bytes = 0;
    if (!this.#socket.destroyed) this.#socket.write(Buffer.concat(frames));
  }
}
