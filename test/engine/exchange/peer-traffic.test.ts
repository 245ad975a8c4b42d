/** When pieces of other engines are read, and when they are copied to their places. */
import { expect, test } from "vitest";
import { blockId, type PeerJob } from "#kvcache";
import type { ReadRequest } from "#transfer";
import type { PeerPort } from "../../../src/engine/exchange/peer-port.ts";
import { PeerTraffic } from "../../../src/engine/exchange/peer-traffic.ts";

/** Reads that a port was asked for, which end when they are told to. */
function playedPort() {
  const reads: { request: ReadRequest; end: () => void }[] = [];
  const read = (request: ReadRequest) =>
    new Promise<void>((resolve) => void reads.push({ request, end: resolve }));
  return { reads, traffic: new PeerTraffic({ read } as unknown as PeerPort) };
}

const SOURCE = {
  ...{ peer: { host: "h", port: 1 }, offer: "a", deadlineMs: 1000, parts: [] },
  ...{ isStored: false, onFailure: () => {} },
};
const job = (piece: number): PeerJob => ({
  ...{ kind: "receive", transfer: 1, piece, block: blockId(piece) },
});

test("[KV83] what comes to the device is read at once, and each block copied when it has a place", async () => {
  const { reads, traffic } = playedPort();
  const copied: string[] = [];
  const place = (piece: number) =>
    traffic.receivePlaced(job(piece), 10, async () => copied.push(`to ${piece}`) > 0);
  const comes = (piece: number) =>
    reads[0]?.request.copyPlaced?.(piece, [], (ok) => {
      copied.push(`${piece}: ${ok}`);
      if (ok) reads[0]?.request.onPiece?.(piece);
    });
  traffic.startIncoming(1, 5, 10);
  const first = place(0);
  traffic.readFrom(1, { ...SOURCE, pieces: 4 });
  expect(reads).toHaveLength(1);
  expect(reads[0]?.request.pieces).toEqual([0, 1, 2, 3].map((index) => ({ index, bytes: 10 })));
  comes(0);
  comes(2);
  expect(await first).toBe(true);
  expect(copied).toEqual(["to 0", "0: true"]);
  const third = place(2);
  expect(await third).toBe(true);
  expect(copied).toEqual(["to 0", "0: true", "to 2", "2: true"]);
  // It was not offered.
  expect(await place(4)).toBe(false);
  expect(reads).toHaveLength(1);
  // What has no place when all is stopped is not copied, and a place that comes then is given up.
  comes(1);
  traffic.stopIncoming(1);
  expect(copied.at(-1)).toBe("1: false");
  comes(3);
  expect(copied.at(-1)).toBe("3: false");
  const late = place(1);
  reads[0]?.end();
  expect(await late).toBe(false);
  expect(await place(3)).toBe(false);
});

test("[KV83] nothing is copied once a read has ended: the other engine may be gone", async () => {
  const { reads, traffic } = playedPort();
  const copied: string[] = [];
  const place = (piece: number) =>
    traffic.receivePlaced(job(piece), 10, async () => copied.push("pulled") > 0);
  const comes = (piece: number) =>
    reads[0]?.request.copyPlaced?.(piece, [], (ok) => copied.push(`${piece}: ${ok}`));
  traffic.startIncoming(1, 2, 10);
  traffic.readFrom(1, { ...SOURCE, pieces: 2 });
  comes(0);
  reads[0]?.request.onEnding?.();
  expect(copied).toEqual(["0: false"]);
  const [first, second] = [place(0), place(1)];
  comes(1);
  expect(copied).toEqual(["0: false", "1: false"]);
  reads[0]?.end();
  expect([await first, await second]).toEqual([false, false]);
  expect(copied).not.toContain("pulled");
});

test("[KV83] what comes to host memory is read when all of it has a place", async () => {
  const { reads, traffic } = playedPort();
  traffic.startIncoming(1, 2);
  traffic.readFrom(1, { ...SOURCE, pieces: 2 });
  const [one, other] = [new Uint8Array(10), new Uint8Array(10)];
  const first = traffic.receive(job(0), [one]);
  expect(reads).toHaveLength(0);
  const second = traffic.receive(job(1), [other]);
  expect(reads[0]?.request.pieces).toEqual([
    { index: 0, into: [one] },
    { index: 1, into: [other] },
  ]);
  reads[0]?.end();
  expect([await first, await second]).toEqual([false, false]);
});
