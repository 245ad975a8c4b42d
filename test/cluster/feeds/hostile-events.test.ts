/** Events of strangers: nothing throws, memory is bounded by their bytes, lines are paced. */
import { createServer } from "node:http";
import { encode } from "@msgpack/msgpack";
import { afterEach, expect, test } from "vitest";
import { EngineError } from "#base";
import { BackOff } from "../../../src/cluster/feeds/back-off.ts";
import { publishedBatch, replayedBatch } from "../../../src/cluster/feeds/batch-frames.ts";
import { BatchOrder } from "../../../src/cluster/feeds/batch-order.ts";
import { packChanges, unpackChanges } from "../../../src/cluster/feeds/change-codec.ts";
import { readEngineBatch } from "../../../src/cluster/feeds/engine-events.ts";
import { isBounded } from "../../../src/cluster/feeds/msgpack-bounds.ts";
import { PacedWarnings } from "../../../src/cluster/feeds/paced-warnings.ts";
import { PerigeeFeed } from "../../../src/cluster/feeds/perigee-feed.ts";
import { changesFrom, readEntry } from "../../../src/cluster/feeds/redis-entry.ts";
import { SseMessages } from "../../../src/cluster/feeds/sse-messages.ts";
import { TrtllmReader } from "../../../src/cluster/feeds/trtllm-reader.ts";
import { ChangeMirror } from "../../support/change-mirror.ts";
import { dice, NASTY, nastyEvent } from "../../support/nasty-events.ts";
import { workerInfo } from "../../support/worker-info.ts";

const CASES = 10_000;
const SCOPE = { model: "toy", blockTokens: 4 };

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

test("[CL29] 10,000 nasty batches of engines: events are refused one by one, nothing throws", () => {
  const below = dice(1);
  const mirror = new ChangeMirror();
  let refused = 0;
  for (let round = 0; round < CASES; round++) {
    const events = Array.from({ length: 1 + below(4) }, () => nastyEvent(below));
    const bytes = encode([1.5, events, NASTY[below(3) + 1] === 0 ? 0 : null], {
      useBigInt64: true,
    });
    if (below(5) === 0) bytes[below(bytes.length)] = below(256);
    try {
      const batch = readEngineBatch(SCOPE, below(20) === 0 ? bytes.slice(0, below(40)) : bytes);
      refused += batch.refused.length;
      mirror.apply(batch.changes);
    } catch (error) {
      expect(error).toBeInstanceOf(EngineError);
      refused++;
    }
  }
  expect(refused).toBeGreaterThan(CASES / 4);
  expect(mirror.changes).toBeGreaterThan(CASES / 4);
});

test("[CL29] random bytes are no batch, no entry and no changes", () => {
  const below = dice(2);
  for (let round = 0; round < CASES; round++) {
    const bytes = Buffer.from(Array.from({ length: below(60) }, () => below(256)));
    for (const read of [
      () => readEngineBatch(SCOPE, bytes),
      () => unpackChanges(SCOPE, bytes),
      () => readEntry(bytes, [bytes, bytes, Buffer.from("changes"), bytes]),
    ]) {
      try {
        read();
      } catch (error) {
        expect(error).toBeInstanceOf(EngineError);
      }
    }
    publishedBatch([bytes, bytes.subarray(0, 8), bytes]);
    replayedBatch([bytes, bytes, bytes]);
  }
});

test("[CL29] bytes that claim lists of billions, one in the other, are not decoded", () => {
  const list = [0xdd, 0x00, 0x10, 0x00, 0x00];
  const bomb = Uint8Array.from([0x93, 0x00, ...Array.from({ length: 2000 }, () => list).flat()]);
  expect(isBounded(bomb)).toBe(false);
  expect(isBounded(Uint8Array.from([0xdd, 0xff, 0xff, 0xff, 0xff, 0x00]))).toBe(false);
  expect(isBounded(Uint8Array.from([0xdf, 0x00]))).toBe(false);
  expect(isBounded(new Uint8Array(100).fill(0x91))).toBe(false);
  expect(isBounded(encode([1.5, [["BlockStored", [2 ** 60], null, [1]]], null]))).toBe(true);
  expect(isBounded(encode({ a: [1, "b", -3, 2.5, new Uint8Array(300), "c".repeat(70_000)] }))).toBe(
    true,
  );
});

test("[CL29] 10,000 nasty answers of a polled server, and its tree is still followed", () => {
  const below = dice(3);
  const mirror = new ChangeMirror();
  const lines: string[] = [];
  const reader = new TrtllmReader(SCOPE, mirror, new PacedWarnings((line) => lines.push(line)));
  const json = (value: unknown) =>
    JSON.stringify(value, (_, each) => (typeof each === "bigint" ? Number(each) : each));
  for (let round = 0; round < CASES; round++) {
    const event: Record<string, unknown> = { event_id: round, window_size: 64 };
    event.data = {
      type: "stored",
      parent_hash: null,
      blocks: [],
      ...(below(2) === 0 && { block_hashes: [1] }),
    };
    const block = { block_hash: 5, cache_level: 0, tokens: [{ token_id: 1 }] };
    const data = event.data as Record<string, unknown>;
    data.blocks = [
      {
        ...block,
        [["block_hash", "tokens", "cache_level", "mm_keys"][below(4)] ?? ""]:
          NASTY[below(NASTY.length)],
      },
    ];
    data.type = ["stored", "removed", "updated", NASTY[below(NASTY.length)]][below(4)];
    if (below(4) === 0)
      event[["event_id", "window_size", "data"][below(3)] ?? ""] = NASTY[below(NASTY.length)];
    try {
      reader.read(below(9) === 0 ? json([event]).slice(0, below(60)) : json([event]));
    } catch (error) {
      expect(error).toBeInstanceOf(EngineError);
    }
  }
  expect(lines.length).toBeLessThan(10);
});

