import { createServer, type RequestListener } from "node:http";
import {
  type AddressInfo,
  createServer as createSocketServer,
  type Server,
  type Socket,
} from "node:net";
import { afterEach } from "vitest";

const open: { server: Server; sockets: Set<Socket> }[] = [];

async function listen(server: Server): Promise<string> {
  const sockets = new Set<Socket>();
  open.push({ server, sockets });
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.once("close", () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const MODELS = '{"object":"list","data":[{"id":"toy"}]}';

/** A server of some other engine: a test's answers, behind those that a probe wants. */
export function strangeWorker(listener: RequestListener): Promise<string> {
  return listen(
    createServer((request, response) => {
      if (request.url === "/health") response.end();
      else if (request.url === "/v1/models") {
        response.setHeader("content-type", "application/json");
        response.end(MODELS);
      } else if (request.method === "GET") response.writeHead(404).end("{}");
      else listener(request, response);
    }),
  );
}

/** A server that answers posts with bytes of a test, which may be no HTTP. */
export function rawWorker(answer: (socket: Socket) => void): Promise<string> {
  return listen(
    createSocketServer((socket) => {
      let text = "";
      socket.on("data", (bytes) => {
        text += bytes.toString("latin1");
        if (!text.includes("\r\n\r\n")) return;
        const isProbe = text.startsWith("GET");
        const body = text.startsWith("GET /v1/models") ? MODELS : "";
        const status = text.startsWith("GET /worker_info") ? "404 Not Found" : "200 OK";
        text = "";
        if (isProbe) {
          socket.write(`HTTP/1.1 ${status}\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
        } else answer(socket);
      });
    }),
  );
}

/** Nothing listens at the address any more. */
export function closeStrangeWorker(url: string): void {
  for (const { server, sockets } of open) {
    if ((server.address() as AddressInfo | null)?.port !== Number(new URL(url).port)) continue;
    server.close();
    for (const socket of sockets) socket.destroy();
  }
}

/** Closes all that were started; registers itself for after each test of the importing file. */
export function closeStrangeWorkers(): void {
  afterEach(() => {
    for (const { server, sockets } of open.splice(0)) {
      server.close();
      for (const socket of sockets) socket.destroy();
    }
  });
}
