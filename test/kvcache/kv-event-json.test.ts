import { expect, test } from "vitest";
import type { KvEvent, NumberedKvEvent } from "../../src/kvcache/events/kv-event.ts";
import {
  kvEventJson,
  kvEventsJson,
  kvSnapshotJson,
} from "../../src/kvcache/events/kv-event-json.ts";
import {
  parseKvEvent,
  parseKvEvents,
  parseKvSnapshot,
} from "../../src/kvcache/events/kv-event-json-reader.ts";
import { RandomHistory, removed, storedBlock } from "../support/kv-events.ts";

const json = (event: KvEvent, id = 1) => kvEventJson({ id, event }, [16]);
const largest = 2n ** 64n - 1n;

test("events have TensorRT-LLM's shapes (T 2.1)", () => {
  expect(json({ type: "created", blocksPerLevel: [8, 2] }, 0)).toBe(
    '{"event_id":0,"data":{"type":"created","num_blocks_per_cache_level":[8,2]},"window_size":16}',
  );
  const item = { hash: "ab".repeat(32), startOffset: 42 };
  const block = storedBlock(924206229973855n, { tokenIds: [1], multimodalKeys: [item] });
  expect(json({ type: "stored", parentHash: null, blocks: [block] })).toBe(
    '{"event_id":1,"data":{"type":"stored","parent_hash":null,"blocks":[{"type":"stored_block",' +
      '"block_hash":924206229973855,"tokens":[{"type":"unique_token","token_id":1,' +
      '"token_extra_id":0}],"cache_level":0,"priority":35,"mm_keys":[{"type":"mm_key","hash":"' +
      `${item.hash}","start_offset":42}],"cache_salt":null}]},"window_size":16}`,
  );
  expect(json(removed(924206229973855n), 2)).toBe(
    '{"event_id":2,"data":{"type":"removed","block_hashes":[924206229973855]},"window_size":16}',
  );
});

test.each([
  [{ newValue: 1, oldValue: 0 }, null],
  [null, { newValue: 10, oldValue: 50 }],
  [
    { newValue: 0, oldValue: 1 },
    { newValue: 10, oldValue: 50 },
  ],
  [null, null],
] as const)(
  "an update tells each difference on its own: %o and %o (T 46, T 47)",
  (level, priority) => {
    const event = { type: "updated", hash: 924206229973855n, level, priority } as const;
    const diff = (change: { newValue: number; oldValue: number } | null) =>
      change && { type: "event_diff", new_value: change.newValue, old_value: change.oldValue };
    expect(JSON.parse(json(event, 3))).toEqual({
      event_id: 3,
      data: {
        type: "updated",
        block_hash: 924206229973855,
        cache_level: diff(level),
        priority: diff(priority),
      },
      window_size: 16,
    });
    expect(parseKvEvent(json(event, 3))).toEqual({ id: 3, event });
  },
);

test("hashes of 64 bits are exact, there and back", () => {
  const block = storedBlock(largest, { cacheSalt: 'a "quoted" salt', loraId: 0 });
  const event: KvEvent = { type: "stored", parentHash: largest - 1n, blocks: [block] };
  const text = json(event);
  expect(text).toContain('"parent_hash":18446744073709551614');
  expect(text).toContain('"block_hash":18446744073709551615');
  expect(parseKvEvent(text)).toEqual({ id: 1, event });
});

