/**
 * The asking side of questions (questions.ts). A connection whose question was answered is kept for
 * the next one: opening one and showing the secret takes two exchanges of messages.
 */
import { connect, type Socket } from "node:net";
import { TLSSocket } from "node:tls";
import { systemTimer, type Timer } from "#base";
import { ByteReader } from "./byte-reader.ts";
import { isProof, keyId, NONCE_BYTES, newNonce, PROOF_BYTES, proofOf } from "./challenge.ts";
import type { PeerAddress } from "./contract.ts";
import { connectEncrypted, encrypted, reasonOf } from "./encryption.ts";
import { isLoopback, type TransferTls } from "./options.ts";
import { ANSWER_BYTES_MAX, ENCRYPTED, framed, LENGTH_BYTES, MAGIC } from "./question-frames.ts";
import { TransferError } from "./transfer-error.ts";

const CONNECT_MS = 2000;
/** A connection without a question is kept for so long: shorter than the other side keeps it. */
const KEPT_MS = 30_000;
/** Of one peer. */
const KEPT_MAX = 4;

export interface AskerOptions {
  readonly secret: string;
  /** All connections are encrypted; peers that want it are shown the certificate. */
  readonly tls?: TransferTls;
  readonly timer?: Timer;
}

export interface Asking {
  readonly signal?: AbortSignal;
  readonly deadlineMs: number;
}

/** Asks other processes. */
export interface Asker {
  /** Rejects with a TransferError, or the signal's reason. */
  ask(peer: PeerAddress, question: Uint8Array, asking: Asking): Promise<Uint8Array>;
  /** Connections that are kept. */
  readonly kept: number;
  /** Ends the connections that are kept. */
  close(): void;
}

/** A connection to a process that has shown that it knows the secret. */
interface Line {
  readonly socket: Socket;
  readonly reader: ByteReader;
  /** Ends the wait for a question, once it has one. */
  stopKeeping: () => void;
}

export function openAsker(options: AskerOptions): Asker {
  return new KeptLines(options);
}

class KeptLines implements Asker {
  readonly #secret: string;
  readonly #tls: TransferTls | undefined;
  readonly #timer: Timer;
  readonly #lines = new Map<string, Line[]>();
  #closed = false;

  constructor({ secret, tls, timer = systemTimer }: AskerOptions) {
    this.#secret = secret;
    this.#tls = tls;
    this.#timer = timer;
  }

