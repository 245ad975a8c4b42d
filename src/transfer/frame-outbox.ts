import type { Socket } from "node:net";
import { FrameWriter } from "./frames.ts";

/** Frames of many pieces are not longer: the first ones travel while later ones are named. */
const JOINED_BYTES_MAX = 4096;
const HEAD_BYTES_MAX = 32;

/** A frame that may still grow. */
interface OpenFrame {
  readonly type: number;
  readonly read: number;
  readonly writer: FrameWriter;
}

/** Frames of one turn, written together: a write of its own costs each more than making it. */
export class FrameOutbox {
  readonly #socket: Socket;
  #frames: Buffer[] = [];
  #bytes = 0;
  #open: OpenFrame | null = null;
  #isWaiting = false;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  /** Bytes that the system has not taken yet. */
  get unsentBytes(): number {
    return this.#bytes + this.#socket.writableLength;
  }

  push(frame: Buffer): void {
    this.#seal();
    this.#add(frame);
    this.#flushSoon();
  }

  /**
   * For so many bytes about a piece of `read`, which the caller writes: they join the latest frame
   * where that is of the same type and read. Otherwise `begin` writes what a new one begins with,
   * behind the read.
   */
  about(
    type: number,
    read: number,
    bytes: number,
    begin: (writer: FrameWriter) => void = () => {},
  ): FrameWriter {
    const open = this.#open;
    if (open?.type === type && open.read === read && open.writer.room >= bytes) return open.writer;
    this.#seal();
    const writer = new FrameWriter(Math.max(JOINED_BYTES_MAX, HEAD_BYTES_MAX + bytes)).u32(read);
    begin(writer);
    this.#open = { type, read, writer };
    this.#flushSoon();
    return writer;
  }

  #seal(): void {
    if (this.#open === null) return;
    const { type, writer } = this.#open;
    this.#open = null;
    this.#add(writer.frame(type));
    if (this.#bytes >= JOINED_BYTES_MAX) this.#write();
  }

  #add(frame: Buffer): void {
    this.#frames.push(frame);
    this.#bytes += frame.byteLength;
  }

  #flushSoon(): void {
    if (this.#isWaiting) return;
    this.#isWaiting = true;
    queueMicrotask(() => {
      this.#isWaiting = false;
      this.#seal();
      this.#write();
    });
  }

  #write(): void {
    const frames = this.#frames;
    this.#frames = [];
    this.#bytes = 0;
    if (frames.length > 0 && !this.#socket.destroyed) this.#socket.write(Buffer.concat(frames));
  }
}
