/**
 * Short questions between processes that know the same secret; what is asked and answered is the
 * callers' matter. A connection has one question: the asking side sends nothing of it before the
 * other has shown that it knows the secret.
 *
 *   asking: "PGQ1", key id [8], nonce [32] · answering: nonce [32], proof [32]
 *   asking: proof [32], length u32, question · answering: length u32, answer
 */
import { connect, createServer, type Server, type Socket } from "node:net";
import { systemTimer, type Timer } from "#base";
import { ByteReader } from "./byte-reader.ts";
import {
  isProof,
  KEY_ID_BYTES,
  keyId,
  NONCE_BYTES,
  newNonce,
  PROOF_BYTES,
  proofOf,
} from "./challenge.ts";
import type { PeerAddress } from "./contract.ts";
import { checkServerOptions, isLoopback } from "./options.ts";
import { TransferError } from "./transfer-error.ts";

const MAGIC = Buffer.from("PGQ1");
const LENGTH_BYTES = 4;
const HANDSHAKE_MS = 5000;
const CONNECT_MS = 2000;
/** Ten times the ids of the longest contexts that are served. */
const QUESTION_BYTES_MAX = 16 * 2 ** 20;
const ANSWER_BYTES_MAX = 2 ** 20;
const CONNECTIONS_MAX = 1024;

export interface QuestionServerOptions {
  /** Loopback unless there is a secret. Default: 127.0.0.1. */
  readonly host?: string;
  /** 0: a free one. */
  readonly port?: number;
  /** All of them are accepted. */
  readonly secrets: readonly string[];
  /** Called with each question; what it rejects with ends the connection. */
  readonly answer: (question: Uint8Array) => Promise<Uint8Array>;
  readonly timer?: Timer;
}

/** Listens for questions. */
export interface QuestionServer {
  readonly address: PeerAddress;
  /** Connections that are open. */
  readonly connections: number;
  close(): Promise<void>;
}

/** Rejects with INVALID_ARGUMENT for an address that others reach, without a secret. */
export async function openQuestionServer(options: QuestionServerOptions): Promise<QuestionServer> {
  const { host = "127.0.0.1", port = 0, secrets } = options;
  checkServerOptions({ host, secret: secrets[0] ?? "" });
  const open = new Set<Socket>();
  const server = createServer((socket) => {
    if (open.size >= CONNECTIONS_MAX) {
      socket.destroy();
      return;
    }
    open.add(socket);
    socket.on("error", () => {});
    socket.on("close", () => open.delete(socket));
    socket.setNoDelay(true);
    void answerOne(socket, options).catch(() => socket.destroy());
  });
  const address = await listen(server, host, port);
  return {
    address,
    get connections() {
      return open.size;
    },
    close: async () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const socket of open) socket.destroy();
      await closed;
    },
  };
}

function listen(server: Server, host: string, port: number): Promise<PeerAddress> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, () => {
      const bound = server.address();
      resolve({ host, port: typeof bound === "object" && bound !== null ? bound.port : 0 });
    });
  });
}

async function answerOne(socket: Socket, options: QuestionServerOptions): Promise<void> {
  const { secrets, answer, timer = systemTimer } = options;
  const stop = timer.after(HANDSHAKE_MS, () => socket.destroy());
  const reader = new ByteReader(socket);
  const hello = await reader.take(MAGIC.length + KEY_ID_BYTES + NONCE_BYTES);
  if (hello === null || !hello.subarray(0, MAGIC.length).equals(MAGIC)) {
    socket.destroy();
    return;
  }
  const wanted = hello.subarray(MAGIC.length, MAGIC.length + KEY_ID_BYTES);
  const asked = hello.subarray(MAGIC.length + KEY_ID_BYTES);
  const known = secrets.length === 0 ? [""] : secrets;
  // A stranger is told no more than that nothing it knows is right.
  const secret = known.find((one) => keyId(one).equals(wanted));
  if (secret === undefined) {
    socket.destroy();
    return;
  }
  const answered = newNonce();
  socket.write(Buffer.concat([answered, proofOf("answers", secret, asked, answered)]));
  const head = await reader.take(PROOF_BYTES + LENGTH_BYTES);
  const bytes = head?.readUInt32LE(PROOF_BYTES) ?? 0;
  const expected = proofOf("asks", secret, asked, answered);
  if (head === null || !isProof(head.subarray(0, PROOF_BYTES), expected)) {
    socket.destroy();
    return;
  }
  const question = bytes <= QUESTION_BYTES_MAX ? await reader.take(bytes) : null;
  stop();
  if (question === null) {
    socket.destroy();
    return;
  }
  socket.end(framed(await answer(question)));
}

export interface Asking {
  readonly secret: string;
  readonly signal?: AbortSignal;
  readonly deadlineMs: number;
  readonly timer?: Timer;
}

/** Asks another process. Rejects with a TransferError, or the signal's reason. */
export async function askPeer(
  peer: PeerAddress,
  question: Uint8Array,
  { secret, signal, deadlineMs, timer = systemTimer }: Asking,
): Promise<Uint8Array> {
  signal?.throwIfAborted();
  if (secret === "" && !isLoopback(peer.host)) {
    throw new TransferError("refused", `${peer.host} is another machine, and there is no secret`);
  }
  const socket = connect(peer.port, peer.host);
  let why = "closed" as "closed" | "timed_out";
  const late = () => {
    why = "timed_out";
    socket.destroy();
  };
  const abort = () => socket.destroy();
  signal?.addEventListener("abort", abort, { once: true });
  const stop = timer.after(deadlineMs, late);
  const stopConnecting = timer.after(Math.min(CONNECT_MS, deadlineMs), late);
  socket.on("error", () => {});
  socket.setNoDelay(true);
  socket.once("connect", stopConnecting);
  try {
    return await exchange(socket, question, secret);
  } catch (error) {
    signal?.throwIfAborted();
    if (why === "timed_out") throw new TransferError("timed_out", "it did not answer in time");
    throw error;
  } finally {
    stop();
    stopConnecting();
    signal?.removeEventListener("abort", abort);
    socket.destroy();
  }
}

async function exchange(socket: Socket, question: Uint8Array, secret: string) {
  const reader = new ByteReader(socket);
  const asked = newNonce();
  socket.write(Buffer.concat([MAGIC, keyId(secret), asked]));
  const hello = await reader.take(NONCE_BYTES + PROOF_BYTES);
  if (hello === null) throw new TransferError("closed", "nobody there answers to this secret");
  const answered = hello.subarray(0, NONCE_BYTES);
  const expected = proofOf("answers", secret, asked, answered);
  if (!isProof(hello.subarray(NONCE_BYTES), expected)) {
    throw new TransferError("refused", "it does not know the secret");
  }
  socket.write(Buffer.concat([proofOf("asks", secret, asked, answered), framed(question)]));
  const head = await reader.take(LENGTH_BYTES);
  const bytes = head?.readUInt32LE(0) ?? 0;
  if (bytes > ANSWER_BYTES_MAX) throw new TransferError("corrupt", "its answer is too long");
  const answer = head === null ? null : await reader.take(bytes);
  if (answer === null) throw new TransferError("closed", "it ended without an answer");
  return answer;
}

function framed(bytes: Uint8Array): Buffer {
  const length = Buffer.alloc(LENGTH_BYTES);
  length.writeUInt32LE(bytes.length);
  return Buffer.concat([length, bytes]);
}