  get kept(): number {
    return [...this.#lines.values()].reduce((sum, lines) => sum + lines.length, 0);
  }

  async ask(
    peer: PeerAddress,
    question: Uint8Array,
    { signal, deadlineMs }: Asking,
  ): Promise<Uint8Array> {
    signal?.throwIfAborted();
    if (this.#secret === "" && !isLoopback(peer.host)) {
      throw new TransferError("refused", `${peer.host} is another machine, and there is no secret`);
    }
    const tries = new AbortController();
    let isLate = false;
    const stop = this.#timer.after(deadlineMs, () => {
      isLate = true;
      tries.abort();
    });
    const abort = () => tries.abort();
    signal?.addEventListener("abort", abort, { once: true });
    try {
      return await this.#ask(peer, question, tries.signal, deadlineMs);
    } catch (error) {
      signal?.throwIfAborted();
      if (isLate) throw new TransferError("timed_out", "it did not answer in time");
      throw error;
    } finally {
      stop();
      signal?.removeEventListener("abort", abort);
    }
  }

  close(): void {
    this.#closed = true;
    for (const line of [...this.#lines.values()].flat()) {
      line.stopKeeping();
      line.socket.destroy();
    }
    this.#lines.clear();
  }

  async #ask(peer: PeerAddress, question: Uint8Array, signal: AbortSignal, deadlineMs: number) {
    const name = `${peer.host}:${peer.port}`;
    const known = this.#take(name);
    if (known !== null) {
      // The other side may have ended it, or have begun anew: then nothing was answered.
      const answer = await exchange(known, question, signal).catch(() => null);
      if (answer !== null) {
        this.#keep(name, known);
        return answer;
      }
      if (signal.aborted) throw new TransferError("aborted", "it was given up");
    }
    const line = await this.#connect(peer, signal, deadlineMs);
    const answer = await exchange(line, question, signal);
    this.#keep(name, line);
    return answer;
  }

  async #connect(peer: PeerAddress, signal: AbortSignal, deadlineMs: number): Promise<Line> {
    const tls = this.#tls;
    const socket = tls === undefined ? connect(peer.port, peer.host) : connectEncrypted(peer, tls);
    const end = () => socket.destroy();
    signal.addEventListener("abort", end, { once: true });
    let isLate = false;
    const stopConnecting = this.#timer.after(Math.min(CONNECT_MS, deadlineMs), () => {
      isLate = true;
      socket.destroy();
    });
    let failure: Error | null = null;
    socket.on("error", (error: Error) => {
      failure = error;
    });
    socket.setNoDelay(true);
    socket.setKeepAlive(true, 10_000);
    if (tls === undefined) socket.once("connect", stopConnecting);
    try {
      if (tls !== undefined) {
        await encrypted(socket);
        stopConnecting();
      }
      const reader = new ByteReader(socket);
      await introduce(socket, reader, this.#secret);
      return { socket, reader, stopKeeping: () => {} };
    } catch (error) {
      socket.destroy();
      if (isLate) throw new TransferError("timed_out", "it did not answer in time");
      throw tls === undefined || failure === null ? error : reasonOf(socket, failure);
    } finally {
      stopConnecting();
      signal.removeEventListener("abort", end);
    }
  }

  #take(name: string): Line | null {
    const lines = this.#lines.get(name);
    // The latest: it is the likeliest to be open still.
    const line = lines?.pop() ?? null;
    line?.stopKeeping();
    if (lines?.length === 0) this.#lines.delete(name);
    line?.socket.ref();
    return line;
  }

  #keep(name: string, line: Line): void {
    const { socket } = line;
    const lines = this.#lines.get(name) ?? [];
    if (this.#closed || socket.destroyed || lines.length >= KEPT_MAX) {
      socket.destroy();
      return;
    }
    this.#lines.set(name, lines);
    lines.push(line);
    socket.unref();
    const forget = () => {
      line.stopKeeping();
      const at = lines.indexOf(line);
      if (at >= 0) lines.splice(at, 1);
      if (lines.length === 0 && this.#lines.get(name) === lines) this.#lines.delete(name);
      socket.destroy();
    };
    socket.once("close", forget);
    const stop = this.#timer.after(KEPT_MS, forget);
    line.stopKeeping = () => {
      stop();
      socket.off("close", forget);
    };
  }
}

/** Shows the secret, and asks for it. */
async function introduce(socket: Socket, reader: ByteReader, secret: string): Promise<void> {
  const asked = newNonce();
  socket.write(Buffer.concat([MAGIC, keyId(secret), asked]));
  const hello = await reader.take(NONCE_BYTES + PROOF_BYTES);
  if (hello === null) {
    const shown = socket instanceof TLSSocket ? "secret and this certificate" : "secret";
    throw new TransferError("closed", `nobody there answers to this ${shown}`);
  }
  if (hello.equals(ENCRYPTED)) {
    throw new TransferError("refused", "it encrypts its connections: this side has no certificate");
  }
  const answered = hello.subarray(0, NONCE_BYTES);
  const expected = proofOf("answers", secret, asked, answered);
  if (!isProof(hello.subarray(NONCE_BYTES), expected)) {
    throw new TransferError("refused", "it does not know the secret");
  }
  socket.write(proofOf("asks", secret, asked, answered));
}

/** One question and its answer. A connection whose question was not answered is ended. */
async function exchange({ socket, reader }: Line, question: Uint8Array, signal: AbortSignal) {
  const end = () => socket.destroy();
  if (signal.aborted) end();
  signal.addEventListener("abort", end, { once: true });
  try {
    socket.write(framed(question));
    const head = await reader.take(LENGTH_BYTES);
    const bytes = head?.readUInt32LE(0) ?? 0;
    if (bytes > ANSWER_BYTES_MAX) throw new TransferError("corrupt", "its answer is too long");
    const answer = head === null ? null : await reader.take(bytes);
    if (answer === null) throw new TransferError("closed", "it ended without an answer");
    return answer;
  } catch (error) {
    socket.destroy();
    throw error;
  } finally {
    signal.removeEventListener("abort", end);
  }
}
