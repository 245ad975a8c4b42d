import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  type CopyPlaced,
  type ForeignRange,
  openTransferClient,
  openTransferServer,
  type PlacedMemory,
  placedMemory,
  type TransferClient,
  type TransferServer,
  type TransferWay,
} from "#transfer";
import { transferLibrary } from "../../src/transfer/native/library.ts";

const DEADLINE_MS = 5000;
const BYTES = 4096;

/** Memory that readers reach by its name alone: a GPU's, as far as this room knows. */
const memories = new Map<string, Uint8Array>();

const ways = (["process", "memory"] as const).filter(
  (way) => way === "process" || transferLibrary() !== null,
);

describe.each(ways)("placed memory, way: %s", (way: TransferWay) => {
  let server: TransferServer;
  let client: TransferClient;
  let placed: PlacedMemory;
  let forgotten: string[];

  beforeEach(async () => {
    server = await openTransferServer();
    forgotten = [];
    const onForgotten = (description: string) => forgotten.push(description);
    client = openTransferClient({ ways: [way], onForgotten });
    memories.set(
      "far",
      Uint8Array.from({ length: BYTES }, (_, at) => (at * 7) & 255),
    );
    placed = placedMemory("far", BYTES);
  });
  afterEach(async () => {
    await client.close();
    await server.close();
    placed.release();
    expect(server.stats()).toMatchObject({ offers: 0, connections: 0 });
  });

  const offer = (pieces: number) =>
    server.offer({ pieces, pieceBytesMax: BYTES, deadlineMs: DEADLINE_MS });
  const read = (id: string, copyPlaced: CopyPlaced, sizes: readonly number[], more = {}) =>
    client.read({
      ...{ peer: server.address, offer: id, copyPlaced, deadlineMs: DEADLINE_MS },
      pieces: sizes.map((bytes, index) => ({ index, bytes })),
      ...more,
    });
  const bytesAt = ({ description, offset, bytes }: ForeignRange) =>
    memories.get(description)?.slice(offset, offset + bytes) ?? new Uint8Array(0);

  test("[TR21] a reader copies each piece itself, with what its description says", async () => {
    const offered = offer(2);
    const got = new Map<number, Buffer>();
    const sent: number[] = [];
    const done = read(
      offered.id,
      (piece, from, copied) => {
        expect(from.every(({ memoryBytes }) => memoryBytes === BYTES)).toBe(true);
        setTimeout(() => {
          got.set(piece, Buffer.concat(from.map(bytesAt)));
          copied(true);
        }, 5);
      },
      [20, 30],
    );
    const range = (offset: number, bytes: number) => ({ memory: placed, offset, bytes });
    offered.ready(1, [range(100, 10), range(4066, 20)], () => sent.push(1));
    offered.ready(0, [range(0, 20)], () => sent.push(0));
    await done;
    expect(await offered.ended).toMatchObject({ outcome: "sent" });
    expect(sent.sort()).toEqual([0, 1]);
    const far = memories.get("far") ?? new Uint8Array(0);
    expect(got.get(0)).toEqual(Buffer.from(far.subarray(0, 20)));
    expect(got.get(1)).toEqual(Buffer.concat([far.subarray(100, 110), far.subarray(4066, 4086)]));
    await client.close();
    if (way === "memory") expect(forgotten).toEqual(["far"]);
  });

  test("[TR22] a copy that fails, or whose offer ends meanwhile, is never taken for a piece", async () => {
    const failing = offer(1);
    failing.ready(0, [{ memory: placed, offset: 0, bytes: 8 }]);
    const refused = read(failing.id, (_piece, _from, copied) => copied(false), [8]);
    await expect(refused).rejects.toMatchObject({ code: "failed" });
    await failing.ended;

    const ending = offer(1);
    let finish = () => {};
    let failed: Promise<void> = Promise.resolve();
    const begun = new Promise<void>((resolve) => {
      const done = read(
        ending.id,
        (_piece, _from, copied) => {
          finish = () => copied(true);
          resolve();
        },
        [8],
      );
      failed = expect(done).rejects.toMatchObject({ name: "TransferError" });
    });
    ending.ready(0, [{ memory: placed, offset: 0, bytes: 8 }]);
    await begun;
    ending.fail("its owner needs the memory");
    finish();
    await failed;
    expect(await ending.ended).toMatchObject({ outcome: "failed" });
  });

  test("[TR22] pieces of another kind of memory, or size, than the reader wants fail", async () => {
    const never: CopyPlaced = () => expect.unreachable();
    const plain = offer(1);
    plain.ready(0, [new Uint8Array(8)]);
    await expect(read(plain.id, never, [8])).rejects.toMatchObject({ name: "TransferError" });
    const near = offer(1);
    near.ready(0, [{ memory: placed, offset: 0, bytes: 8 }]);
    const into = [{ index: 0, into: [new Uint8Array(8)] }];
    const wrong = client.read({
      ...{ peer: server.address, offer: near.id, pieces: into, deadlineMs: DEADLINE_MS },
    });
    await expect(wrong).rejects.toMatchObject({ name: "TransferError" });
    const longer = offer(1);
    longer.ready(0, [{ memory: placed, offset: 0, bytes: 9 }]);
    await expect(read(longer.id, never, [8])).rejects.toMatchObject({ code: "corrupt" });
  });

  test("[TR4] nothing is reported while a copy is under way", async () => {
    const offered = offer(1);
    offered.ready(0, [{ memory: placed, offset: 0, bytes: 8 }]);
    const stop = new AbortController();
    let finish = () => {};
    let settled = false;
    const begun = new Promise<void>((resolve) => {
      const done = read(
        offered.id,
        (_piece, _from, copied) => {
          finish = () => copied(true);
          resolve();
        },
        [8],
        { signal: stop.signal },
      );
      done.catch(() => {
        settled = true;
      });
    });
    await begun;
    stop.abort();
    await new Promise((resolve) => setTimeout(resolve, 30));
    expect(settled).toBe(false);
    finish();
    await expect.poll(() => settled).toBe(true);
  });
});

test("[TR21] a reader that maps nothing is told that it cannot reach placed memory", async () => {
  const server = await openTransferServer();
  const client = openTransferClient({ ways: ["stream"] });
  const placed = placedMemory("far", BYTES);
  const offered = server.offer({ pieces: 1, pieceBytesMax: BYTES, deadlineMs: DEADLINE_MS });
  offered.ready(0, [{ memory: placed, offset: 0, bytes: 8 }]);
  const wanted = { peer: server.address, offer: offered.id, deadlineMs: DEADLINE_MS };
  const copyPlaced: CopyPlaced = (_piece, _from, copied) => copied(true);
  await expect(
    client.read({ ...wanted, copyPlaced, pieces: [{ index: 0, bytes: 8 }] }),
  ).rejects.toThrow("it is in memory that the reader cannot reach");
  expect(await offered.ended).toMatchObject({ outcome: "failed" });
  await client.close();
  await server.close();
  placed.release();
});
