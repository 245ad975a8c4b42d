import { randomBytes } from "node:crypto";
import { connect } from "node:net";
import { afterEach, beforeEach, expect, test } from "vitest";
import {
  openTransferClient,
  openTransferServer,
  type TransferClient,
  type TransferServer,
} from "#transfer";
import { crc32c } from "../../src/transfer/crc32c.ts";
import { FRAME, FrameReader, FrameWriter, frameOf } from "../../src/transfer/frames.ts";
import { introduce } from "../../src/transfer/handshake.ts";
import { type LyingOwner, lyingOwner } from "../support/lying-owner.ts";

const secret = "known to the liar";
const DEADLINE_MS = 5000;

let client: TransferClient;
let server: TransferServer;
let liar: LyingOwner | null = null;

beforeEach(async () => {
  client = openTransferClient({ secret, connections: 1 });
  server = await openTransferServer({ secret });
});
afterEach(async () => {
  await client.close();
  await server.close();
  liar?.close();
  expect(server.stats()).toMatchObject({ offers: 0, connections: 0 });
});

const slice = (piece: number, offset: number, bytes: Uint8Array) =>
  new FrameWriter(18 + bytes.byteLength)
    .u32(1)
    .u32(piece)
    .u48(offset)
    .u32(crc32c(bytes))
    .bytes(bytes)
    .frame(FRAME.slice);
const at = (segment: number) =>
  new FrameWriter(44)
    .u32(1)
    .u32(segment)
    .u32(0)
    .u64(1n)
    .u32(0)
    .u32(1)
    .u32(segment)
    .u48(0)
    .u48(1000);
const segment = (name: string) =>
  new FrameWriter(18 + name.length)
    .u32(7)
    .u32(process.pid)
    .u32(0)
    .u48(1 << 20)
    .bytes(Buffer.from(name))
    .frame(FRAME.segment);

/** Of memory that is described by so many bytes in a region of that name. */
const described = (name: string, bytes: number) =>
  new FrameWriter(24 + name.length)
    .u32(5)
    .u32(process.pid)
    .u32(0)
    .u48(bytes)
    .u48(1 << 20)
    .bytes(Buffer.from(name))
    .frame(FRAME.placed);

const LIES: readonly (readonly [string, readonly string[], readonly Buffer[]])[] = [
  ["a piece that was not asked for", ["corrupt"], [slice(3, 0, new Uint8Array(1000))]],
  ["a longer piece", ["corrupt"], [slice(0, 0, new Uint8Array(1001))]],
  ["a shorter piece", ["corrupt"], [slice(0, 0, new Uint8Array(999))]],
  ["a place beyond the piece", ["corrupt"], [slice(0, 262_144, new Uint8Array(1000))]],
  ["a place that is no slice's", ["corrupt"], [slice(0, 8, new Uint8Array(992))]],
  ["a frame that is too long", ["corrupt"], [Buffer.from([255, 255, 255, 255, 32])]],
  ["a frame of no type", ["corrupt"], [frameOf(99)]],
  ["a frame that ends early", ["corrupt"], [frameOf(FRAME.slice, Buffer.of(0, 0, 0, 1))]],
  ["a region of no such name", ["corrupt"], [segment("../../etc/passwd")]],
  ["a region that is not there", ["timed_out"], [segment(`perigee-${"0".repeat(32)}`)]],
  ["a description of no such name", ["corrupt"], [described("../../etc/passwd", 10)]],
  ["a description that is not there", ["timed_out"], [described(`perigee-${"0".repeat(32)}`, 9)]],
  [
    "a description that is too long",
    ["corrupt"],
    [described(`perigee-${"0".repeat(32)}`, 2 ** 20)],
  ],
  ["half a description", ["corrupt"], [frameOf(FRAME.placed, Buffer.alloc(12))]],
  [
    "a place in memory whose description is not there",
    ["timed_out"],
    [described(`perigee-${"0".repeat(32)}`, 9), at(5).frame(FRAME.at)],
  ],
  ["a place in no region", ["corrupt"], [at(9).frame(FRAME.at)]],
  ["what NIXL needs, to a reader without", ["corrupt"], [frameOf(FRAME.agent, Buffer.alloc(99))]],
  ["a place for NIXL, to a reader without", ["timed_out"], [at(9).frame(FRAME.remote)]],
  ["word that what was not read stands", ["timed_out"], [at(9).frame(FRAME.stands)]],
  ["an end of no code", ["failed"], [frameOf(FRAME.end, Buffer.from([0, 0, 0, 1, 200, 65]))]],
];

