import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, expect, test } from "vitest";
import { EventStream, eventText } from "../../src/server/event-stream.ts";

const closing: (() => void)[] = [];

afterEach(() => {
  for (const close of closing.splice(0)) close();
});

/** A server that answers every request so; its port. */
async function serve(answer: (response: ServerResponse) => Promise<void>): Promise<number> {
  const server = createServer((_request, response) => void answer(response));
  closing.push(() => server.close().closeAllConnections());
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port; // of a server on a port
}

/** Three events, a turn of the event loop apart, with characters of several bytes. */
async function sendThree(response: ServerResponse): Promise<void> {
  const stream = new EventStream(response, { headers: {}, keepAliveMs: 10_000 });
  for (const text of ["a", "é→", "😀"]) {
    await stream.send(eventText({ text }));
    await sleep(1);
  }
  stream.end();
}

const three =
  'data: {"text":"a"}\n\ndata: {"text":"é→"}\n\ndata: {"text":"😀"}\n\ndata: [DONE]\n\n';

/** Everything that comes back for these bytes. */
async function exchange(port: number, request: string): Promise<string> {
  const socket = connect(port, "127.0.0.1");
  closing.push(() => socket.destroy());
  socket.write(request);
  const parts: Buffer[] = [];
  for await (const part of socket) parts.push(part);
  return Buffer.concat(parts).toString();
}

test("events arrive whole, and the connection serves the next request", async () => {
  const port = await serve(sendThree);
  for (let request = 0; request < 3; request++) {
    const answer = await fetch(`http://127.0.0.1:${port}/`);
    expect(await answer.text()).toBe(three);
  }
});

test("a client of HTTP/1.0 gets them without chunks", async () => {
  const text = await exchange(await serve(sendThree), "GET / HTTP/1.0\r\n\r\n");
  expect(text.slice(text.indexOf("\r\n\r\n") + 4)).toBe(three);
});

test("an answer that waits behind another one on its connection is not lost", async () => {
  const port = await serve(sendThree);
  const last = "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
  const text = await exchange(port, `GET / HTTP/1.1\r\nhost: x\r\n\r\n${last}`);
  expect(text.match(/😀/g)).toHaveLength(2);
  expect(text.match(/\r\n0\r\n\r\n/g)).toHaveLength(2);
});

test("silence is broken when it has lasted so long, and not while events come", async () => {
  const port = await serve(async (response) => {
    const stream = new EventStream(response, { headers: {}, keepAliveMs: 60 });
    for (let sent = 0; sent < 8; sent++) {
      await stream.send("data: x\n\n");
      await sleep(10);
    }
    await sleep(150);
    stream.close();
  });
  const text = await (await fetch(`http://127.0.0.1:${port}/`)).text();
  expect(text).toMatch(/^(data: x\n\n){8}(: keep-alive\n\n)+$/);
});