test("[CL29] changes in Redis come back as they were packed", () => {
  const scope = { ...SCOPE, salt: "s", lora: null, group: 2 };
  const names = Uint32Array.of(1, 2, 3, 4);
  const stored = { type: "stored", scope, level: 1, parent: null, names } as const;
  const events = [
    [{ ...stored, tokens: Uint32Array.of(1, 2, 3, 4, 5, 6, 7, 2 ** 32 - 1) }],
    [],
    [
      { type: "removed", names, level: null } as const,
      { type: "moved", names, from: 0, to: 2 } as const,
      { type: "cleared", level: 1 } as const,
    ],
  ];
  expect(unpackChanges(SCOPE, packChanges(events))).toEqual(events);
  expect(() => unpackChanges({ ...SCOPE, blockTokens: 8 }, packChanges(events))).toThrow(
    "8 per block, as the worker says",
  );
  const payload = Buffer.from(packChanges(events));
  const entry = { streamId: "s", firstId: 5, nextId: 8, payload };
  expect(changesFrom(SCOPE, entry, 7)).toHaveLength(3);
  expect(() => changesFrom(SCOPE, { ...entry, nextId: 9 }, 7)).toThrow("those of 4 events");
});

test("[CL29] a message without an end is cut off, not collected", () => {
  const messages = new SseMessages(1000);
  expect(() => {
    for (let piece = 0; piece < 100; piece++) messages.push(`data: ${"x".repeat(90)}`);
  }).toThrow("a message has at most 1000 characters");
  const whole = new SseMessages(1000);
  const text = ": hello\n\nid: 4-a\nevent: snapshot\ndata: {}\n\n";
  const taken = [...text].flatMap((character) => whole.push(character));
  expect(taken).toEqual([{ id: "4-a", event: "snapshot", data: "{}" }]);
});

test("[CL29] a server that sends nonsense without end costs a line each 10 s, and no memory", async () => {
  const server = createServer((_request, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    const send = () => {
      if (
        !response.destroyed &&
        response.write(`data: {"event_id":1,"data":[${"7,".repeat(5000)}`)
      ) {
        setImmediate(send);
      }
    };
    response.on("drain", send);
    send();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closing.push(async () => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  const port = typeof address === "object" ? address?.port : 0;
  const mirror = new ChangeMirror();
  const options = { retryMs: [1, 5], messageBytesMax: 2 ** 20 } as const;
  const feed = new PerigeeFeed(workerInfo({ url: `http://127.0.0.1:${port}` }), options);
  const before = process.memoryUsage().rss;
  feed.start(mirror);
  closing.push(() => feed.close());
  await new Promise((resolve) => setTimeout(resolve, 2000));
  expect(mirror.warnings).toHaveLength(1);
  expect(mirror.warnings[0]).toContain("a message has at most 1048576 characters");
  expect(process.memoryUsage().rss - before).toBeLessThan(200 * 2 ** 20);
});

test("[CL25] the order of batches: gaps, repeated ones, another start", () => {
  const order = new BatchOrder();
  expect(order.verdict(3n)).toEqual({ type: "gap", from: 0n });
  for (const sequence of [0n, 1n, 2n]) order.replayed(sequence);
  order.passed(3n);
  expect(order.verdict(4n)).toEqual({ type: "next" });
  expect(order.verdict(6n)).toEqual({ type: "gap", from: 4n });
  for (const sequence of [4n, 5n, 6n, 7n]) order.replayed(sequence);
  expect(order.verdict(6n)).toEqual({ type: "known" });
  order.passed(6n);
  expect(order.verdict(6n)).toEqual({ type: "restart" });
  expect(order.verdict(0n)).toEqual({ type: "restart" });
});

test("[CL23] waits double up to the longest, and begin anew after a try that went well", () => {
  const backOff = new BackOff([100, 350], () => 1);
  expect([1, 2, 3, 4].map(() => backOff.next())).toEqual([100, 200, 350, 350]);
  backOff.reset();
  expect(backOff.next()).toBe(100);
});

test("[CL29] lines of one kind are counted between two that are said", () => {
  let nowMs = 0;
  const lines: string[] = [];
  const warnings = new PacedWarnings(
    (line) => lines.push(line),
    () => nowMs,
  );
  for (let count = 0; count < 5; count++) warnings.warn("event", "bad");
  warnings.warn("frames", "odd");
  nowMs = 10_000;
  warnings.warn("event", "bad");
  warnings.forget("event");
  warnings.warn("event", "bad");
  expect(lines).toEqual(["bad", "odd", "bad (4 more before)", "bad"]);
});
