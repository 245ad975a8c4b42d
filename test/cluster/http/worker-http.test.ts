import { createServer, type RequestListener } from "node:http";
import {
  type AddressInfo,
  createServer as createListener,
  type Server,
  type Socket,
} from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { createServer as createSecureListener } from "node:tls";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterEach, expect, test } from "vitest";
import { Deadline, WorkerHttp } from "#cluster/http";
import { certificate } from "../../support/certificate.ts";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function listen(server: Server): Promise<string> {
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => sockets.add(socket));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closing.push(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const serve = async (answer: RequestListener) => `http://${await listen(createServer(answer))}`;

function client(ca: string | null = null): WorkerHttp {
  const http = new WorkerHttp(ca);
  closing.push(() => http.close());
  return http;
}

async function collected(): Promise<void> {
  for (let round = 0; round < 5; round++) {
    await sleep(2);
    collect();
  }
}

test("[CL148] an abort ends an answer that is read, whatever was collected before", async () => {
  const url = await serve((_, response) => response.writeHead(200).write("a"));
  const stop = new AbortController();
  const begin = async () => {
    const answer = await client().ask(url, { headers: {}, signal: stop.signal });
    return answer.text(100);
  };
  const text = begin();
  await collected();
  stop.abort(new Error("enough"));
  await expect(text).rejects.toThrow("enough");
});

test("[CL148] an abort ends a question without an answer, and one without a connection", async () => {
  const silent = await serve(() => {});
  // Nothing ever answers the beginning of TLS: the connection is not made.
  const unmade = `https://${await listen(createListener(() => {}))}`;
  for (const url of [silent, unmade]) {
    const deadline = new Deadline(30);
    const asked = client().ask(url, { headers: {}, signal: deadline.signal });
    await expect(asked, url).rejects.toThrow("aborted");
    expect(deadline.isLate).toBe(true);
    deadline.end();
  }
});

test("[CL148] an answer is read to its limit, redirects are not followed", async () => {
  const url = await serve((request, response) => {
    if (request.url === "/moved") response.writeHead(302, { location: "/long" }).end();
    else response.end("x".repeat(101));
  });
  const ask = (path: string) =>
    client().ask(url + path, { headers: {}, signal: new AbortController().signal });
  await expect((await ask("/long")).text(100)).rejects.toThrow("an answer of more than 100 bytes");
  expect(await (await ask("/long")).text(101)).toHaveLength(101);
  expect((await ask("/moved")).status).toBe(302);
});

test("a deadline ends with the outer signal, and lets go of it", () => {
  const outer = new AbortController();
  const deadline = new Deadline(60_000, outer.signal);
  const ended = new Deadline(60_000, outer.signal);
  ended.end();
  outer.abort();
  expect([deadline.signal.aborted, deadline.isLate]).toEqual([true, false]);
  expect(new Deadline(60_000, outer.signal).signal.aborted).toBe(true);
});

const tls = certificate();

test.each([
  ["http", "whole"],
  ["http", "cut"],
  ["https", "whole"],
  ["https", "cut"],
])(
  "[CL190] a connection that ends while its reader pauses: %s, answers that are %s",
  async (scheme, kind) => {
    // Without openssl there is no certificate.
    if (scheme === "https" && tls === null) return;
    const http = client(scheme === "https" ? tls?.cert : null);
    const read = async (bytes: number): Promise<number> => {
      const head = kind === "whole" ? "connection: close" : `content-length: ${bytes + 1}`;
      const answer = (socket: Socket) => {
        socket.on("error", () => {});
        socket.once("data", async () => {
          socket.write(`HTTP/1.1 200 OK\r\n${head}\r\n\r\n${"x".repeat(bytes)}`);
          await sleep(40);
          socket.end();
        });
      };
      const listener =
        scheme === "https" && tls !== null
          ? createSecureListener(tls, answer)
          : createListener(answer);
      const url = `${scheme}://${await listen(listener)}`;
      const { pieces } = await http.ask(url, { headers: {}, signal: new AbortController().signal });
      // The end comes before the first look.
      await sleep(150);
      let found = 0;
      for await (const piece of pieces) found += piece.length;
      return found;
    };
    // What is read at a time decides whether the last bytes have been when the reader pauses.
    const sizes = Array.from({ length: 24 }, (_, at) => 4_000 + at * 6_000);
    const found = await Promise.allSettled(sizes.map(read));
    if (kind === "whole") {
      expect(found.map((one) => one.status === "fulfilled" && one.value)).toEqual(sizes);
    } else expect(found.every(({ status }) => status === "rejected")).toBe(true);
  },
);
