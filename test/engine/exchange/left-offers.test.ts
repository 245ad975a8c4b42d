/** What a request leaves at the engine that it fetches from, and what it is told of its prompt. */
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test, vi } from "vitest";
import { encodeCount } from "../../../src/engine/exchange/block-ask.ts";
import type { PeerPort, PortOffer } from "../../../src/engine/exchange/peer-port.ts";
import { PeerTraffic } from "../../../src/engine/exchange/peer-traffic.ts";
import { ServiceClients } from "../../../src/engine/thread/service-clients.ts";
import { expectNothingHeld, GREEDY, identityOf, ids, load, PlayedPeer, sourceOf } from "./peers.ts";

const PROMPT = { promptTokenIds: ids(1, 160) };

test("[KV73] a request that ends while its blocks are asked for leaves them", async () => {
  let offer: PortOffer | undefined;
  await using peer = await PlayedPeer.open(async (ask, own) => {
    await sleep(200);
    const shape = { pieces: ask.blocks, pieceBytesMax: ask.bytesPerBlock, deadlineMs: 60_000 };
    offer = own.port.offer(shape);
    return {
      ...{ offer: offer.id, level: "host", port: own.port.dataPort },
      ...{ blocks: ask.blocks, storedBlocks: 0 },
    };
  });
  const { llm: decode } = await load();
  await using _decode = decode;
  const stop = new AbortController();
  const options = { ...GREEDY, kvSource: peer.source, signal: stop.signal };
  const running = expect(decode.generate([PROMPT], options)).rejects.toThrow();
  await expect.poll(() => peer.asked.length).toBe(1);
  stop.abort();
  await running;
  await expect.poll(() => offer !== undefined).toBe(true);
  expect(await offer?.ended).toMatchObject({ outcome: "abandoned" });
  await expectNothingHeld(decode);
});

test.each([true, false])(
  "[TR91] an engine that ends before it reads leaves nothing held where it asked: computed %s",
  async (compute) => {
    const { llm: prefill } = await load();
    await using _prefill = prefill;
    if (!compute) await prefill.generate([PROMPT], GREEDY);
    const peer = await PlayedPeer.open(() => Buffer.alloc(0));
    const tokens = Int32Array.from(PROMPT.promptTokenIds);
    const { blockTokens, ...identity } = identityOf(prefill);
    const answer = await peer.ask(prefill, {
      ...{ ...identity, blockTokens, cacheSalt: null, tokens, from: 0, blocks: 8 },
      ...{ compute, priority: 0, deadlineMs: 600_000 },
    });
    expect(answer).toMatchObject({ offer: expect.any(String), blocks: 8 });
    await peer.port.close();
    const begunMs = performance.now();
    await expectNothingHeld(prefill);
    expect(performance.now() - begunMs).toBeLessThan(9000);
  },
  15_000,
);

test("[KV80] what a step computed for another engine goes before the step's results", async () => {
  const order: string[] = [];
  const send = vi.spyOn(PeerTraffic.prototype, "send").mockImplementation(async () => {
    order.push("sent");
    return false;
  });
  const tell = vi.spyOn(ServiceClients.prototype, "postStep").mockImplementation(() => {
    order.push("told");
  });
  try {
    const { llm: prefill } = await load();
    await using _prefill = prefill;
    await using peer = await PlayedPeer.open(() => Buffer.alloc(0));
    const tokens = Int32Array.from(PROMPT.promptTokenIds);
    await peer.ask(prefill, {
      ...{ ...identityOf(prefill), cacheSalt: null, tokens, from: 0, blocks: 8 },
      ...{ compute: true, priority: 0, deadlineMs: 600_000 },
    });
    await expect.poll(() => order).toContain("told");
    expect(order[0]).toBe("sent");
  } finally {
    send.mockRestore();
    tell.mockRestore();
  }
});

