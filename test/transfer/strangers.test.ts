import { createHash, randomBytes } from "node:crypto";
import { readdirSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  openTransferClient,
  openTransferServer,
  type ReadRequest,
  sharedMemory,
  type TransferClient,
  type TransferClientOptions,
  type TransferServer,
} from "#transfer";
import { between, type ChangeBytes, listening } from "../support/between.ts";
import { sized } from "../support/full.ts";

const secret = "the fleet's";
const DEADLINE_MS = 8000;

let server: TransferServer;
let client: TransferClient;

beforeEach(async () => {
  server = await openTransferServer({ secret, handshakeMs: 300, stallMs: 500, idleMs: 700 });
  client = openTransferClient({ secret, ways: ["tcp"], stallMs: 500 });
});
afterEach(async () => {
  await client.close();
  await server.close();
  expect(server.stats()).toMatchObject({ offers: 0, connections: 0 });
});

const offer = (pieces = 1, pieceBytesMax = 1 << 24) =>
  server.offer({ pieces, pieceBytesMax, deadlineMs: DEADLINE_MS });
const read = (id: string, into: Uint8Array, more: Partial<ReadRequest> = {}) =>
  client.read({
    peer: server.address,
    offer: id,
    pieces: [{ index: 0, into: [into] }],
    deadlineMs: DEADLINE_MS,
    ...more,
  });

/** An honest read still works. */
async function stillServes(): Promise<void> {
  const offered = offer();
  const bytes = randomBytes(300_000);
  offered.ready(0, [bytes]);
  const target = new Uint8Array(bytes.byteLength);
  await read(offered.id, target);
  expect(Buffer.compare(target, bytes)).toBe(0);
}

/** All bytes that come until the connection ends. */
function ending(socket: Socket): Promise<Buffer> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    socket.on("data", (chunk) => chunks.push(chunk));
    socket.on("error", () => {});
    socket.on("close", () => resolve(Buffer.concat(chunks)));
  });
}

const dial = () => connect(server.address.port, "127.0.0.1");
const descriptors = () => readdirSync("/proc/self/fd").length;

