import { randomBytes } from "node:crypto";
import type { Socket } from "node:net";
import { takeDescriptor } from "./descriptor.ts";
import type { Encryption } from "./encryption.ts";
import { FrameReader } from "./frames.ts";
import { greet, refuse, SESSION_BYTES } from "./handshake.ts";
import { isLoopback, secretsOf, type TransferServerOptions } from "./options.ts";
import { ServerSession, type SessionParts } from "./server-session.ts";

export const CONNECTIONS_MAX = 1024;
export const CONNECTIONS_PER_PEER_MAX = 512;
/** Data connections that a session may have. */
export const LINKS_MAX = 16;
const HANDSHAKE_MS = 5000;

/** Lets in who knows the secret, and no more than there is room for. */
export class Gate {
  readonly #options: TransferServerOptions;
  /** Null: connections are not encrypted. */
  readonly #encryption: Encryption | null;
  readonly #parts: SessionParts;
  readonly #sessions = new Map<string, ServerSession>();
  readonly #entering = new Set<Socket>();
  /** Of sessions and connections that enter, by address. */
  readonly #perPeer = new Map<string, number>();
  #count = 0;
  #refused = 0;

  constructor(options: TransferServerOptions, encryption: Encryption | null, parts: SessionParts) {
    this.#options = options;
    this.#encryption = encryption;
    this.#parts = parts;
  }

  get connections(): number {
    return this.#count;
  }

  get refused(): number {
    return this.#refused;
  }

  /** A connection came. */
  enter(socket: Socket): void {
    const peer = socket.remoteAddress ?? "";
    socket.on("error", () => {});
    const { secret = "", connectionsMax = CONNECTIONS_MAX } = this.#options;
    const most = this.#options.connectionsPerPeerMax ?? CONNECTIONS_PER_PEER_MAX;
    const mine = this.#perPeer.get(peer) ?? 0;
    if (this.#count >= connectionsMax || mine >= most) this.#refuse(socket, "too many connections");
    else if (secret === "" && !isLoopback(peer)) this.#refuse(socket, "a secret is wanted");
    else {
      this.#count++;
      this.#perPeer.set(peer, mine + 1);
      this.#entering.add(socket);
      void this.#admit(socket, () => this.#leave(peer));
    }
  }

  async #admit(entered: Socket, leave: () => void): Promise<void> {
    const deadline = setTimeout(() => entered.destroy(), this.#options.handshakeMs ?? HANDSHAKE_MS);
    const reader = new FrameReader();
    let socket = entered;
    try {
      if (this.#encryption !== null) socket = await this.#encryption.enter(entered);
      const { purpose, welcome } = await greet(socket, secretsOf(this.#options), reader);
      if (purpose.kind === "control") this.#openSession(socket, reader, welcome, leave);
      else {
        this.#openLink(socket, purpose.session, welcome);
        leave();
      }
    } catch (error) {
      this.#refuse(socket, error instanceof Error ? error.message : "not understood");
      leave();
    } finally {
      clearTimeout(deadline);
      this.#entering.delete(entered);
    }
  }

  #openSession(
    socket: Socket,
    reader: FrameReader,
    welcome: (session: Buffer) => void,
    leave: () => void,
  ): void {
    const id = randomBytes(SESSION_BYTES);
    const name = id.toString("hex");
    socket.setNoDelay(true);
    socket.setKeepAlive(true, 10_000);
    welcome(id);
    const session = new ServerSession(socket, reader, this.#parts);
    this.#sessions.set(name, session);
    void session.ended.then(() => {
      this.#sessions.delete(name);
      leave();
    });
  }

  #openLink(socket: Socket, id: Buffer, welcome: (id: Buffer) => void): void {
    const session = this.#sessions.get(id.toString("hex"));
    // What is encrypted cannot be handed to native threads.
    const encrypted = this.#encryption !== null;
    if (session === undefined || encrypted || !session.mayAddLink(LINKS_MAX)) {
      this.#refuse(socket, "no such session");
      return;
    }
    welcome(id);
    const fd = socket.writableLength === 0 ? takeDescriptor(socket) : null;
    if (fd === null) socket.destroy();
    else session.addLink(fd);
  }

  #refuse(socket: Socket, reason: string): void {
    this.#refused++;
    refuse(socket, reason);
    // What a stranger sends on is not read, and it cannot keep the connection half open.
    socket.destroySoon();
  }

  #leave(peer: string): void {
    this.#count--;
    const left = (this.#perPeer.get(peer) ?? 1) - 1;
    if (left === 0) this.#perPeer.delete(peer);
    else this.#perPeer.set(peer, left);
  }

  async close(): Promise<void> {
    for (const socket of this.#entering) socket.destroy();
    const sessions = [...this.#sessions.values()];
    for (const session of sessions) session.close("the server was closed");
    await Promise.all(sessions.map((session) => session.ended));
  }
}
