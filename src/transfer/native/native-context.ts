import { Socket } from "node:net";
import { availableParallelism } from "node:os";
import type { Copier } from "../copier.ts";
import { type TransferLibrary, transferLibrary } from "./library.ts";
import { forEachRow, wordsOf } from "./range-table.ts";
import { WordTable } from "./word-table.ts";

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
/** Copies that one call names: the first ones run while later ones are named. */
const COPIES_MAX = 64;
const COPY_IDS = 2 ** 32;

/** Where a source says that it is valid, and what it says then: the halves of a word. */
export interface Validity {
  readonly word: number;
  readonly tokenHigh: number;
  readonly tokenLow: number;
}

/** A copy that is told of by an event COPIED of its tag, read and piece; status 1: it is valid. */
export interface NamedCopy {
  readonly tag: number;
  readonly read: number;
  readonly piece: number;
  /** Null: the source is valid in any case. */
  readonly validity: Validity | null;
  /** (address, bytes) each. */
  readonly from: readonly number[];
  readonly into: readonly number[];
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
  readonly #copies = new WordTable();
  #copyCount = 0;
  /** Copies within this process. */
  readonly #own = new Map<number, () => void>();
  readonly #ownTag: number;
  #nextOwn = 0;

  constructor(library: TransferLibrary) {
    this.library = library;
    const fd = new Int32Array(1);
    const threads = Math.min(COPY_THREADS_MAX, availableParallelism());
    this.context = library.open(threads, fd);
    this.#wake = new Socket({ fd: fd[0]!, readable: true, writable: false });
    this.#wake.on("data", () => this.#drain());
    this.#wake.unref();
    this.#ownTag = this.listen(({ piece }) => this.#copied(piece));
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
    const piece = this.#nextOwn;
    this.#nextOwn = (piece + 1) % COPY_IDS;
    this.hold();
    this.#own.set(piece, () => {
      // The memory of both must live until now.
      if (from.length >= 0 && into.length >= 0) done();
    });
    const sides = { from: wordsOf(this.library, from), into: wordsOf(this.library, into) };
    this.addCopy({ tag: this.#ownTag, read: 0, piece, validity: null, ...sides });
  }

  #copied(piece: number): void {
    const done = this.#own.get(piece);
    this.#own.delete(piece);
    this.letGo();
    done?.();
  }

  /** Begins a copy, with others of this turn. */
  addCopy({ tag, read, piece, validity, from, into }: NamedCopy): void {
    if (this.#copyCount++ === 0) queueMicrotask(() => this.#flushCopies());
    const table = this.#copies;
    table.add(tag);
    table.addHalves(piece, read);
    table.add(validity?.word ?? 0);
    table.addHalves(validity?.tokenHigh ?? 0, validity?.tokenLow ?? 0);
    const count = table.length;
    table.add(0);
    forEachRow(from, into, (source, target, bytes) => {
      table.add(source);
      table.add(target);
      table.add(bytes);
    });
    table.set(count, (table.length - count - 1) / 3);
    if (this.#copyCount >= COPIES_MAX) this.#flushCopies();
  }

  #flushCopies(): void {
    const count = this.#copyCount;
    this.#copyCount = 0;
    if (count > 0) this.library.copy(this.context, this.#copies.halves, count);
    this.#copies.clear();
  }

  #drain(): void {
    for (;;) {
      const count = this.library.drain(this.context, this.#events, EVENTS_MAX);
      for (let at = 0; at < count * EVENT_BYTES; at += EVENT_BYTES) {
        const view = this.#view;
        // There are never so many tags that they need more than a half.
        const listener = this.#listeners.get(view.getUint32(at + 16, true));
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
