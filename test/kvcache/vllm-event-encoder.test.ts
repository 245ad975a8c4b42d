import { expect, test } from "vitest";
import type { KvEvent, StoredBlock } from "../../src/kvcache/events/kv-event.ts";
import { VllmEventEncoder } from "../../src/kvcache/events/vllm-event-encoder.ts";
import { RandomHistory, removed, stored, storedBlock } from "../support/kv-events.ts";
import { VllmIndex } from "../support/vllm-index.ts";

/** Translations of all events, each event's in a list of its own. */
function encode(...events: readonly KvEvent[]) {
  const encoder = new VllmEventEncoder(4);
  return events.map((event, id) => encoder.encode({ id, event }));
}

function storedAs(block: Partial<StoredBlock>): KvEvent {
  return { type: "stored", parentHash: null, blocks: [storedBlock(1n, block)] };
}

test.each([2, 3, 10])(
  "a run of %i blocks is one BlockStored with all tokens (V 5.1 (14))",
  (count) => {
    const hashes = Array.from({ length: count }, (_, place) => BigInt(place + 1));
    const [events] = encode(stored(null, ...hashes));
    expect(events).toEqual([
      {
        type: "BlockStored",
        block_hashes: hashes,
        parent_block_hash: null,
        token_ids: hashes.flatMap(() => [1, 2, 3, 4]),
        block_size: 4,
        lora_id: null,
        medium: "GPU",
        lora_name: null,
        extra_keys: hashes.map(() => null),
        group_idx: 0,
        kv_cache_spec_kind: "full_attention",
      },
    ]);
  },
);

test("what continues a request's blocks names the last of them as parent (V 5.1 (15))", () => {
  const [, events] = encode(stored(null, 1n, 2n), {
    type: "stored",
    parentHash: 2n,
    blocks: [storedBlock(3n, { loraId: 7 })],
  });
  expect(events).toMatchObject([{ parent_block_hash: 2n, lora_id: 7, group_idx: 0 }]);
});

test("a reset is AllBlocksCleared (V 5.1 (14))", () => {
  const [, events] = encode(stored(null, 1n), { type: "cleared", hashes: [1n] });
  expect(events).toEqual([{ type: "AllBlocksCleared" }]);
});

test("a move is stored on the new medium, then removed from the old", () => {
  const move = (newValue: 0 | 1 | 2, oldValue: 0 | 1 | 2): KvEvent => ({
    type: "updated",
    hash: 2n,
    level: { newValue, oldValue },
    priority: null,
  });
  const [, offloaded, written, removal] = encode(
    stored(null, 1n, 2n),
    move(1, 0),
    move(2, 1),
    removed(1n, 2n),
  );
  expect(offloaded).toMatchObject([
    { type: "BlockStored", block_hashes: [2n], parent_block_hash: 1n, medium: "CPU" },
    { type: "BlockRemoved", block_hashes: [2n], medium: "GPU" },
  ]);
  expect(offloaded?.[0]).toMatchObject({ token_ids: [1, 2, 3, 4] });
  expect(written).toMatchObject([{ medium: "STORAGE" }, { medium: "CPU" }]);
  expect(removal).toEqual([
    { type: "BlockRemoved", block_hashes: [1n], medium: "GPU", group_idx: 0 },
    { type: "BlockRemoved", block_hashes: [2n], medium: "STORAGE", group_idx: 0 },
  ]);
});

test("a tail is never told, nor its end; a priority neither", () => {
  const tail = storedBlock(2n, { tokenIds: [9] });
  const all = encode(
    { type: "stored", parentHash: null, blocks: [storedBlock(1n), tail] },
    { type: "updated", hash: 2n, level: { newValue: 1, oldValue: 0 }, priority: null },
    { type: "updated", hash: 1n, level: null, priority: { newValue: 80, oldValue: 35 } },
    removed(2n),
  );
  expect(all[0]).toMatchObject([{ block_hashes: [1n] }]);
  expect(all.slice(1)).toEqual([[], [], []]);
});

test("extra keys are items by offset from the block's start, and the salt of the first block", () => {
  const hash = "ab".repeat(32);
  const item = (startOffset: number) => ({ multimodalKeys: [{ hash, startOffset }] });
  expect(encode(storedAs(item(5)))[0]).toMatchObject([{ extra_keys: [[[hash, -5]]] }]);
  expect(encode(storedAs(item(0)))[0]).toMatchObject([{ extra_keys: [[[hash, 0]]] }]);
  const cacheSalt = "s";
  const blocks = [storedBlock(1n, { cacheSalt }), storedBlock(2n, { cacheSalt })];
  expect(encode({ type: "stored", parentHash: null, blocks })[0]).toMatchObject([
    { extra_keys: [["s"], null] },
  ]);
});

test("a cache with a window says so", () => {
  const encoder = new VllmEventEncoder(4, [4096]);
  expect(encoder.encode({ id: 0, event: stored(null, 1n) })).toMatchObject([
    { kv_cache_spec_kind: "sliding_window", kv_cache_spec_sliding_window: 4096 },
  ]);
});

test("a gap is noticed, and a snapshot starts everything anew", () => {
  const encoder = new VllmEventEncoder(4);
  expect(encoder.encode({ id: 3, event: stored(null, 1n) })).toBeNull();
  const blocks = [
    { ...storedBlock(1n), parentHash: null },
    { ...storedBlock(2n), parentHash: 1n },
    { ...storedBlock(3n, { level: 1 }), parentHash: 2n },
    { ...storedBlock(4n, { tokenIds: [1] }), parentHash: 2n },
  ];
  expect(encoder.load({ nextId: 9, blocksPerLevel: [8, 2], blocks })).toMatchObject([
    { type: "AllBlocksCleared" },
    { block_hashes: [1n, 2n], parent_block_hash: null, medium: "GPU" },
    { block_hashes: [3n], parent_block_hash: 2n, medium: "CPU" },
  ]);
  expect(encoder.encode({ id: 8, event: removed(1n) })).toEqual([]);
  expect(encoder.encode({ id: 9, event: removed(3n) })).toMatchObject([{ medium: "CPU" }]);
});

test.each([1, 2, 3])(
  "a subscriber's index is the cache's full blocks, always (seed %i)",
  (seed) => {
    const encoder = new VllmEventEncoder(4);
    const index = new VllmIndex(4);
    let id = 0;
    const history = new RandomHistory(seed, (event) => {
      for (const vllm of encoder.encode({ id: id++, event }) ?? []) index.apply(vllm);
    });
    for (let step = 0; step < 3000; step++) {
      history.step();
      if (step % 100 === 0) expect(index.problemWith(history.snapshot(id))).toBeNull();
    }
    expect(index.problemWith(history.snapshot(id))).toBeNull();
  },
);
