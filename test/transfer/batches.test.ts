/** Many small pieces, which travel and are told of together. */
import { randomBytes } from "node:crypto";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  openTransferClient,
  openTransferServer,
  sharedMemory,
  type TransferClient,
  type TransferServer,
  type TransferWay,
} from "#transfer";
import { FRAME, FrameWriter } from "../../src/transfer/frames.ts";
import {
  type Segment,
  segmentOf,
  sharedMemory as shared,
} from "../../src/transfer/shared-memory.ts";
import { between } from "../support/between.ts";
import { sized } from "../support/full.ts";
import { lyingOwner } from "../support/lying-owner.ts";

const secret = "of many pieces";
const PIECE = 65_536;
const DEADLINE_MS = 30_000;
const WAYS: readonly TransferWay[] = ["process", "memory", "tcp", "stream"];

/** Of an offer whose reader is gone: all may have been on its way. */
const ENDS = ["abandoned", "sent"];

let server: TransferServer;
let client: TransferClient;

beforeEach(async () => {
  server = await openTransferServer({ secret });
});
afterEach(async () => {
  await client.close();
  await server.close();
  expect(server.stats()).toMatchObject({ offers: 0, connections: 0 });
});

const offerOf = (pieces: number, pieceBytesMax = PIECE) =>
  server.offer({ pieces, pieceBytesMax, deadlineMs: DEADLINE_MS });

/** Views of memory, one after another. */
function cut(memory: Uint8Array, sizes: readonly number[]): Uint8Array[] {
  let at = 0;
  return sizes.map((bytes) => {
    at += bytes;
    return memory.subarray(at - bytes, at);
  });
}

const pieces = (targets: readonly Uint8Array[]) =>
  targets.map((target, index) => ({ index, into: [target] }));