test("[KV73] blocks that are offered before there is a place for them are left, and only then", () => {
  const left: string[] = [];
  const read = ({ offer, pieces }: { offer: string; pieces: readonly unknown[] }) => {
    if (pieces.length === 0) left.push(offer);
    return new Promise<void>(() => {});
  };
  const traffic = new PeerTraffic({ read } as unknown as PeerPort);
  const parts = [{ offer: "b", port: 2, bytes: 5 }];
  const source = { peer: { host: "h", port: 1 }, offer: "a", pieces: 1, deadlineMs: 1000, parts };
  traffic.startIncoming(1, 1);
  traffic.stopIncoming(1);
  expect(left).toEqual([]);
  traffic.startIncoming(2, 1);
  traffic.readFrom(2, { ...source, isStored: false, onFailure: () => {} });
  traffic.stopIncoming(2);
  traffic.endIncoming(2);
  expect(left).toEqual(["a", "b"]);
});

const ALL = 159;

test.each([
  ["says how many", async () => encodeCount(64), 64],
  ["says more than there are", async () => encodeCount(1e9), ALL],
  ["says less than it had stored", async () => encodeCount(3), 32],
  ["does not know", async () => encodeCount(null), 32],
  ["says nonsense", async () => Buffer.from('{"cachedTokens":-1}'), 32],
  ["says what is no JSON", async () => Buffer.from("{"), 32],
  ["is older and refuses the question", () => Promise.reject(new Error("too short")), 32],
  ["says nothing", () => new Promise<Uint8Array>(() => {}), 32],
] as const)("[KV72] an engine that %s", async (_, count, cached) => {
  await using peer = await PlayedPeer.open(async (ask, own) => {
    const shape = { pieces: ask.blocks, pieceBytesMax: ask.bytesPerBlock, deadlineMs: 60_000 };
    const offer = own.port.offer(shape);
    for (let piece = 0; piece < ask.blocks; piece++) {
      offer.ready(piece, [new Uint8Array(ask.bytesPerBlock)], () => {});
    }
    return {
      ...{ offer: offer.id, level: "host", port: own.port.dataPort },
      ...{ blocks: ask.blocks, storedBlocks: 32 / ask.blockTokens },
    };
  }, count);
  const { llm: decode } = await load();
  await using _decode = decode;
  const [found] = await decode.generate([PROMPT], { ...GREEDY, kvSource: peer.source });
  expect(found?.cachedTokens).toBe(cached);
  await expectNothingHeld(decode);
});

test("[KV81] the count is asked for before any block has come", async () => {
  let asked = () => {};
  const counted = new Promise<void>((resolve) => {
    asked = resolve;
  });
  const count = async () => {
    asked();
    return encodeCount(64);
  };
  await using peer = await PlayedPeer.open(async (ask, own) => {
    const shape = { pieces: ask.blocks, pieceBytesMax: ask.bytesPerBlock, deadlineMs: 60_000 };
    const offer = own.port.offer(shape);
    // Nothing comes before the question.
    void counted.then(() => {
      for (let piece = 0; piece < ask.blocks; piece++) {
        offer.ready(piece, [new Uint8Array(ask.bytesPerBlock)], () => {});
      }
    });
    return {
      ...{ offer: offer.id, level: "host", port: own.port.dataPort },
      ...{ blocks: ask.blocks, storedBlocks: 0 },
    };
  }, count);
  const { llm: decode } = await load();
  await using _decode = decode;
  const [found] = await decode.generate([PROMPT], { ...GREEDY, kvSource: peer.source });
  expect(found?.cachedTokens).toBe(64);
  await expectNothingHeld(decode);
});

test("[KV72] what another request made while this one waited was cached for it", async () => {
  const { llm: prefill } = await load();
  const { llm: decode } = await load();
  await using _prefill = prefill;
  await using _decode = decode;
  const beginning = ids(3, 200);
  const options = { ...GREEDY, kvSource: sourceOf(prefill) };
  // The second is asked for before the first has computed anything, and begins behind it.
  await prefill.generate([{ promptTokenIds: [5] }], GREEDY);
  const both = [beginning, [...beginning, ...ids(4, 40)]];
  const found = await Promise.all(
    both.map((promptTokenIds) => decode.generate([{ promptTokenIds }], options)),
  );
  const computed = prefill.stats().computedPromptTokens + decode.stats().computedPromptTokens;
  const cached = found.reduce((sum, [one]) => sum + (one?.cachedTokens ?? 0), 0);
  expect(cached).toBe(200 + 240 + 1 - computed);
});
