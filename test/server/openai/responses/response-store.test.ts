import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  ResponseShelves,
  type ShelfLimits,
  type StoredTurn,
} from "../../../../src/server/openai/responses/response-store.ts";

const LIMITS: ShelfLimits = { countMax: 10, bytesMax: 100_000, keptMs: 1000 };

function shelves(limits: Partial<ShelfLimits> = {}) {
  const clock = { nowMs: 0 };
  const store = new ResponseShelves({ ...LIMITS, ...limits }, () => clock.nowMs);
  return { store, clock };
}

function turn(id: string, more: Partial<StoredTurn> & { size?: number } = {}): StoredTurn {
  const { size = 10, ...fields } = more;
  const bytes = new Uint8Array(size);
  return {
    ...{ id, owner: "a", previousId: null, input: bytes, response: bytes, cacheSalt: null },
    ...fields,
  };
}

async function idsOf(store: ResponseShelves, id: string, owner = "a"): Promise<string[] | null> {
  return (await turnsOf(store, owner, id))?.map((one) => one.id) ?? null;
}

async function turnsOf(store: ResponseShelves, owner: string, id: string) {
  const found = await store.conversation(owner, id, Number.POSITIVE_INFINITY);
  if (found !== null && "bytes" in found) throw new Error("No conversation is so large");
  return found;
}

describe("a conversation", () => {
  test("is all turns, the oldest first", async () => {
    const { store } = shelves();
    await store.keep(turn("1"));
    await store.keep(turn("2", { previousId: "1" }));
    await store.keep(turn("3", { previousId: "2" }));
    expect(await idsOf(store, "3")).toEqual(["1", "2", "3"]);
    expect(await idsOf(store, "4")).toBeNull();
  });

  test("outlasts the deletion of its beginning, whose bytes go with its end", async () => {
    const { store } = shelves();
    await store.keep(turn("1"));
    await store.keep(turn("2", { previousId: "1" }));
    const { bytes } = store.size;
    expect(store.delete("a", "1")).toBe(true);
    expect(store.find("a", "1")).toBeNull();
    expect(await idsOf(store, "2")).toEqual(["1", "2"]);
    expect(store.size).toEqual({ count: 1, bytes });
    store.delete("a", "2");
    expect(store.size).toEqual({ count: 0, bytes: 0 });
  });

  test("that is larger than what is asked for is told by its size alone", async () => {
    const { store } = shelves();
    await store.keep(turn("1", { size: 100 }));
    await store.keep(turn("2", { previousId: "1", size: 50 }));
    expect(await store.conversation("a", "2", 299)).toEqual({ bytes: 300 });
    expect(await store.conversation("a", "2", 300)).toHaveLength(2);
    expect(await store.turn("a", "2")).toMatchObject({ id: "2", previousId: "1" });
    expect(await store.turn("b", "2")).toBeNull();
  });

  test("has bytes of its own, and nothing around them", async () => {
    const { store } = shelves();
    const slab = Buffer.alloc(8192);
    await store.keep(turn("1", { input: slab.subarray(0, 7), response: slab.subarray(7, 20) }));
    const kept = store.find("a", "1");
    expect([kept?.input.buffer.byteLength, kept?.response.buffer.byteLength]).toEqual([7, 13]);
  });

  test("whose beginning is gone is not kept", async () => {
    const { store } = shelves();
    await store.keep(turn("2", { previousId: "1" }));
    expect(store.size.count).toBe(0);
  });
});

describe("limits", () => {
  test("the turn used longest ago gives way, of its owner alone", async () => {
    const { store } = shelves({ countMax: 2 });
    await store.keep(turn("other", { owner: "b" }));
    await store.keep(turn("1"));
    await store.keep(turn("2"));
    store.find("a", "1");
    await store.keep(turn("3"));
    expect([store.find("a", "1")?.id, store.find("a", "2"), store.find("a", "3")?.id]).toEqual([
      ...["1", null, "3"],
    ]);
    expect(store.find("b", "other")).not.toBeNull();
  });

  test("bytes are bounded: a turn that is too large is not kept at all", async () => {
    const { store } = shelves();
    await store.keep(turn("1", { size: 20_000 }));
    await store.keep(turn("2", { size: 20_000 }));
    await store.keep(turn("3", { size: 60_000 }));
    expect(store.size.count).toBe(2);
    await store.keep(turn("4", { size: 20_000 }));
    expect(store.find("a", "1")).toBeNull();
    expect(store.size.bytes).toBeLessThanOrEqual(100_000);
  });

  test("a conversation that is larger than all bytes goes as a whole", async () => {
    const { store } = shelves();
    for (let at = 0; at < 5; at++) {
      const previousId = at === 0 ? null : String(at - 1);
      await store.keep(turn(String(at), { previousId, size: 15_000 }));
    }
    expect(store.size.bytes).toBeLessThanOrEqual(100_000);
  });

  test("all owners together have at most eight times the bytes of one", async () => {
    const { store } = shelves();
    for (let at = 0; at < 40; at++) {
      await store.keep(turn("1", { owner: `o${at}`, size: 40_000 }));
    }
    expect(store.size.bytes).toBeLessThanOrEqual(800_000);
    expect(store.size.count).toBeGreaterThan(8);
  });

  test("what was not used for a while expires", async () => {
    const { store, clock } = shelves();
    await store.keep(turn("1"));
    await store.keep(turn("2"));
    clock.nowMs = 900;
    expect(store.find("a", "1")).not.toBeNull();
    clock.nowMs = 1100;
    expect(store.find("a", "2")).toBeNull();
    expect(store.find("a", "1")).not.toBeNull();
    clock.nowMs = 5000;
    store.expire();
    expect(store.size).toEqual({ count: 0, bytes: 0 });
  });
});

const step = fc.record({
  op: fc.constantFrom("keep", "keep", "keep", "delete", "find", "wait"),
  owner: fc.constantFrom("a", "b", "c"),
  id: fc.integer({ min: 0, max: 12 }),
  previous: fc.option(fc.integer({ min: 0, max: 12 })),
  size: fc.integer({ min: 0, max: 30_000 }),
});

test("whatever happens, bytes are those of what can be reached, and within the limits", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 120 }), async (steps) => {
      const { store, clock } = shelves({ countMax: 5, bytesMax: 50_000 });
      const made = new Map<string, StoredTurn>();
      let serial = 0;
      for (const { op, owner, id, previous, size } of steps) {
        if (op === "wait") clock.nowMs += size / 20;
        else if (op === "find") store.find(owner, `${id}`);
        else if (op === "delete") store.delete(owner, `${id}`);
        else {
          const fresh = `${(serial++ + id) % 1000}`;
          const previousId = previous === null ? null : `${previous}`;
          if (store.find(owner, fresh) === null) {
            const kept = turn(fresh, { owner, previousId, size });
            made.set(`${owner} ${fresh}`, kept);
            await store.keep(kept);
          }
        }
        const reached = new Set<StoredTurn>();
        let count = 0;
        for (const one of made.values()) {
          const chain = await peek(store, one);
          if (chain !== null) count++;
          for (const turn of chain ?? []) reached.add(turn);
        }
        const bytes = [...reached].reduce((sum, { input }) => sum + 1024 + 2 * input.length, 0);
        expect(store.size).toEqual({ count, bytes });
        expect(bytes).toBeLessThanOrEqual(3 * 50_000);
      }
    }),
    { numRuns: 60, seed: 19 },
  );
});

/** Its conversation, if it itself can be found. */
async function peek(store: ResponseShelves, one: StoredTurn) {
  return await turnsOf(store, one.owner, one.id);
}
