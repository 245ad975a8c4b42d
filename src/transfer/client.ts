import type { PeerAddress, ReadRequest, TransferClient } from "./contract.ts";
import { plainCopier } from "./copier.ts";
import { nativeContext } from "./native/native-context.ts";
import { agentOf, type NixlAgent } from "./nixl/agent.ts";
import { ALL_WAYS, type TransferClientOptions, type TransferWay } from "./options.ts";
import { PeerSession, type PeerWays } from "./peer-session.ts";
import { PendingRead } from "./pending-read.ts";
import { findLocal, readLocally } from "./same-process.ts";
import { TransferError } from "./transfer-error.ts";

/** Data connections for each peer. */
const LINKS = 4;

/** Reads of this process. Connections are opened when they are needed, and kept. */
export function openTransferClient(options: TransferClientOptions = {}): TransferClient {
  return new Client(options);
}

class Client implements TransferClient {
  readonly #options: TransferClientOptions;
  readonly #ways: ReadonlySet<TransferWay>;
  readonly #nixl: NixlAgent | null;
  readonly #reads = new Set<PendingRead>();
  readonly #peers = new Map<string, Promise<PeerSession>>();
  /** Sessions whose memory may still be written. */
  readonly #sessions = new Set<PeerSession>();
  #closed = false;

  constructor(options: TransferClientOptions) {
    this.#options = options;
    this.#ways = new Set(options.ways ?? ALL_WAYS);
    this.#nixl = this.#ways.has("nixl") ? agentOf(options) : null;
  }

  async read(request: ReadRequest): Promise<void> {
    const read = new PendingRead(request);
    this.#reads.add(read);
    try {
      if (this.#closed) read.fail("closed", "the client is closed");
      // Of an offer of which nothing is wanted the owner is told, too: it holds it no longer.
      else if (!read.ending || read.wanted.size === 0) this.#begin(read);
      await read.settled;
    } finally {
      this.#reads.delete(read);
    }
  }

  #begin(read: PendingRead): void {
    const local = this.#ways.has("process") ? findLocal(read.request.peer) : null;
    if (local === null) void this.#beginAtPeer(read);
    else if (!local.secrets.includes(this.#options.secret ?? "")) {
      read.fail("refused", "the secret is another one");
    } else readLocally(read, local.book, nativeContext() ?? plainCopier);
  }

  async #beginAtPeer(read: PendingRead): Promise<void> {
    try {
      const session = await this.#sessionOf(read.request.peer);
      session.begin(read);
    } catch (error) {
      if (error instanceof TransferError) read.fail(error.code, error.message, error);
      else read.fail("closed", String(error), error);
    }
  }

  #sessionOf(peer: PeerAddress): Promise<PeerSession> {
    const name = `${peer.host}:${peer.port}`;
    const known = this.#peers.get(name);
    if (known !== undefined) return known;
    const opening = PeerSession.open(peer, this.#options, this.#peerWays());
    this.#peers.set(name, opening);
    const forget = () => {
      if (this.#peers.get(name) === opening) this.#peers.delete(name);
    };
    opening.then((session) => {
      this.#sessions.add(session);
      session.onOver(forget);
      void session.ended.then(() => this.#sessions.delete(session));
      if (this.#closed) session.close();
    }, forget);
    return opening;
  }

  #peerWays(): PeerWays {
    const isNative = this.#nixl !== null || this.#ways.has("tcp") || this.#ways.has("memory");
    const native = isNative ? nativeContext() : null;
    const links = this.#ways.has("tcp") && this.#options.tls === undefined;
    return {
      native,
      nixl: this.#nixl,
      memory: this.#ways.has("memory"),
      links: links ? (this.#options.connections ?? LINKS) : 0,
    };
  }

  async close(): Promise<void> {
    this.#closed = true;
    const reads = [...this.#reads];
    for (const read of reads) read.fail("closed", "the client was closed");
    const sessions = [...this.#sessions];
    for (const session of sessions) session.close();
    await Promise.allSettled([...this.#peers.values()]);
    await Promise.allSettled(reads.map((read) => read.settled));
    await Promise.all([...this.#sessions].map((session) => session.ended));
    await this.#nixl?.close();
  }
}
