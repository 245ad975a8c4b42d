import { createServer, type Server } from "node:net";
import { EngineError, messageOf } from "#base";
import type { PeerAddress, TransferServer } from "./contract.ts";
import { Encryption } from "./encryption.ts";
import { Gate } from "./gate.ts";
import { nativeContext } from "./native/native-context.ts";
import { agentOf } from "./nixl/agent.ts";
import { OfferBook } from "./offer-book.ts";
import { checkServerOptions, secretsOf, type TransferServerOptions } from "./options.ts";
import { ReadSlots } from "./read-slots.ts";
import { registerLocal } from "./same-process.ts";

const IDLE_MS = 300_000;
const STALL_MS = 20_000;

/** Listens for readers. Without a secret it does so on loopback only. */
export async function openTransferServer(
  options: TransferServerOptions = {},
): Promise<TransferServer> {
  checkServerOptions(options);
  const encryption = options.tls === undefined ? null : new Encryption(options.tls);
  const nixl = agentOf(options);
  const book = new OfferBook();
  const slots = new ReadSlots();
  const pieces = { bytes: 0, mapped: 0, nixl: 0 };
  const gate = new Gate(options, encryption, {
    book,
    slots,
    native: encryption === null ? nativeContext() : null,
    nixl,
    pieces,
    stallMs: options.stallMs ?? STALL_MS,
    idleMs: options.idleMs ?? IDLE_MS,
  });
  const listener = createServer((socket) => gate.enter(socket));
  const address = await listen(listener, options).catch((error: unknown) => {
    slots.release();
    void nixl?.close();
    throw error;
  });
  const forget = registerLocal(address, { book, secrets: secretsOf(options) });
  return {
    address,
    offer: (offered) => book.open(offered),
    stats: () => ({
      offers: book.size,
      connections: gate.connections,
      refusedConnections: gate.refused,
      pieces: { ...pieces },
    }),
    async close() {
      forget();
      const closed = new Promise<void>((resolve) => listener.close(() => resolve()));
      await book.close();
      await gate.close();
      await closed;
      slots.release();
      await nixl?.close();
    },
  };
}

function listen(listener: Server, options: TransferServerOptions): Promise<PeerAddress> {
  const host = options.host ?? "127.0.0.1";
  return new Promise((resolve, reject) => {
    listener.once("error", (cause) => {
      const problem = `Cannot listen for readers at ${host}:${options.port ?? 0}: `;
      reject(new EngineError("IO", problem + messageOf(cause), { cause }));
    });
    listener.listen(options.port ?? 0, host, () => {
      const bound = listener.address();
      resolve({ host, port: typeof bound === "object" && bound !== null ? bound.port : 0 });
    });
  });
}
