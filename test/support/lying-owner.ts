/** An owner of pieces with the secret, which says what the test wants when it is asked. */
import { createServer, type Socket } from "node:net";
import { FrameReader } from "../../src/transfer/frames.ts";
import { greet } from "../../src/transfer/handshake.ts";

export interface LyingOwner {
  readonly port: number;
  close(): void;
}

/** Calls `lie` with each connection whose reader has asked for something. */
export function lyingOwner(secret: string, lie: (socket: Socket) => void): Promise<LyingOwner> {
  return new Promise((resolve) => {
    const made = createServer(async (socket) => {
      socket.on("error", () => {});
      const { purpose, welcome } = await greet(socket, [secret], new FrameReader());
      if (purpose.kind === "data") {
        socket.destroy();
        return;
      }
      welcome(Buffer.alloc(16));
      socket.once("data", () => lie(socket));
      socket.resume();
    }).listen(0, "127.0.0.1", () => {
      const address = made.address();
      const port = typeof address === "object" ? (address?.port ?? 0) : 0;
      resolve({ port, close: () => made.close() });
    });
  });
}
