/**
 * Who is there: both sides show that they know the secret, by a keyed hash of both sides' nonces.
 * A recorded handshake opens nothing, since the other side's nonce is new each time; the roles are
 * part of what is hashed, so that an answer cannot be sent back.
 */
import { createHash, createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { readFileSync } from "node:fs";
import type { Socket } from "node:net";
import { messageOf } from "#base";
import {
  FRAME,
  type Frame,
  FrameFields,
  type FrameReader,
  FrameWriter,
  frameOf,
} from "./frames.ts";
import { TransferError } from "./transfer-error.ts";

export const SESSION_BYTES = 16;
const NONCE_BYTES = 32;
const MAC_BYTES = 32;
const PROTOCOL = Buffer.from("PGTR\0\x02", "latin1");

/** What a connection is for: a session of its own, or data of one. */
export type Purpose = { readonly kind: "control" } | { readonly kind: "data"; session: Buffer };

const CONTROL_SESSION = Buffer.alloc(SESSION_BYTES);

function macOf(secret: string, role: string, ...parts: readonly Uint8Array[]): Buffer {
  const mac = createHmac("sha256", secret).update(PROTOCOL).update(role);
  for (const part of parts) mac.update(part);
  return mac.digest();
}

let machine: Buffer | undefined;

/** Equal for processes of one running machine. Not told to strangers in clear. */
export function machineId(): Buffer {
  machine ??= createHash("sha256").update(bootId()).digest().subarray(0, SESSION_BYTES);
  return machine;
}

function bootId(): Uint8Array | string {
  try {
    return readFileSync("/proc/sys/kernel/random/boot_id", "utf8");
  } catch {
    // Not Linux: nothing is shared, and no other machine has this either.
    return randomBytes(SESSION_BYTES);
  }
}

/** Frames of a connection during its handshake; the rest stays in the reader. */
function nextFrame(socket: Socket, reader: FrameReader): Promise<Frame> {
  return new Promise((resolve, reject) => {
    const settle = (act: () => void) => {
      socket.off("data", onData);
      socket.off("close", onClose);
      socket.off("error", onError);
      socket.pause();
      act();
    };
    const onClose = () => settle(() => reject(new TransferError("closed", "connection ended")));
    const onError = (error: Error) =>
      settle(() => reject(new TransferError("closed", messageOf(error), error)));
    const onData = (chunk: Buffer) => {
      try {
        reader.read(chunk, (frame) => {
          settle(() => resolve(frame));
          return false;
        });
      } catch (error) {
        settle(() => reject(error));
      }
    };
    socket.on("data", onData);
    socket.on("close", onClose);
    socket.on("error", onError);
    socket.resume();
  });
}

/** The server's side. Resolves to what the peer wants, which has one of the secrets. */
export async function greet(
  socket: Socket,
  secrets: readonly string[],
  reader: FrameReader,
): Promise<{ purpose: Purpose; welcome: (session: Buffer) => void }> {
  const nonce = randomBytes(NONCE_BYTES);
  socket.write(frameOf(FRAME.hello, PROTOCOL, nonce));
  const { type, content } = await nextFrame(socket, reader);
  if (type !== FRAME.answer) throw new TransferError("refused", "an answer was wanted");
  const fields = new FrameFields(content);
  const protocol = fields.bytes(PROTOCOL.byteLength);
  const purpose = fields.u8();
  const session = Buffer.from(fields.bytes(SESSION_BYTES));
  const theirs = Buffer.from(fields.bytes(NONCE_BYTES));
  const mac = fields.bytes(MAC_BYTES);
  if (!protocol.equals(PROTOCOL)) throw new TransferError("refused", "another protocol version");
  const kind = Buffer.of(purpose);
  const secret = secrets.find((each) =>
    timingSafeEqual(mac, macOf(each, "client", nonce, theirs, kind, session)),
  );
  if (secret === undefined) throw new TransferError("refused", "the secret is another one");
  const welcome = (given: Buffer) => {
    const content = [given, machineId()];
    const proof = macOf(secret, "server", nonce, theirs, kind, session, ...content);
    socket.write(frameOf(FRAME.welcome, proof, ...content));
  };
  return { purpose: purpose === 0 ? { kind: "control" } : { kind: "data", session }, welcome };
}

/** Tells why a connection is not served. */
export function refuse(socket: Socket, reason: string): void {
  socket.end(frameOf(FRAME.refused, Buffer.from(reason.slice(0, 100))));
}

/** The reader's side. Resolves to the session, and whether the server is on this machine. */
export async function introduce(
  socket: Socket,
  secret: string,
  purpose: Purpose,
  reader: FrameReader,
): Promise<{ session: Buffer; sameMachine: boolean }> {
  const hello = new FrameFields(expectFrame(await nextFrame(socket, reader), FRAME.hello));
  if (!hello.bytes(PROTOCOL.byteLength).equals(PROTOCOL)) {
    throw new TransferError("refused", "it is no transfer server, or of another version");
  }
  const theirs = Buffer.from(hello.bytes(NONCE_BYTES));
  const nonce = randomBytes(NONCE_BYTES);
  const kind = Buffer.of(purpose.kind === "control" ? 0 : 1);
  const session = purpose.kind === "control" ? CONTROL_SESSION : purpose.session;
  const mac = macOf(secret, "client", theirs, nonce, kind, session);
  const answer = new FrameWriter(PROTOCOL.byteLength + 1 + SESSION_BYTES + NONCE_BYTES + MAC_BYTES);
  answer.bytes(PROTOCOL).bytes(kind).bytes(session).bytes(nonce).bytes(mac);
  socket.write(answer.frame(FRAME.answer));
  const welcome = new FrameFields(expectFrame(await nextFrame(socket, reader), FRAME.welcome));
  const proof = welcome.bytes(MAC_BYTES);
  const given = Buffer.from(welcome.bytes(SESSION_BYTES));
  const where = Buffer.from(welcome.bytes(SESSION_BYTES));
  const wanted = macOf(secret, "server", theirs, nonce, kind, session, given, where);
  if (!timingSafeEqual(proof, wanted)) {
    throw new TransferError("refused", "the server does not know our secret");
  }
  return { session: given, sameMachine: where.equals(machineId()) };
}

function expectFrame({ type, content }: Frame, wanted: number): Buffer {
  if (type === FRAME.refused) throw new TransferError("refused", content.toString("utf8"));
  if (type !== wanted) throw new TransferError("refused", "it is no transfer server");
  return content;
}
