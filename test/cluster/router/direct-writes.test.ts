import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { afterEach, expect, test } from "vitest";
import { writeNow } from "../../../src/cluster/router/direct-writes.ts";

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

/** Both ends of a connection. */
async function pair(): Promise<{ writer: Socket; reader: Socket }> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const accepted = once(server, "connection") as Promise<[Socket]>;
  const reader = connect(port, "127.0.0.1");
  const [writer] = await accepted;
  await once(reader, "connect");
  for (const socket of [writer, reader]) socket.on("error", () => {});
  closers.push(() => {
    writer.destroy();
    reader.destroy();
    server.close();
  });
  return { writer, reader };
}

test("[CL194] direct writes and the socket's own keep their order, also to a slow reader", async () => {
  const { writer, reader } = await pair();
  reader.pause();
  const texts = Array.from({ length: 3000 }, (_, at) => `${at}${"é\xff\0x".repeat(at * 7)};`);
  let full = 0;
  let read = "";
  const over = new Promise((resolve) => reader.once("end", resolve));
  const take = (bytes: Buffer) => {
    read += bytes.toString("latin1");
  };
  for (const [at, text] of texts.entries()) {
    if (at % 50 === 49) writer.write(text, "latin1");
    else writeNow(writer, text);
    if (writer.writableLength > 0) full++;
    if (at === 1500) reader.on("data", take).resume();
    if (at > 1500 && at % 20 === 0) await new Promise((go) => setImmediate(go));
  }
  writer.end();
  await over;
  expect(read === texts.join("")).toBe(true);
  expect(full).toBeGreaterThan(0);
  expect(full).toBeLessThan(texts.length);
});

test("[CL194] a connection that its reader has ended fails as the socket says", async () => {
  const { writer, reader } = await pair();
  const closed = new Promise((resolve) => writer.once("close", resolve));
  reader.resetAndDestroy();
  for (let count = 0; count < 200 && !writer.destroyed; count++) {
    writeNow(writer, "more;");
    await new Promise((go) => setTimeout(go, 1));
  }
  await closed;
  expect(writer.destroyed).toBe(true);
  writeNow(writer, "nothing follows"); // and ends no process
  await new Promise((go) => setImmediate(go));
});