describe.each(WAYS)("many pieces by %s", (way) => {
  beforeEach(() => {
    client = openTransferClient({ secret, ways: [way], connections: 2 });
  });

  test("[TR78] ten thousand pieces of 64 KiB: each comes whole and is named once", async () => {
    const count = sized(way === "stream" ? 1000 : 4000, 10_000);
    const blocks = 61;
    const from = sharedMemory(blocks * PIECE);
    from.memory.set(randomBytes(from.memory.byteLength));
    const into = new Uint8Array(from.memory.byteLength);
    const sizes = Array.from({ length: blocks }, () => PIECE);
    const [sources, targets] = [cut(from.memory, sizes), cut(into, sizes)];
    const offer = offerOf(count);
    const sent = new Map<number, number>();
    const seen = new Map<number, number>();
    const note = (counts: Map<number, number>, piece: number) =>
      counts.set(piece, (counts.get(piece) ?? 0) + 1);
    const ready = (piece: number) =>
      offer.ready(piece, [sources[piece % blocks]!], () => note(sent, piece));
    for (let piece = 0; piece < count / 2; piece++) ready(piece);
    const read = client.read({
      ...{ peer: server.address, offer: offer.id, deadlineMs: DEADLINE_MS },
      pieces: Array.from({ length: count }, (_, index) => ({
        index,
        into: [targets[index % blocks]!],
      })),
      onPiece: (piece) => note(seen, piece),
    });
    for (let piece = Math.ceil(count / 2); piece < count; piece++) ready(piece);
    await read;
    expect(await offer.ended).toMatchObject({ outcome: "sent" });
    for (const counts of [sent, seen]) {
      expect(counts.size).toBe(count);
      expect([...counts.values()].every((times) => times === 1)).toBe(true);
    }
    expect(Buffer.compare(into, from.memory)).toBe(0);
    from.release();
  });

  test("[TR83] pieces of odd sizes and cuts in one batch", async () => {
    const odd = [0, 1, 7, 4095, 65_537, 262_144, 262_145, 0, 300_001, 63];
    const sizes = Array.from({ length: 300 }, (_, piece) => odd[piece % odd.length]! % 70_000);
    sizes.push(...odd);
    const bytes = sizes.reduce((sum, size) => sum + size, 0);
    const from = sharedMemory(bytes);
    from.memory.set(randomBytes(bytes));
    const into = new Uint8Array(bytes);
    const offer = offerOf(sizes.length, 1 << 20);
    cut(from.memory, sizes).forEach((source, piece) => {
      const middle = (piece * 31) % (source.byteLength + 1);
      offer.ready(piece, [source.subarray(0, middle), source.subarray(middle)]);
    });
    await client.read({
      ...{ peer: server.address, offer: offer.id, deadlineMs: DEADLINE_MS },
      pieces: cut(into, sizes).map((target, index) => {
        const middle = (index * 17) % (target.byteLength + 1);
        return { index, into: [target.subarray(0, middle), target.subarray(middle)] };
      }),
    });
    expect(await offer.ended).toMatchObject({ outcome: "sent" });
    expect(Buffer.compare(into, from.memory)).toBe(0);
    from.release();
  });

  test("[TR81] a read that is given up in the middle rests, and others of its connection go on", async () => {
    const count = 600;
    const sizes = Array.from({ length: count }, () => PIECE);
    const from = sharedMemory(count * PIECE);
    const into = new Uint8Array(count * PIECE);
    for (const stopAfter of [1, 100, 500]) {
      from.memory.fill(5);
      const given = offerOf(count);
      const kept = offerOf(64);
      const sources = cut(from.memory, sizes);
      sources.forEach((source, piece) => {
        given.ready(piece, [source]);
        if (piece < 64) kept.ready(piece, [source]);
      });
      const controller = new AbortController();
      let seen = 0;
      const peer = server.address;
      const other = new Uint8Array(64 * PIECE);
      const reads = [
        client.read({
          ...{ peer, offer: given.id, deadlineMs: DEADLINE_MS, signal: controller.signal },
          pieces: pieces(cut(into, sizes)),
          onPiece: () => {
            if (++seen === stopAfter) controller.abort();
          },
        }),
        client.read({
          ...{ peer, offer: kept.id, deadlineMs: DEADLINE_MS },
          pieces: pieces(cut(other, sizes.slice(0, 64))),
        }),
      ];
      await expect(reads[0]).rejects.toMatchObject({ code: "aborted" });
      into.fill(7);
      await reads[1];
      expect(ENDS).toContain((await given.ended).outcome);
      expect(await kept.ended).toMatchObject({ outcome: "sent" });
      from.memory.fill(6);
      await new Promise((resolve) => setTimeout(resolve, 30));
      expect(seen).toBe(stopAfter);
      expect(into.every((byte) => byte === 7)).toBe(true);
      expect(other.every((byte) => byte === 5)).toBe(true);
    }
    from.release();
  });
});

/** Passes bytes on until so many came from the owner; then it cuts the connection, or stalls. */
function passing(most: number, then: "cut" | "stall") {
  return between(server.address.port, (chunk, total) => {
    const left = Math.max(0, most - (total - chunk.byteLength));
    return left === 0 && then === "cut" ? null : chunk.subarray(0, left);
  });
}

describe.each(["tcp", "stream"] as const)("a batch by %s through a bad network", (way) => {
  const source = randomBytes(200 * PIECE);
  const sizes = Array.from({ length: 200 }, () => PIECE);

  /** Reads 200 pieces; tells which came, each whole when it was told. */
  function reading(peer: { host: string; port: number }, signal?: AbortSignal) {
    client = openTransferClient({ secret, ways: [way], connections: 1 });
    const offer = offerOf(200);
    const sources = cut(source, sizes);
    sources.forEach((each, piece) => {
      offer.ready(piece, [each]);
    });
    const targets = cut(new Uint8Array(source.byteLength), sizes);
    const seen: number[] = [];
    const done = client.read({
      ...{ peer, offer: offer.id, pieces: pieces(targets), deadlineMs: DEADLINE_MS },
      onPiece: (piece) => {
        expect(Buffer.compare(targets[piece]!, sources[piece]!)).toBe(0);
        seen.push(piece);
      },
      ...(signal !== undefined && { signal }),
    });
    return { offer, seen, done };
  }

  test("[TR80] a cut in the middle of a batch ends the read, after what had come whole", async () => {
    for (const most of [100_000, 1_000_000, 7_000_001]) {
      const { peer, close } = await passing(most, "cut");
      const { offer, seen, done } = reading(peer);
      await expect(done).rejects.toMatchObject({ code: "closed" });
      expect(new Set(seen).size).toBe(seen.length);
      expect(seen.length).toBeLessThanOrEqual(most / PIECE);
      expect(ENDS).toContain((await offer.ended).outcome);
      close();
      await client.close();
    }
  });

  test("[TR84] what has come is told, though the rest of its batch stalls", async () => {
    const { peer, close } = await passing(2.5 * PIECE, "stall");
    const controller = new AbortController();
    const { seen, done } = reading(peer, controller.signal);
    await expect.poll(() => seen.length, { timeout: 3000 }).toBe(2);
    controller.abort();
    await expect(done).rejects.toMatchObject({ code: "aborted" });
    close();
  });
});