describe("strangers at the owner", () => {
  test("[TR9] without the secret, with another one, or against an owner of another one: refused", async () => {
    const offered = offer();
    for (const wrong of ["", "another"]) {
      const stranger = openTransferClient({ secret: wrong, ways: ["tcp"] });
      const request = {
        peer: server.address,
        offer: offered.id,
        pieces: [{ index: 0, into: [new Uint8Array(4)] }],
        deadlineMs: DEADLINE_MS,
      };
      await expect(stranger.read(request)).rejects.toMatchObject({ code: "refused" });
      await stranger.close();
    }
    await expect(openTransferServer({ host: "0.0.0.0" })).rejects.toThrow(/a secret or a loopback/);
    offered.release();
    await stillServes();
  });

  test.each([["process"], ["tcp"]] as const)(
    "[TR23] each of its secrets opens it: %s",
    async (way) => {
      const changing = await openTransferServer({ secret: "new", formerSecrets: ["old", "older"] });
      for (const [secret, opens] of [
        ["new", true],
        ["old", true],
        ["older", true],
        ["", false],
        ["newer", false],
      ] as const) {
        const offered = changing.offer({ pieces: 1, pieceBytesMax: 4, deadlineMs: DEADLINE_MS });
        offered.ready(0, [Uint8Array.of(1, 2, 3, 4)]);
        const into = new Uint8Array(4);
        const client = openTransferClient({ secret, ways: [way] });
        const read = client.read({
          ...{ peer: changing.address, offer: offered.id, deadlineMs: DEADLINE_MS },
          pieces: [{ index: 0, into: [into] }],
        });
        if (opens) await read;
        else await expect(read).rejects.toMatchObject({ code: "refused" });
        expect(into[3]).toBe(opens ? 4 : 0);
        await client.close();
        offered.release();
      }
      await changing.close();
    },
  );

  test("[TR10] a replayed handshake opens nothing", async () => {
    const recorded: Buffer[] = [];
    const proxy = await listening((socket) => {
      const through = dial();
      socket.on("data", (chunk) => {
        recorded.push(chunk);
        through.write(chunk);
      });
      through.on("data", (chunk) => socket.write(chunk));
      socket.on("close", () => through.destroy());
      through.on("close", () => socket.destroy());
      for (const each of [socket, through]) each.on("error", () => {});
    });
    const offered = offer();
    offered.ready(0, [new Uint8Array(10)]);
    const tapped = openTransferClient({ secret, ways: ["stream"] });
    await tapped.read({
      peer: { host: "127.0.0.1", port: proxy.port },
      offer: offered.id,
      pieces: [{ index: 0, into: [new Uint8Array(10)] }],
      deadlineMs: DEADLINE_MS,
    });
    await tapped.close();
    const socket = dial();
    const answer = ending(socket);
    socket.write(Buffer.concat(recorded));
    expect((await answer).toString("latin1")).toMatch(/the secret is another one/);
    proxy.server.close();
  });

  test("[TR11] silent, slow and idle connections end", async () => {
    const silent = dial();
    const slow = dial();
    slow.on("error", () => {});
    const drip = setInterval(() => slow.write(Buffer.of(0)), 50);
    await Promise.all([ending(silent), ending(slow)]);
    clearInterval(drip);
    await stillServes();
    await expect.poll(() => server.stats().connections, { timeout: 5000 }).toBe(0);
  });

  test("[TR12] garbage connections hold nothing", async () => {
    await stillServes();
    const before = descriptors();
    const count = sized(1000, 10_000);
    let seed = createHash("sha256").update("garbage").digest();
    for (let done = 0; done < count; done += 50) {
      await Promise.all(
        Array.from({ length: 50 }, async () => {
          seed = createHash("sha256").update(seed).digest();
          const socket = dial();
          const closed = ending(socket);
          const bytes = Buffer.concat(Array.from({ length: seed[0]! % 20 }, () => seed));
          // Some begin as a frame of a small or a huge length.
          if (seed[1]! < 128) bytes.writeUInt32BE(seed[2]!, 0);
          socket.end(bytes);
          await closed;
        }).map((each) => each.catch(() => {})),
      );
    }
    await expect.poll(() => server.stats().connections, { timeout: 5000 }).toBeLessThanOrEqual(1);
    expect(descriptors()).toBeLessThanOrEqual(before + 2);
    await stillServes();
  });

  test("[TR13] connections are bounded, in all and for each address", async () => {
    const bounded = await openTransferServer({ connectionsPerPeerMax: 3, handshakeMs: 2000 });
    const sockets = Array.from({ length: 3 }, () => connect(bounded.address.port, "127.0.0.1"));
    await expect.poll(() => bounded.stats().connections).toBe(3);
    const refused = await ending(connect(bounded.address.port, "127.0.0.1"));
    expect(refused.toString("latin1")).toMatch(/too many connections/);
    for (const socket of sockets) socket.destroy();
    await expect.poll(() => bounded.stats().connections).toBe(0);
    await bounded.close();
  });
});

const WAYS: readonly TransferClientOptions["ways"][] = [["tcp"], ["stream"]];