test.for(LIES)("[TR19] an owner that lies: %s", async ([, codes, frames]) => {
  liar = await lyingOwner(secret, (socket) => socket.write(Buffer.concat(frames)));
  const whole = new Uint8Array(600_000).fill(9);
  const read = client.read({
    peer: { host: "127.0.0.1", port: liar.port },
    offer: randomBytes(16).toString("hex"),
    pieces: [{ index: 0, into: [whole.subarray(1000, 2000)] }],
    deadlineMs: 400,
  });
  const code = await read.catch((error: { code: string }) => error.code);
  expect(codes).toContain(code);
  expect(whole.every((byte) => byte === 9)).toBe(true);
});

const id = randomBytes(16);
const asks = (count: number, named: number, read = 1) => {
  const writer = new FrameWriter(25 + named * 10).u32(read).bytes(id).u8(1).u32(count);
  for (let piece = 0; piece < named; piece++) writer.u32(piece).u48(10);
  return writer.frame(FRAME.read);
};
const QUESTIONS: readonly (readonly [string, Buffer])[] = [
  ["a count of pieces that are not there", asks(4_000_000_000, 1)],
  ["more pieces than it counts", asks(1, 2)],
  ["a frame of 4 GiB", Buffer.from([255, 255, 255, 255, 16])],
  ["one read twice", Buffer.concat([asks(1, 1), asks(1, 1)])],
  ["a frame that ends early", frameOf(FRAME.cancel, Buffer.of(1))],
  ["half a piece that it took", frameOf(FRAME.taken, Buffer.alloc(11))],
  ["half a check", frameOf(FRAME.check, Buffer.of(1))],
  ["an owner's frame", frameOf(FRAME.end)],
];

test.for(QUESTIONS)("[TR20] a reader that lies is cut off: %s", async ([name, bytes]) => {
  const offered = server.offer({ pieces: 1, pieceBytesMax: 100, deadlineMs: DEADLINE_MS });
  const socket = connect(server.address.port, "127.0.0.1");
  await introduce(socket, secret, { kind: "control" }, new FrameReader());
  const closed = new Promise((resolve) => socket.once("close", resolve));
  socket.on("error", () => {});
  socket.resume();
  // An id that exists: the first of two equal reads must stand for the second to be one too many.
  const real = Buffer.from(bytes);
  const found = real.indexOf(id);
  for (let from = found; from >= 0; from = real.indexOf(id, from + 1)) {
    real.set(Buffer.from(offered.id, "hex"), from);
  }
  socket.write(real);
  await closed;
  offered.release();
  expect((await offered.ended).outcome).toBe(name === "one read twice" ? "abandoned" : "released");
});

test("[TR82] a number of a read that was given before is cut off", async () => {
  const socket = connect(server.address.port, "127.0.0.1");
  await introduce(socket, secret, { kind: "control" }, new FrameReader());
  const closed = new Promise((resolve) => socket.once("close", resolve));
  socket.on("error", () => {});
  const ends: Buffer[] = [];
  socket.on("data", (chunk: Buffer) => ends.push(chunk));
  socket.resume();
  socket.write(Buffer.concat([asks(1, 1, 5), asks(1, 1, 6)]));
  // Both are over: there is no such offer.
  await expect.poll(() => Buffer.concat(ends).toString("latin1").split("no such").length).toBe(3);
  socket.write(asks(1, 1, 5));
  await closed;
});
