/**
 * A native thread that relays what is plain of streamed answers (native/relay), so that a token of
 * them costs JavaScript nothing. Whatever is not plain comes back, and is read on here.
 */
import { Socket } from "node:net";
import type { GapWatch } from "#cluster/routing";
import { LOOKED, type Looked, type RelayLibrary, relayLibrary } from "./relay-library.ts";
import type { PlainForm } from "./stream-reader.ts";

/** Connections for the thread, which stay open until the loan ends. */
export interface Lending {
  readonly form: PlainForm;
  /** Descriptors of plain TCP; in the meantime JavaScript reads and writes nothing there. */
  readonly worker: number;
  readonly client: number;
  readonly contentBytesMax: number;
  /** Null: times between tokens are not counted. */
  readonly gaps: GapWatch | null;
  /** Since the last token came. */
  readonly agoMs: number;
  /** Bytes were sent to the client, with so many tokens, of which the last came so long ago. */
  readonly onSent: (tokens: number, agoMs: number) => void;
  /** The thread has come to what is not plain: the loan is to be ended. */
  readonly onStop: () => void;
}

/** Times between tokens of all loans since the start. */
export interface GapCounts {
  /** Of those up to each bound that are above the one before it, and of those above all. */
  readonly counts: readonly number[];
  readonly sumMs: number;
  /** Of those that had a deadline. */
  readonly met: number;
  readonly missed: number;
}

/** What a loan has left. */
export interface LoanEnd {
  /** Not told yet. */
  readonly tokens: number;
  readonly hasSent: boolean;
  /** Since the last token came. */
  readonly agoMs: number;
  readonly contentBytes: number;
  /** The rest of a chunk that the client's connection did not take: it comes before all else. */
  readonly unsent: Buffer;
  /** The worker's next bytes, from the beginning of a chunk. */
  readonly pending: Buffer;
  /** Since the last of these came. */
  readonly pendingAgoMs: number;
  /** By choice, with commas between them. */
  readonly ids: readonly string[];
}

/** Connections that the thread has. */
export interface Loan {
  /** Afterwards the thread touches neither connection. Null: the loan has ended before. */
  end(): LoanEnd | null;
}

/** Rarer looks cost less; books need no better times: how old the last token is, is told. */
const TELL_MS = 250;
const TOLD_MAX = 1024;
const TOLD_WORDS = 4;
const HEADER_WORDS = 7;
const US_PER_MS = 1000;
const WORD_BYTES = 4;
const BYTES_MAX = 2 ** 31 - 1;

export class NativeRelay {
  readonly #library: RelayLibrary;
  readonly #wake: Socket;
  readonly #loans = new Map<number, Lending>();
  readonly #told = new Uint32Array(TOLD_MAX * TOLD_WORDS);
  readonly #name = new Uint32Array(1);
  readonly #gaps: Float64Array;
  #context: bigint | null;
  #timer: NodeJS.Timeout | null = null;

  /**
   * `gapBoundsMs`, ascending: times between tokens are counted by them. Null where the library was
   * not built, or the system has no room for the thread.
   */
  static open(gapBoundsMs: readonly number[]): NativeRelay | null {
    const library = relayLibrary();
    if (library === null) return null;
    const boundsUs = BigInt64Array.from(gapBoundsMs, (ms) => BigInt(toUs(ms)));
    const fd = new Int32Array(1);
    const context = library.open(boundsUs, fd);
    if (context === null) return null;
    return new NativeRelay(library, context, { wakeFd: fd[0] ?? -1, bounds: boundsUs.length });
  }

  private constructor(
    library: RelayLibrary,
    context: bigint,
    { wakeFd, bounds }: { readonly wakeFd: number; readonly bounds: number },
  ) {
    this.#library = library;
    this.#gaps = new Float64Array(bounds + 4);
    this.#context = context;
    this.#wake = new Socket({ fd: wakeFd, readable: true, writable: false });
    this.#wake.on("data", () => this.#drain(LOOKED.stopped)).on("error", () => {});
    this.#wake.unref();
  }

  /** Loans that have not ended. */
  get loanCount(): number {
    return this.#loans.size;
  }

