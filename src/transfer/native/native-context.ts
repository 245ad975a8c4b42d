import { Socket } from "node:net";
import { availableParallelism } from "node:os";
import type { Copier } from "../copier.ts";
import { type TransferLibrary, transferLibrary } from "./library.ts";
import { copyRows, wordsOf } from "./range-table.ts";

/** Kinds of native/transfer/events.h. */
export const COPIED = 1;
export const SENT = 2;
export const ARRIVED = 3;
export const CORRUPT = 4;
export const QUIET = 5;
export const LINK_DOWN = 6;
export const CLOSED = 7;

export interface NativeEvent {
  readonly kind: number;
  readonly status: number;
  readonly read: number;
  readonly piece: number;
}

type Listener = (event: NativeEvent) => void;

const EVENT_BYTES = 24;
const EVENTS_MAX = 1024;
const COPY_THREADS_MAX = 4;

/** Where a source says that it is valid, and what it says then. */
export interface Validity {
  readonly word: bigint;
  readonly token: bigint;
}

/** What native threads tell this thread, and copies that they make for it. */
export class NativeContext implements Copier {
  readonly library: TransferLibrary;
  readonly context: bigint;
  readonly #wake: Socket;
  readonly #events = new Uint8Array(EVENT_BYTES * EVENTS_MAX);
  readonly #view = new DataView(this.#events.buffer);
  readonly #listeners = new Map<number, Listener>();
  #nextTag = 1;
  #held = 0;
  #copies: bigint[] = [];
  #copyCount = 0;

  constructor(library: TransferLibrary) {
    this.library = library;
    const fd = new Int32Array(1);
    const threads = Math.min(COPY_THREADS_MAX, availableParallelism());
    this.context = library.open(threads, fd);
    this.#wake = new Socket({ fd: fd[0]!, readable: true, writable: false });
    this.#wake.on("data", () => this.#drain());
    this.#wake.unref();
  }

  /** Events of the returned tag go to `listener`. */
  listen(listener: Listener): number {
    const tag = this.#nextTag++;
    this.#listeners.set(tag, listener);
    return tag;
  }

  forget(tag: number): void {
    this.#listeners.delete(tag);
  }

  /** Keeps the process alive until as many calls of `letGo`. */
  hold(): void {
    if (this.#held++ === 0) this.#wake.ref();
  }

  letGo(): void {
    if (--this.#held === 0) this.#wake.unref();
  }

  copy(from: readonly Uint8Array[], into: readonly Uint8Array[], done: () => void): void {
    const rows = copyRows(wordsOf(this.library, from), wordsOf(this.library, into));
    this.copyWords(rows, null, () => {
      // The memory of both must live until now.
      if (from.length >= 0 && into.length >= 0) done();
    });
  }

  /** `rows`: (from, to, bytes) each. `done` says whether the source was valid to the end. */
  copyWords(rows: readonly bigint[], at: Validity | null, done: (valid: boolean) => void): void {
    this.hold();
    const tag = this.listen(({ status }) => {
      this.forget(tag);
      this.letGo();
      done(status === 1);
    });
    if (this.#copyCount++ === 0) queueMicrotask(() => this.#flushCopies());
    const word = at?.word ?? 0n;
    this.#copies.push(BigInt(tag), word, at?.token ?? 0n, BigInt(rows.length / 3), ...rows);
  }

  #flushCopies(): void {
    const table = BigUint64Array.from(this.#copies);
    const count = this.#copyCount;
    this.#copies = [];
    this.#copyCount = 0;
    this.library.copy(this.context, table, count);
  }

  #drain(): void {
    for (;;) {
      const count = this.library.drain(this.context, this.#events, EVENTS_MAX);
      for (let at = 0; at < count * EVENT_BYTES; at += EVENT_BYTES) {
        const view = this.#view;
        const listener = this.#listeners.get(Number(view.getBigUint64(at + 16, true)));
        listener?.({
          kind: view.getInt32(at, true),
          status: view.getInt32(at + 4, true),
          read: view.getUint32(at + 8, true),
          piece: view.getUint32(at + 12, true),
        });
      }
      if (count < EVENTS_MAX) return;
    }
  }
}

let context: NativeContext | null | undefined;

/** This thread's; null where the library was not built. It lives as long as the thread. */
export function nativeContext(): NativeContext | null {
  if (context === undefined) {
    const library = transferLibrary();
    context = library === null ? null : new NativeContext(library);
  }
  return context;
}
