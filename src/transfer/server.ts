import { createServer } from "node:net";
import type { PeerAddress, TransferServer } from "./contract.ts";
import { OfferBook } from "./offer-book.ts";
import { checkServerOptions, type TransferServerOptions } from "./options.ts";
import { registerLocal } from "./same-process.ts";

/** Listens for readers. Without a secret it does so on loopback only. */
export async function openTransferServer(
  options: TransferServerOptions = {},
): Promise<TransferServer> {
  checkServerOptions(options);
  const book = new OfferBook();
  const listener = createServer((socket) => socket.destroy());
  const address = await new Promise<PeerAddress>((resolve, reject) => {
    const host = options.host ?? "127.0.0.1";
    listener.once("error", reject);
    listener.listen(options.port ?? 0, host, () => {
      const bound = listener.address();
      resolve({ host, port: typeof bound === "object" && bound !== null ? bound.port : 0 });
    });
  });
  const forget = registerLocal(address, { book, secret: options.secret ?? "" });
  return {
    address,
    offer: (offered) => book.open(offered),
    stats: () => ({ offers: book.size, connections: 0, refusedConnections: 0 }),
    async close() {
      forget();
      await book.close();
      await new Promise<void>((resolve) => listener.close(() => resolve()));
    },
  };
}
