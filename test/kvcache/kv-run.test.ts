/** Packed runs: what a reader makes of them is what the event in full says. */
import { describe, expect, test } from "vitest";
import { kvRunJson, type NumberedKvEvent, parseKvRun } from "#kvcache";
import { changesOfEvent, changesOfRun } from "../../src/cluster/feeds/perigee-changes.ts";
import { removed, stored, storedBlock } from "../support/kv-events.ts";

const SCOPE = { model: "m", blockTokens: 4 };
const HIGH = 2n ** 64n - 3n;

const written = (numbered: NumberedKvEvent) => parseKvRun(kvRunJson(numbered) ?? "");

describe("[CL192] a run of alike blocks says packed what its event says", () => {
  const alike = { loraId: 7, cacheSalt: 'sa"lt 日本', level: 1 } as const;
  const tail = storedBlock(9n, { tokenIds: [5] });
  test.each<[string, Omit<NumberedKvEvent, "id">]>([
    ["at the root", { event: stored(null, 1n, HIGH) }],
    ["below a parent", { event: stored(HIGH - 1n, 3n) }],
    ["of another group", { event: stored(HIGH - 1n, 3n, 4n), group: 2 }],
    [
      "with adapter, salt and level",
      { event: { type: "stored", parentHash: null, blocks: [storedBlock(1n, alike)] } },
    ],
    ["that is not full", { event: { type: "stored", parentHash: 1n, blocks: [tail] } }],
  ])("%s", (_name, given) => {
    const numbered = { id: 12, ...given };
    const packed = written(numbered);
    expect(packed?.id).toBe(12);
    if (packed === null) throw new Error("It is packed");
    expect(changesOfRun(SCOPE, packed.run)).toEqual(changesOfEvent(SCOPE, numbered));
  });
});

test("[CL192] what is no such run is written in full", () => {
  const mark = { hash: "ab", startOffset: 0 };
  const others = [
    storedBlock(2n, { tokenIds: [1] }),
    storedBlock(2n, { level: 2 }),
    storedBlock(2n, { cacheSalt: "s" }),
    storedBlock(2n, { loraId: 1 }),
    storedBlock(2n, { extraIds: [0, 0, 0, 1] }),
    storedBlock(2n, { multimodalKeys: [mark] }),
  ];
  for (const other of others) {
    const blocks = [storedBlock(1n), other];
    expect(kvRunJson({ id: 1, event: { type: "stored", parentHash: null, blocks } })).toBeNull();
  }
  expect(kvRunJson({ id: 1, event: removed(1n) })).toBeNull();
  expect(kvRunJson({ id: 1, event: stored(null) })).toBeNull();
  expect(parseKvRun('{"event_id":1,"data":{"type":"created"}}')).toBeNull();
});

test("[CL192] a run of blocks that are too long is refused, as its event is", () => {
  const event = stored(null, 1n);
  const run = written({ id: 1, event })?.run;
  if (run === undefined) throw new Error("It is packed");
  const scope = { ...SCOPE, blockTokens: 3 };
  const message = "blocks must have 3 tokens, as the worker says, current value is 4";
  expect(() => changesOfRun(scope, run)).toThrow(message);
});

describe("[CL192] a run that is malformed is refused with what is wrong", () => {
  const right = {
    ...{ group: 0, cache_level: 0, lora_id: null, cache_salt: null, parent: null },
    ...{ hashes: "AQAAAAAAAAA=", token_ids: "AQAAAAIAAAADAAAABAAAAA==" },
  };
  test("the right one is read", () => {
    const run = { run: right, event_id: 1 };
    expect([...(parseKvRun(JSON.stringify(run))?.run.tokens ?? [])]).toEqual([1, 2, 3, 4]);
  });
  test.each<[string, object]>([
    ["group", { group: -1 }],
    ["group", { group: "0" }],
    ["cache_level", { cache_level: 3 }],
    ["lora_id", { lora_id: 1.5 }],
    ["cache_salt", { cache_salt: {} }],
    ["parent", { parent: 7 }],
    ["hashes", { parent: "AQAAAA==" }],
    ["hashes", { hashes: "" }],
    ["hashes", { hashes: "AQAAAA==" }],
    ["hashes", { hashes: "AQAAAAAAAA*=" }],
    ["hashes", { hashes: "====" }],
    ["hashes", { hashes: ["AQAAAAAAAAA="] }],
    ["token_ids", { token_ids: "AQA=" }],
    ["token_ids", { token_ids: "A" }],
    ["token_ids", { token_ids: null }],
    ["token_ids", { hashes: "AQAAAAAAAAACAAAAAAAAAA==", token_ids: "AQAAAAIAAAADAAAA" }],
  ])("%s in %j", (name, wrong) => {
    const text = JSON.stringify({ run: { ...right, ...wrong }, event_id: 1 });
    expect(() => parseKvRun(text)).toThrow(`Cannot read KV events: ${name} must be`);
  });
  test.each(['{"run":', '{"run":[]}', '{"run":null}', '{"run":{}}'])("%s", (text) => {
    expect(() => parseKvRun(text)).toThrow("Cannot read KV events");
  });
  test("its number", () => {
    const text = JSON.stringify({ run: right, event_id: null });
    expect(() => parseKvRun(text)).toThrow("event_id must be a whole number");
  });
});
