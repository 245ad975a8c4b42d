import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  openTransferClient,
  openTransferServer,
  type PiecesByWay,
  type TransferClient,
  type TransferClientOptions,
  type TransferServer,
  type TransferServerOptions,
} from "#transfer";

export interface TransferKind {
  readonly server: TransferServerOptions;
  readonly client: TransferClientOptions;
  /** Memory that is offered. */
  memory?(bytes: number): Uint8Array;
  /** Memory that is read into. */
  target?(bytes: number): Uint8Array;
  /** By which all pieces must have gone. */
  readonly way?: keyof PiecesByWay;
}

const DEADLINE_MS = 10_000;

/** Every way runs this. */
export function transferContract(name: string, kind: TransferKind): void {
  describe(name, () => {
    let server: TransferServer;
    let client: TransferClient;
    const make = (bytes: number, seed: number): Uint8Array => {
      const memory = kind.memory?.(bytes) ?? new Uint8Array(bytes);
      for (let at = 0; at < bytes; at++) memory[at] = (at * 31 + (at >> 8) * 7 + seed * 13) & 255;
      return memory;
    };
    const room = (bytes: number) => kind.target?.(bytes) ?? new Uint8Array(bytes);
    const offer = (pieces: number, pieceBytesMax = 1 << 24, deadlineMs = DEADLINE_MS) =>
      server.offer({ pieces, pieceBytesMax, deadlineMs });
    const read = (id: string, into: readonly Uint8Array[][], more = {}) =>
      client.read({
        peer: server.address,
        offer: id,
        pieces: into.map((ranges, index) => ({ index, into: ranges })),
        deadlineMs: DEADLINE_MS,
        ...more,
      });

    beforeEach(async () => {
      server = await openTransferServer(kind.server);
      client = openTransferClient(kind.client);
    });
    afterEach(async () => {
      await client.close();
      await server.close();
      const { pieces, ...rest } = server.stats();
      expect(rest).toMatchObject({ offers: 0, connections: 0 });
      const { [kind.way ?? "bytes"]: own, ...others } = pieces;
      if (kind.way !== undefined) expect(Object.values(others), `${own} pieces`).toEqual([0, 0]);
    });

    test("[TR1] pieces arrive whole, however both sides cut them", async () => {
      const sizes = [1, 63, 65_536, 1_048_577, 5_000_000];
      const offered = offer(sizes.length);
      const sources = sizes.map((bytes, index) => make(bytes, index));
      sources.forEach((source, index) => {
        const cut = source.byteLength >> 1;
        offered.ready(index, [source.subarray(0, cut), source.subarray(cut)]);
      });
      const targets = sizes.map((bytes) => room(bytes));
      const third = (target: Uint8Array) => Math.floor(target.byteLength / 3);
      await read(
        offered.id,
        targets.map((target) => [
          target.subarray(0, third(target)),
          target.subarray(third(target)),
        ]),
      );
      targets.forEach((target, index) => {
        expect(Buffer.compare(target, sources[index]!)).toBe(0);
      });
      expect(await offered.ended).toMatchObject({ outcome: "sent" });
    });

    test("[TR2] pieces follow in the order in which they become ready", async () => {
      const offered = offer(4);
      const targets = [0, 1, 2, 3].map(() => room(70_000));
      const seen: number[] = [];
      const ready = (index: number) => offered.ready(index, [make(70_000, index)]);
      ready(2);
      const done = read(
        offered.id,
        targets.map((target) => [target]),
        {
          onPiece: (index: number) => {
            expect(targets[index]![69_999]).toBe(make(70_000, index)[69_999]);
            seen.push(index);
          },
        },
      );
      for (const index of [0, 3, 1]) {
        await expect.poll(() => seen.length).toBeGreaterThan(0);
        const before = seen.length;
        ready(index);
        await expect.poll(() => seen.length).toBe(before + 1);
      }
      await done;
      expect(seen).toEqual([2, 0, 3, 1]);
    });

    test("[TR3] owners learn when memory of each piece is theirs again", async () => {
      const offered = offer(3);
      const sent: number[] = [];
      for (const index of [0, 1, 2]) {
        offered.ready(index, [make(1000, index)], () => sent.push(index));
      }
      await client.read({
        peer: server.address,
        offer: offered.id,
        pieces: [0, 2].map((index) => ({ index, into: [room(1000)] })),
        deadlineMs: DEADLINE_MS,
      });
      expect(await offered.ended).toMatchObject({ outcome: "sent" });
      expect(sent.sort()).toEqual([0, 1, 2]);
    });

    test("[TR4] aborted and late reads write nothing any more", async () => {
      for (const code of ["aborted", "timed_out"]) {
        const offered = offer(2);
        const controller = new AbortController();
        const target = room(8_000_000);
        const done = read(offered.id, [[target], [room(10)]], {
          signal: controller.signal,
          deadlineMs: code === "aborted" ? DEADLINE_MS : 30,
        });
        offered.ready(0, [make(8_000_000, 1)]);
        if (code === "aborted") setTimeout(() => controller.abort(), 2);
        await expect(done).rejects.toMatchObject({ name: "TransferError", code });
        target.fill(7);
        expect(await offered.ended).toMatchObject({ outcome: "abandoned" });
        await new Promise((resolve) => setTimeout(resolve, 30));
        expect(target.every((byte) => byte === 7)).toBe(true);
      }
    });

    test("[TR5] one reader; second reads, wrong and ended ids disturb no read", async () => {
      const offered = offer(1);
      const target = room(1000);
      const first = read(offered.id, [[target]]);
      await new Promise((resolve) => setTimeout(resolve, 20));
      await expect(read(offered.id, [[room(1000)]])).rejects.toMatchObject({
        code: "refused",
      });
      for (const id of ["0".repeat(32), "", "../../x", "ff"]) {
        await expect(read(id, [[room(1000)]])).rejects.toMatchObject({
          code: "unknown_offer",
        });
      }
      offered.ready(0, [make(1000, 3)]);
      await first;
      expect(Buffer.compare(target, make(1000, 3))).toBe(0);
      await expect(read(offered.id, [[target]])).rejects.toMatchObject({ code: "unknown_offer" });
    });

    test("[TR6] a failed, expired or released offer ends its read with the reason", async () => {
      const failed = offer(2);
      const failing = read(failed.id, [[room(9)], [room(9)]]);
      failed.ready(0, [make(9, 0)]);
      setTimeout(() => failed.fail("the request was aborted"), 20);
      await expect(failing).rejects.toThrow(/the request was aborted/);
      expect(await failed.ended).toMatchObject({ outcome: "failed" });

      const late = offer(1, 100, 20);
      await expect(read(late.id, [[room(9)]])).rejects.toMatchObject({
        code: "timed_out",
      });
      expect(await late.ended).toMatchObject({ outcome: "expired" });

      const gone = offer(1);
      const going = read(gone.id, [[room(9)]]);
      setTimeout(() => gone.release(), 20);
      await expect(going).rejects.toMatchObject({ code: "failed" });
      expect(await gone.ended).toMatchObject({ outcome: "released" });
      gone.ready(0, [make(9, 0)]);
    });

    test("[TR7] pieces of another size are corrupt", async () => {
      for (const [there, here] of [
        [1000, 999],
        [999, 1000],
      ] as const) {
        const offered = offer(1);
        offered.ready(0, [make(there, 0)]);
        const whole = room(2000).fill(9);
        const target = whole.subarray(0, here);
        await expect(read(offered.id, [[target]])).rejects.toMatchObject({ code: "corrupt" });
        expect(whole.subarray(here).every((byte) => byte === 9)).toBe(true);
      }
    });

    test("[TR8] many reads at once end, and nothing is held", async () => {
      const pairs = Array.from({ length: 40 }, (_, index) => {
        const offered = offer(3);
        const targets = [0, 1, 2].map(() => [room(100_000)]);
        const done = read(offered.id, targets);
        for (const piece of [1, 0, 2]) offered.ready(piece, [make(100_000, index + piece)]);
        return { offered, targets, done };
      });
      for (const [index, { offered, targets, done }] of pairs.entries()) {
        await done;
        expect(await offered.ended).toMatchObject({ outcome: "sent" });
        for (const piece of [0, 1, 2]) {
          expect(Buffer.compare(targets[piece]![0]!, make(100_000, index + piece))).toBe(0);
        }
      }
      expect(server.stats().offers).toBe(0);
    });
  });
}
