import { createServer, type Server } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, expect, test, vi } from "vitest";
import { enforceWriteDeadline } from "../../src/server/write-deadline.ts";

const TIMEOUT_MS = 200;
/** A busy machine does not read 16 MiB at once. */
const PATIENT_MS = 2000;
const SOON = { timeout: 20_000 };
const MIB = 2 ** 20;
/** More than the buffers of both systems. */
const MUCH = Buffer.alloc(16 * MIB);

const closing: (() => void)[] = [];
afterEach(() => {
  vi.restoreAllMocks();
  for (const close of closing.splice(0).reverse()) close();
});

/** A server whose answers a test writes, a client that has not read anything, and their looks. */
async function pair(timeoutMs = TIMEOUT_MS) {
  const begun = vi.spyOn(globalThis, "setInterval");
  const ended = vi.spyOn(globalThis, "clearInterval");
  const server: Server = createServer();
  const cut: string[] = [];
  const stop = enforceWriteDeadline(server, timeoutMs, (address) => cut.push(address));
  const accepted = new Promise<Socket>((resolve) => server.once("connection", resolve));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const client = connect((server.address() as AddressInfo).port, "127.0.0.1");
  client.on("error", () => {});
  const socket = await accepted;
  socket.on("error", () => {});
  closing.push(
    stop,
    () => server.close(),
    () => client.destroy(),
    () => socket.destroy(),
  );
  // Timers of the server itself have longer intervals.
  const looks = () => begun.mock.calls.filter(([, ms]) => ms === timeoutMs / 8).length;
  return { socket, client, cut, looks, stops: () => ended.mock.calls.length };
}

test("connections without pending bytes are not looked at", async () => {
  const { socket, client, cut, looks } = await pair();
  let read = 0;
  client.on("data", (bytes) => {
    read += bytes.length;
  });
  for (let at = 0; at < 50; at++) socket.write("token");
  await sleep(2 * TIMEOUT_MS);
  expect([read, looks(), cut]).toEqual([250, 0, []]);
});

test.each(["write", "end"] as const)(
  "what %s leaves pending is cut after the deadline",
  async (name) => {
    const { socket, cut, looks } = await pair();
    const closed = new Promise((resolve) => socket.once("close", resolve));
    const beganMs = performance.now();
    socket[name](MUCH);
    expect(looks()).toBe(1);
    await closed;
    expect(performance.now() - beganMs).toBeGreaterThan(TIMEOUT_MS - 10);
    expect(cut).toEqual(["127.0.0.1"]);
  },
);

test("a reader that goes on is left alone, and its connection is not looked at any more", async () => {
  const { socket, client, cut, looks, stops } = await pair(PATIENT_MS);
  const before = stops();
  socket.write(MUCH);
  client.resume();
  await expect.poll(() => socket.writableLength, SOON).toBe(0);
  await expect.poll(() => stops() - before, SOON).toBeGreaterThan(0);
  expect(cut).toEqual([]);
  // The next pending bytes have a deadline of their own.
  client.pause();
  socket.write(MUCH);
  await expect.poll(() => cut.length, SOON).toBe(1);
  expect(looks()).toBe(2);
});