describe.each(WAYS)("a peer that fails, over %s", (...ways) => {
  const bytes = randomBytes(6_000_000);

  /** What becomes of a read through changed bytes, and whether its memory rests afterwards. */
  async function attempt(change: ChangeBytes, deadlineMs = DEADLINE_MS): Promise<unknown> {
    const path = await between(server.address.port, change);
    const reader = openTransferClient({
      secret,
      ways: ways.flatMap((way) => way ?? []),
      stallMs: 500,
    });
    const offered = offer();
    offered.ready(0, [bytes]);
    const target = new Uint8Array(bytes.byteLength);
    const pieces = [{ index: 0, into: [target] }];
    const outcome = await reader
      .read({ peer: path.peer, offer: offered.id, pieces, deadlineMs })
      .then(
        () => Buffer.compare(target, bytes),
        (error: { code: string }) => error.code,
      );
    target.fill(7);
    await new Promise((resolve) => setTimeout(resolve, 40));
    expect(target.every((byte) => byte === 7) || outcome === 0).toBe(true);
    path.close();
    await reader.close();
    offered.release();
    await offered.ended;
    return outcome;
  }

  test("[TR14] a bit that flips on the way is corrupt, never wrong bytes", async () => {
    for (const at of [300_000, 1_000_000, 5_000_000]) {
      let flipped = false;
      const outcome = await attempt((chunk, total) => {
        if (total < at || flipped) return chunk;
        flipped = true;
        const changed = Buffer.from(chunk);
        changed[changed.byteLength >> 1]! ^= 16;
        return changed;
      });
      expect(outcome).toBe("corrupt");
    }
  });

  test("[TR15] a connection that is cut within a piece ends the read", async () => {
    expect(await attempt((chunk, total) => (total > 2_000_000 ? null : chunk))).toBe("closed");
  });

  test("[TR16] a peer that stalls costs no more than the deadline", async () => {
    const began = Date.now();
    const stalls = (chunk: Buffer, total: number) => (total > 2_000_000 ? Buffer.alloc(0) : chunk);
    expect(["timed_out", "closed"]).toContain(await attempt(stalls, 400));
    expect(Date.now() - began).toBeLessThan(4000);
  });
});

test("[TR16] a reader that stalls costs the owner no more than its deadline", async () => {
  const through: Socket[] = [];
  const proxy = await listening((socket) => {
    const far = dial();
    through.push(socket, far);
    for (const each of [socket, far]) each.on("error", () => {});
    socket.on("data", (chunk) => far.write(chunk));
    let total = 0;
    far.on("data", (chunk) => {
      total += chunk.byteLength;
      socket.write(chunk);
      if (total > 1_000_000) far.pause();
    });
  });
  const memory = new Uint8Array(1 << 26);
  const offered = server.offer({ pieces: 1, pieceBytesMax: 1 << 26, deadlineMs: 600 });
  offered.ready(0, [memory]);
  const pieces = [{ index: 0, into: [new Uint8Array(1 << 26)] }];
  const peer = { host: "127.0.0.1", port: proxy.port };
  const reading = client.read({ peer, offer: offered.id, pieces, deadlineMs: 900 });
  await expect(reading).rejects.toMatchObject({ name: "TransferError" });
  expect((await offered.ended).outcome).not.toBe("sent");
  for (const socket of through) socket.destroy();
  proxy.server.close();
});

test("[TR17] memory that is released or reused while it is copied is never taken for a piece", async () => {
  const shared = sharedMemory(64 << 20);
  // Looking at all bytes may take longer than the other one keeps a connection.
  const owner = await openTransferServer({ secret });
  const mapping = openTransferClient({ secret, ways: ["memory"] });
  for (let round = 0; round < 8; round++) {
    shared.memory.fill(1);
    const offered = owner.offer({
      pieces: 1,
      pieceBytesMax: 64 << 20,
      deadlineMs: DEADLINE_MS,
    });
    const target = new Uint8Array(64 << 20);
    const done = mapping.read({
      peer: owner.address,
      offer: offered.id,
      pieces: [{ index: 0, into: [target] }],
      deadlineMs: DEADLINE_MS,
    });
    offered.ready(0, [shared.memory]);
    setTimeout(() => offered.release(), round * 3);
    const outcome = await done.then(
      () => "whole",
      (error: { code: string }) => error.code,
    );
    await offered.ended;
    shared.memory.fill(2);
    expect(outcome === "whole" ? target.every((byte) => byte === 1) : outcome).toBe(
      outcome === "whole" ? true : "failed",
    );
  }
  await mapping.close();
  await owner.close();
  shared.release();
});
