/**
 * Short questions between processes that know the same secret; what is asked and answered is the
 * callers' matter. A connection has one question at a time, any number behind each other: the
 * asking side (asker.ts) sends nothing of one before the other has shown that it knows the secret.
 *
 *   asking: "PGQ2", key id [8], nonce [32] · answering: nonce [32], proof [32]
 *   asking: proof [32]
 *   asking: length u32, question · answering: length u32, answer · and so on
 *
 * With a certificate all of it is encrypted; a peer that begins in clear is told so.
 */
import { createServer, type Server, type Socket } from "node:net";
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
import { Encryption } from "./encryption.ts";
import { checkServerOptions, type TransferTls } from "./options.ts";
import { ENCRYPTED, framed, LENGTH_BYTES, MAGIC, QUESTION_BYTES_MAX } from "./question-frames.ts";

const HANDSHAKE_MS = 5000;
/** A question takes no longer to come, once it has begun. */
const QUESTION_MS = 5000;
/** A connection without a question ends after so long. */
const IDLE_MS = 60_000;
const CONNECTIONS_MAX = 1024;

export interface QuestionServerOptions {
  /** Loopback unless there is a secret. Default: 127.0.0.1. */
  readonly host?: string;
  /** 0: a free one. */
  readonly port?: number;
  /** All of them are accepted. */
  readonly secrets: readonly string[];
  /** With a certificate and its key all connections are encrypted. */
  readonly tls?: TransferTls;
  /** Called with each question; what it rejects with ends the connection. */
  readonly answer: (question: Uint8Array, from: AskingPeer) => Promise<Uint8Array>;
  readonly timer?: Timer;
}

/** Who asks, as far as its connection tells. */
export interface AskingPeer {
  /** Its connection has ended: it cannot be answered. */
  readonly isGone: boolean;
  /** Calls back once its connection has ended, at once where it has; the result ends that. */
  onGone(run: () => void): () => void;
}

/** Listens for questions. */
export interface QuestionServer {
  readonly address: PeerAddress;
  /** Connections that are open. */
  readonly connections: number;
  close(): Promise<void>;
}

class Connection implements AskingPeer {
  /** It waits for its next question. */
  isIdle = false;
  readonly #waiting = new Set<() => void>();
  isGone = false;

  onGone(run: () => void): () => void {
    if (this.isGone) run();
    else this.#waiting.add(run);
    return () => this.#waiting.delete(run);
  }

  end(): void {
    this.isGone = true;
    for (const run of this.#waiting) run();
    this.#waiting.clear();
  }
}

/**
 * Rejects with INVALID_ARGUMENT for an address that others reach, without a secret, and for what is
 * no certificate.
 */
export async function openQuestionServer(options: QuestionServerOptions): Promise<QuestionServer> {
  const { host = "127.0.0.1", port = 0, secrets } = options;
  checkServerOptions({ host, secret: secrets[0] ?? "" });
  const encryption = options.tls === undefined ? null : new Encryption(options.tls);
  const open = new Map<Socket, Connection>();
  const server = createServer((socket) => {
    socket.on("error", () => {});
    if (open.size >= CONNECTIONS_MAX && !endIdle(open)) {
      socket.destroy();
      return;
    }
    const connection = new Connection();
    open.set(socket, connection);
    socket.on("close", () => {
      open.delete(socket);
      connection.end();
    });
    socket.setNoDelay(true);
    void answerAll({ entered: socket, encryption }, options, connection)
      .catch(() => {})
      .finally(() => socket.destroy());
  });
  const address = await listen(server, host, port);
  return {
    address,
    get connections() {
      return open.size;
    },
    close: async () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const socket of open.keys()) socket.destroy();
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

/** Makes room: ends the connection that is oldest of those without a question. */
function endIdle(open: ReadonlyMap<Socket, Connection>): boolean {
  for (const [socket, { isIdle }] of open) {
    if (!isIdle) continue;
    socket.destroy();
    return true;
  }
  return false;
}

/** Until the connection ends, or does what it should not. */
async function answerAll(
  { entered, encryption }: { readonly entered: Socket; readonly encryption: Encryption | null },
  options: QuestionServerOptions,
  connection: Connection,
): Promise<void> {
  const { answer, timer = systemTimer } = options;
  const within = async <Result>(ms: number, wait: Promise<Result>): Promise<Result> => {
    const stop = timer.after(ms, () => entered.destroy());
    return await wait.finally(stop);
  };
  const socket =
    encryption === null
      ? entered
      : await within(HANDSHAKE_MS, encryption.enter(entered, ENCRYPTED));
  const reader = new ByteReader(socket);
  if (!(await within(HANDSHAKE_MS, isAdmitted(socket, reader, options)))) return;
  for (let isFirst = true; ; isFirst = false) {
    connection.isIdle = !isFirst;
    const head = await within(isFirst ? HANDSHAKE_MS : IDLE_MS, reader.take(LENGTH_BYTES));
    connection.isIdle = false;
    const bytes = head?.readUInt32LE(0) ?? 0;
    if (head === null || bytes > QUESTION_BYTES_MAX) return;
    const question = await within(QUESTION_MS, reader.take(bytes));
    if (question === null) return;
    socket.write(framed(await answer(question, connection)));
  }
}

/** Shows that this side knows the secret that is meant, and asks for it. */
async function isAdmitted(
  socket: Socket,
  reader: ByteReader,
  { secrets }: QuestionServerOptions,
): Promise<boolean> {
  const hello = await reader.take(MAGIC.length + KEY_ID_BYTES + NONCE_BYTES);
  if (hello === null || !hello.subarray(0, MAGIC.length).equals(MAGIC)) return false;
  const wanted = hello.subarray(MAGIC.length, MAGIC.length + KEY_ID_BYTES);
  const asked = hello.subarray(MAGIC.length + KEY_ID_BYTES);
  const known = secrets.length === 0 ? [""] : secrets;
  // A stranger is told no more than that nothing it knows is right.
  const secret = known.find((one) => keyId(one).equals(wanted));
  if (secret === undefined) return false;
  const answered = newNonce();
  socket.write(Buffer.concat([answered, proofOf("answers", secret, asked, answered)]));
  const proof = await reader.take(PROOF_BYTES);
  return proof !== null && isProof(proof, proofOf("asks", secret, asked, answered));
}
