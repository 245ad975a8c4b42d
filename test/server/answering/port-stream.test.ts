/** A connection between threads: bytes in order, ends, and readers that take their time. */
import { createServer, request } from "node:http";
import { buffer } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { MessageChannel } from "node:worker_threads";
import { expect, onTestFinished, test, vi } from "vitest";
import { PortStream } from "../../../src/server/answering/port-stream.ts";

function openPair(): readonly [PortStream, PortStream] {
  const { port1, port2 } = new MessageChannel();
  const pair = [new PortStream(port1), new PortStream(port2)] as const;
  onTestFinished(() => {
    for (const side of pair) side.destroy();
  });
  return pair;
}

/** Everything up to the end. (`buffer` would destroy the stream then, its other direction too.) */
async function readAll(stream: PortStream): Promise<Buffer> {
  const chunks: Buffer[] = [];
  stream.on("data", (chunk: Buffer) => chunks.push(chunk));
  await new Promise((resolve) => stream.once("end", resolve));
  return Buffer.concat(chunks);
}

test("bytes come in order in both directions, however large, and each direction ends alone", async () => {
  const [one, other] = openPair();
  const sent = Buffer.from(Array.from({ length: 1_000_003 }, (_, place) => place % 251));
  one.end(sent);
  expect((await readAll(other)).equals(sent)).toBe(true);
  expect(one.destroyed).toBe(false);
  other.write("late");
  other.end(" words");
  expect(String(await readAll(one))).toBe("late words");
  await vi.waitFor(() => expect([one.destroyed, other.destroyed]).toEqual([true, true]));
});

test("a writer waits for a reader that does not read", async () => {
  const [one, other] = openPair();
  let written = 0;
  const chunk = Buffer.alloc(64 * 1024);
  const write = (): void => {
    written++;
    if (written === 1000) return;
    if (one.write(chunk)) write();
    else one.once("drain", write);
  };
  write();
  await sleep(50);
  expect(written).toBeLessThan(50);
  other.resume();
  await vi.waitFor(() => expect(written).toBe(1000), { timeout: 20_000 });
});

test("a side that is destroyed ends the other, without an end of what it sent", async () => {
  const [one, other] = openPair();
  let ended = false;
  other.on("end", () => {
    ended = true;
  });
  other.resume();
  one.write("half of it");
  one.destroy();
  await vi.waitFor(() => expect(other.destroyed).toBe(true));
  expect(ended).toBe(false);
});

test("HTTP goes over it, bodies and slow answers included", async () => {
  const [one, other] = openPair();
  const server = createServer(async (asked, answer) => {
    const body = await buffer(asked);
    answer.writeHead(200, { "x-length": body.length });
    answer.write("first ");
    await sleep(20);
    answer.end("and last");
  });
  server.emit("connection", other);
  const asking = request({ method: "POST", path: "/a", createConnection: () => one });
  asking.end(Buffer.alloc(500_000));
  const text = await new Promise<string>((resolve, reject) => {
    asking.once("error", reject);
    asking.once("response", async (answer) => {
      expect(answer.headers["x-length"]).toBe("500000");
      resolve(String(await buffer(answer)));
    });
  });
  expect(text).toBe("first and last");
});