  get gaps(): GapCounts {
    if (this.#context !== null) this.#library.gaps(this.#context, this.#gaps);
    const [sumUs = 0, met = 0, missed = 0] = this.#gaps.subarray(-3);
    return { counts: [...this.#gaps.subarray(0, -3)], sumMs: sumUs / US_PER_MS, met, missed };
  }

  /** Null: there is no room. */
  lend(lending: Lending): Loan | null {
    if (this.#context === null) return null;
    const { form, worker, client, gaps, agoMs } = lending;
    const contentBytesMax = Math.min(lending.contentBytesMax, BYTES_MAX);
    const gapDeadlineUs = gaps === null ? -1 : deadlineUs(gaps);
    const times = { gapDeadlineUs, agoUs: toUs(agoMs) };
    const connections = { ...form, worker, client, contentBytesMax, ...times };
    const isLent = this.#library.lend(this.#context, connections, this.#name);
    const [loan] = this.#name;
    if (isLent === 0 || loan === undefined) return null;
    this.#loans.set(loan, lending);
    this.#timer ??= setInterval(() => this.#drain(LOOKED.free), TELL_MS).unref();
    return { end: () => this.#end(loan) };
  }

  /** Tells at once of what has happened. */
  drain(): void {
    this.#drain(LOOKED.all);
  }

  #drain(which: Looked): void {
    if (this.#context === null) return;
    const stopped: Lending[] = [];
    const told = this.#told;
    for (;;) {
      const lookMs = performance.now();
      const count = this.#library.drain(this.#context, which, told, TOLD_MAX);
      for (let at = 0; at < count * TOLD_WORDS; at += TOLD_WORDS) {
        const lending = this.#loans.get(told[at] ?? 0);
        if (lending === undefined) continue;
        // As of now, not of the look: those before it in the table took time.
        const agoMs = (told[at + 3] ?? 0) / US_PER_MS + performance.now() - lookMs;
        lending.onSent(told[at + 1] ?? 0, agoMs);
        if (told[at + 2] === 1) stopped.push(lending);
      }
      if (count < TOLD_MAX) break;
    }
    // Behind the last look at the table: what these read on may be lent again.
    for (const { onStop } of stopped) onStop();
  }

  /** Ends the thread; loans end with nothing left. */
  close(): void {
    if (this.#context === null) return;
    this.#library.gaps(this.#context, this.#gaps);
    this.#library.close(this.#context);
    this.#context = null;
    this.#loans.clear();
    this.#stopTimer();
    this.#wake.destroy();
  }

  #end(loan: number): LoanEnd | null {
    if (this.#context === null || !this.#loans.delete(loan)) return null;
    if (this.#loans.size === 0) this.#stopTimer();
    const bytes = this.#library.end(this.#context, loan);
    if (bytes < 0) return null;
    const left = Buffer.allocUnsafeSlow(bytes);
    this.#library.left(this.#context, left);
    return readLeft(left);
  }

  #stopTimer(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
  }
}

/** 0 where there is none: one that is shorter than 1 us counts as that. */
function deadlineUs({ deadlineMs }: GapWatch): number {
  return deadlineMs === null ? 0 : Math.max(1, toUs(deadlineMs));
}

function toUs(ms: number): number {
  return Math.round(ms * US_PER_MS);
}

function readLeft(left: Buffer): LoanEnd {
  const word = (index: number) => left.readUInt32LE(index * WORD_BYTES);
  const [unsentBytes, pendingBytes] = [word(3), word(4)];
  let idsBytes = left.length - HEADER_WORDS * WORD_BYTES - unsentBytes - pendingBytes;
  const lengths: number[] = [];
  while (idsBytes > 0) {
    const length = word(HEADER_WORDS + lengths.length);
    lengths.push(length);
    idsBytes -= WORD_BYTES + length;
  }
  let at = (HEADER_WORDS + lengths.length) * WORD_BYTES;
  const next = (length: number) => {
    at += length;
    return left.subarray(at - length, at);
  };
  return {
    ...{ tokens: word(0), hasSent: word(1) === 1, contentBytes: word(2) },
    ...{ agoMs: word(5) / US_PER_MS, pendingAgoMs: word(6) / US_PER_MS },
    ...{ unsent: next(unsentBytes), pending: next(pendingBytes) },
    ids: lengths.map((length) => next(length).toString("latin1")),
  };
}