test("digits within a text are text, and wide numbers are numbers alone", () => {
  const stored = (salt: string) =>
    `{"event_id":1,"data":{"type":"stored","parent_hash":[],"blocks":[{"block_hash":${largest},` +
    `"token_ids":[7],"cache_level":0,"priority":35,"cache_salt":${salt}}]}}`;
  for (const salt of [
    "a,1234567890123456789 b",
    "[1234567890123456789",
    '":1234567890123456789,"',
  ]) {
    const text = stored(JSON.stringify(salt)).replace("[]", `${largest}`);
    const event = parseKvEvent(text)?.event;
    expect(event).toMatchObject({
      parentHash: largest,
      blocks: [{ hash: largest, cacheSalt: salt }],
    });
  }
  const refused = (json: string) => () => parseKvEvent(json);
  const wide = "12345678901234567890";
  expect(refused(stored(wide).replace("[]", "1"))).toThrow(
    `must be a string, current value is ${wide}`,
  );
  expect(refused(stored("null"))).toThrow("parent_hash must be an unsigned 64-bit integer");
  expect(refused(`{"event_id":${wide},"data":{}}`)).toThrow(`current value is ${wide}`);
  expect(refused(`{"event_id":1,"data":${wide}}`)).toThrow("data must be an object");
  expect(refused(`{"event_id":1,"data":[0${wide}]}`)).toThrow("they must be JSON");
  for (const value of [`-${wide}`, `${wide}1`, `"${wide}"`, "1234567890123456.5", "1e30"]) {
    const removal = `{"event_id":1,"data":{"type":"removed","block_hashes":[${value}]}}`;
    expect(refused(removal), value).toThrow("block_hashes must be an unsigned 64-bit integer");
  }
});

test("extra ids are told per token, and read back where one is not 0", () => {
  const blocks = [storedBlock(1n, { extraIds: [0, 7, 0, 0] }), storedBlock(2n)];
  const event: KvEvent = { type: "stored", parentHash: null, blocks };
  expect(json(event)).toContain('{"type":"unique_token","token_id":2,"token_extra_id":7}');
  expect(parseKvEvent(json(event))).toEqual({ id: 1, event });
});

test("cleared is written as the removal of everything", () => {
  expect(parseKvEvent(json({ type: "cleared", hashes: [1n, largest] }))).toEqual({
    id: 1,
    event: removed(1n, largest),
  });
});

test("random histories survive the way there and back, snapshots included", () => {
  const events: NumberedKvEvent[] = [];
  const history = new RandomHistory(7, (event) => events.push({ id: events.length, event }));
  for (let step = 0; step < 300; step++) history.step();
  expect(parseKvEvents(kvEventsJson(events, [4096]))).toEqual(
    events.map(({ id, event }) => ({
      id,
      event: event.type === "cleared" ? { ...event, type: "removed" } : event,
    })),
  );
  const snapshot = history.snapshot(events.length);
  const half = Math.floor(snapshot.blocks.length / 2);
  const parts = [
    parseKvSnapshot(kvSnapshotJson(snapshot, 0, half)),
    parseKvSnapshot(kvSnapshotJson(snapshot, half)),
  ];
  expect(parts.flatMap(({ blocks }) => blocks)).toEqual(snapshot.blocks);
  expect(parts.map(({ first, last }) => [first, last])).toEqual([
    [true, false],
    [false, true],
  ]);
});

test("unknown fields and events are passed over", () => {
  const text =
    '[{"event_id":4,"data":{"type":"pinned"}},{"event_id":5,"more":1,"data":{"type":"removed","block_hashes":[1],"layer_group_id":0},"hash_algo":"v1"}]';
  expect(parseKvEvents(text)).toEqual([{ id: 5, event: removed(1n) }]);
});

test.each([
  ["[", "must be JSON"],
  ["{}", "events must be a list"],
  ['[{"data":{}}]', "event_id must be a whole number, current value is undefined"],
  ['[{"event_id":1}]', "data must be an object"],
  ['[{"event_id":1,"data":{"type":"removed","block_hashes":[-1]}}]', "unsigned 64-bit"],
  ['[{"event_id":1,"data":{"type":"removed","block_hashes":[1e30]}}]', "unsigned 64-bit"],
  ['[{"event_id":1,"data":{"type":"removed","block_hashes":[18446744073709551616]}}]', "64-bit"],
  [
    '[{"event_id":1,"data":{"type":"updated","block_hash":1,"cache_level":{"new_value":7}}}]',
    "0, 1",
  ],
  ['[{"event_id":1,"data":{"type":"stored","blocks":[]}}]', "parent_hash must be"],
])("what is no event is refused by name: %s", (text, message) => {
  expect(() => parseKvEvents(text)).toThrow(message);
});