const REGION = 1 << 20;
const FIRST = 4096;

/** Places of pieces of 1,000 bytes, for the first read of a connection. */
class Places {
  readonly #writer: FrameWriter;
  readonly #segment: Segment;

  constructor(segment: Segment, token: bigint) {
    this.#segment = segment;
    this.#writer = new FrameWriter(8192).u32(1).u32(segment.id).u32(0).u64(token);
  }

  piece(piece: number, offset = FIRST + piece * 1000, ranges = 1, bytes = 1000): this {
    this.#writer.u32(piece).u32(ranges).u32(this.#segment.id).u48(offset).u48(bytes);
    return this;
  }

  cut(): this {
    this.#writer.u32(12).u32(1);
    return this;
  }

  pieces(from: number, to: number): this {
    for (let piece = from; piece < to; piece++) this.piece(piece);
    return this;
  }

  get frame(): Buffer {
    return this.#writer.frame(FRAME.at);
  }
}

const LIES: readonly (readonly [string, string, bigint, (places: Places) => Places])[] = [
  ["names a piece twice", "corrupt", 1n, (all) => all.pieces(0, 5).piece(4)],
  ["names one that was not asked for", "corrupt", 1n, (all) => all.pieces(0, 5).piece(40)],
  ["names a place beyond the memory", "corrupt", 1n, (all) => all.pieces(0, 5).piece(5, REGION)],
  [
    "names more bytes than a piece has",
    "corrupt",
    1n,
    (all) => all.pieces(0, 5).piece(5, 0, 1, 1001),
  ],
  ["counts more ranges than there are", "corrupt", 1n, (all) => all.piece(0).piece(1, 0, 4e9)],
  ["ends within a piece", "corrupt", 1n, (all) => all.pieces(0, 5).cut()],
  ["tells a token that does not stand", "failed", 2n, (all) => all.pieces(0, 10)],
];

test.for(LIES)("[TR79] a batch whose owner lies: it %s", async ([, code, token, lie]) => {
  const memory = shared(REGION);
  memory.memory.fill(3);
  new BigUint64Array(memory.memory.buffer, memory.memory.byteOffset, 1)[0] = 1n;
  const segment = segmentOf(memory.memory);
  if (segment === null) return;
  const { id, fd, bytes, name } = segment;
  const told = new FrameWriter(100).u32(id).u32(process.pid).u32(fd).u48(bytes);
  const frames = [
    told.bytes(Buffer.from(name)).frame(FRAME.segment),
    lie(new Places(segment, token)).pieces(10, 20).frame,
  ];
  const liar = await lyingOwner(secret, (socket) => socket.write(Buffer.concat(frames)));
  client = openTransferClient({ secret, ways: ["memory"] });
  const whole = new Uint8Array(22_000).fill(9);
  const seen: number[] = [];
  const read = client.read({
    peer: { host: "127.0.0.1", port: liar.port },
    offer: randomBytes(16).toString("hex"),
    pieces: pieces(
      cut(
        whole.subarray(1000),
        Array.from({ length: 20 }, () => 1000),
      ),
    ),
    onPiece: (piece) => seen.push(piece),
    deadlineMs: 2000,
  });
  await expect(read).rejects.toMatchObject({ code });
  expect(seen.filter((piece) => piece >= 5)).toEqual([]);
  if (code === "failed") expect(seen).toEqual([]);
  else expect(whole.subarray(6000).every((byte) => byte === 9)).toBe(true);
  expect(whole.subarray(0, 1000).every((byte) => byte === 9)).toBe(true);
  liar.close();
  memory.release();
});
