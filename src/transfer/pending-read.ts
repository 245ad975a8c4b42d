import { messageOf } from "#base";
import { bytesOf, type ReadRequest } from "./contract.ts";
import { DEADLINE_MS_MAX, PIECES_MAX } from "./offer-book.ts";
import { TransferError } from "./transfer-error.ts";

/** Ends a way, and calls back when it is quiet. `done`: all pieces arrived. */
type Stop = (quiet: () => void, done: boolean) => void;

/**
 * One read at the reader's side, whatever its way: counts pieces, keeps the deadline and the
 * signal, and settles only after the way is quiet.
 */
export class PendingRead {
  readonly request: ReadRequest;
  readonly settled: Promise<void>;
  /** Target memory of each piece that is not placed, by index. */
  readonly targets: ReadonlyMap<number, readonly Uint8Array[]>;
  /** Bytes of each piece, by index. */
  readonly wanted: ReadonlyMap<number, number>;
  readonly #missing: Set<number>;
  readonly #timer: NodeJS.Timeout;
  readonly #onAbort: () => void;
  /** Ends the way: it calls back once nothing is written any more. */
  #stop: Stop = (quiet) => quiet();
  #resolve: () => void = () => {};
  #reject: (error: TransferError) => void = () => {};
  #ending = false;

  constructor(request: ReadRequest) {
    this.request = request;
    const { targets, wanted } = targetsOf(request);
    this.targets = targets;
    this.wanted = wanted;
    this.#missing = new Set(wanted.keys());
    this.settled = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    const { deadlineMs, signal } = request;
    const expire = () => this.fail("timed_out", `not all pieces arrived within ${deadlineMs} ms`);
    this.#timer = setTimeout(expire, Math.min(Math.max(deadlineMs, 0), DEADLINE_MS_MAX));
    this.#onAbort = () => this.fail("aborted", "the read was aborted");
    signal?.addEventListener("abort", this.#onAbort, { once: true });
    if (signal?.aborted) this.#onAbort();
    else if (this.#missing.size === 0) this.#succeed();
  }

  get ending(): boolean {
    return this.#ending;
  }

  /** How the way is ended, from now on. */
  onStop(stop: Stop): void {
    if (this.#ending) stop(() => {}, false);
    else this.#stop = stop;
  }

  /** Piece `index` is in its memory and was checked. */
  arrived(index: number): void {
    if (this.#ending || !this.#missing.delete(index)) return;
    try {
      this.request.onPiece?.(index);
    } catch (error) {
      this.fail("failed", `the reader of a piece failed: ${messageOf(error)}`, error);
      return;
    }
    if (this.#missing.size === 0) this.#succeed();
  }

  fail(code: TransferError["code"], reason: string, cause?: unknown): void {
    if (this.#ending) return;
    this.#end();
    const { host, port } = this.request.peer;
    const error = new TransferError(code, `Cannot read from ${host}:${port}: ${reason}`, cause);
    this.#stop(() => this.#reject(error), false);
  }

  #succeed(): void {
    if (this.#ending) return;
    this.#end();
    this.#stop(() => this.#resolve(), true);
  }

  #end(): void {
    this.#ending = true;
    clearTimeout(this.#timer);
    this.request.signal?.removeEventListener("abort", this.#onAbort);
    this.request.onEnding?.();
  }
}

function targetsOf({ pieces }: ReadRequest) {
  if (pieces.length > PIECES_MAX) {
    throw new TransferError("refused", `Cannot read ${pieces.length} pieces: ${PIECES_MAX} wanted`);
  }
  const targets = new Map<number, readonly Uint8Array[]>();
  const wanted = new Map<number, number>();
  for (const piece of pieces) {
    const { index } = piece;
    if (!Number.isInteger(index) || index < 0 || index >= PIECES_MAX || wanted.has(index)) {
      throw new TransferError("refused", `Cannot read piece ${index}: an index wanted, named once`);
    }
    if ("into" in piece) {
      targets.set(index, [...piece.into]);
      wanted.set(index, bytesOf(piece.into));
    } else wanted.set(index, piece.bytes);
  }
  return { targets, wanted };
}
