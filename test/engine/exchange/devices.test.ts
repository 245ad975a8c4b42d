/** Blocks that come from another engine's device, and what happens where that cannot be. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { BlockAnswer, BlockAsk } from "../../../src/engine/exchange/block-ask.ts";
import type { PortOffer } from "../../../src/engine/exchange/peer-port.ts";
import type { Completion, LLM } from "../../../src/index.ts";
import {
  alone,
  expectNothingHeld,
  GREEDY,
  identityOf,
  ids,
  load,
  PlayedPeer,
  sourceOf,
} from "./peers.ts";

let decode: LLM;
let prefill: LLM;
let warnings: readonly string[] = [];
let expected: (readonly Completion[] | undefined)[];
let seeds = 0;

const PROMPT_BLOCKS = 12;
const prompts = Array.from({ length: 12 }, (_, seed) => ids(seed, 200));

beforeAll(async () => {
  const loaded = await load({ kvCache: { poolBytes: 8 * 2 ** 20 } });
  decode = loaded.llm;
  prefill = (await load()).llm;
  warnings = loaded.warnings;
  expected = await alone(prompts);
});

afterAll(async () => {
  await decode.close();
  await prefill.close();
});

test("blocks come to the device, and pass no host memory on either side", async () => {
  const [giver, taker] = [await load(), await load()];
  const [found] = await taker.llm.generate([{ promptTokenIds: ids(300, 200) }], {
    ...{ ...GREEDY, kvSource: sourceOf(giver.llm) },
  });
  expect(found?.cachedTokens).toBe(0);
  expect(taker.llm.stats().computedPromptTokens).toBe(1);
  for (const { llm } of [giver, taker]) {
    await expectNothingHeld(llm);
    const [device, host] = llm.stats().cache?.levels ?? [];
    expect([device?.offloaded, host?.onboarded, host?.cached]).toEqual([0, 0, 0]);
    await llm.close();
  }
  expect([...giver.warnings, ...taker.warnings].filter((text) => /device/.test(text))).toEqual([]);
});

test("what another engine has in host memory comes through host memory, to one that would reach its device", async () => {
  const kvCache = { poolBytes: 18 * 12_288, hostCacheBytes: 2 ** 20 };
  const { llm: giver } = await load({ kvCache });
  const [prompt = [], other = []] = [ids(400, 200), ids(401, 250)];
  for (const promptTokenIds of [prompt, other]) {
    await giver.generate([{ promptTokenIds }], { ...GREEDY, maxTokens: 1 });
  }
  const before = decode.stats().computedPromptTokens;
  const [found] = await decode.generate([{ promptTokenIds: prompt }], {
    ...{ ...GREEDY, kvSource: sourceOf(giver, false) },
  });
  // The partly filled end is in host memory, too.
  expect(decode.stats().computedPromptTokens - before).toBe(1);
  expect(found?.cachedTokens).toBe(199);
  await expectNothingHeld(decode);
  await expectNothingHeld(giver);
  await giver.close();
});

/** A peer whose first answer is of its device; `make` says what it gives of that. */
async function lyingDevice(make: (offer: PortOffer, peer: PlayedPeer, ask: BlockAsk) => void) {
  const seed = seeds++;
  await using peer = await PlayedPeer.open(async (ask, own): Promise<BlockAnswer> => {
    if (ask.sharingScope === null) return { error: "that was all" };
    const offer = own.port.offer({
      ...{ pieces: PROMPT_BLOCKS, pieceBytesMax: ask.bytesPerBlock, deadlineMs: ask.deadlineMs },
    });
    make(offer, own, ask);
    return {
      ...{ offer: offer.id, level: "device", port: own.port.dataPort },
      ...{ blocks: PROMPT_BLOCKS, storedBlocks: 0 },
    };
  });
  const [found] = await decode.generate([{ promptTokenIds: prompts[seed] ?? [] }], {
    ...{ ...GREEDY, kvSource: { ...peer.source, deadlineMs: 2000 } },
  });
  expect(found?.completions).toEqual(expected[seed]);
  expect(found?.cachedTokens).toBe(0);
  await expectNothingHeld(decode);
  return { asked: peer.asked, peer };
}

describe("an engine that lies about its device", () => {
  const all = (offer: PortOffer, description: string, bytes: number, peer: PlayedPeer) => {
    const memory = peer.port.place(description, bytes);
    for (let piece = 0; piece < PROMPT_BLOCKS; piece++) {
      offer.ready(piece, [{ memory, offset: 0, bytes: 12_288 }], () => {});
    }
  };
  test.each([
    ["no JSON", "{", 12_288],
    ["another kind of blocks", '["a","b"]', 12_288],
    ["a pool that is not there", '["4f0f6a4e-0000-4000-8000-000000000000"]', 12_288],
    ["no text", "[7]", 12_288],
  ])("costs time and no token, and is asked again for host memory: %s", async (_, text, bytes) => {
    const { asked } = await lyingDevice((offer, peer) => all(offer, text, bytes, peer));
    expect(asked.map(({ sharingScope }) => sharingScope === null)).toEqual([false, true]);
    expect(warnings.join("\n")).toContain("Cannot copy keys and values from another engine's");
  });

  test("gives bytes of this process where its device's were asked for", async () => {
    await lyingDevice((offer, _peer, ask) => {
      for (let piece = 0; piece < PROMPT_BLOCKS; piece++) {
        offer.ready(piece, [new Uint8Array(ask.bytesPerBlock)], () => {});
      }
    });
  });

  test("is asked for host memory alone for a while", async () => {
    const seed = seeds++;
    let fails = true;
    await using peer = await PlayedPeer.open(async (ask): Promise<BlockAnswer> => {
      if (ask.sharingScope === null) return { error: "no" };
      const offer = peer.port.offer({
        ...{ pieces: PROMPT_BLOCKS, pieceBytesMax: ask.bytesPerBlock, deadlineMs: 1000 },
      });
      if (fails) offer.fail("its device is away");
      return {
        ...{ offer: offer.id, level: "device", port: peer.port.dataPort },
        ...{ blocks: PROMPT_BLOCKS, storedBlocks: 0 },
      };
    });
    for (let round = 0; round < 2; round++) {
      const tail = [...(prompts[seed] ?? []).slice(0, 100), ...ids(600 + round, 50)];
      await decode.generate([{ promptTokenIds: tail }], { ...GREEDY, kvSource: peer.source });
      fails = false;
    }
    const scopes = peer.asked.map(({ sharingScope }) => sharingScope === null);
    expect(scopes).toEqual([false, true, true]);
    await expectNothingHeld(decode);
  });

  test("offers its device though host memory was asked for: what it has is computed", async () => {
    const { llm } = await load({ kvTransfer: { path: "host" } });
    const seed = seeds++;
    await using peer = await PlayedPeer.open(async (ask): Promise<BlockAnswer> => {
      const offer = peer.port.offer({ pieces: 1, pieceBytesMax: 1, deadlineMs: 1000 });
      expect(ask.sharingScope).toBeNull();
      return {
        ...{ offer: offer.id, level: "device", port: peer.port.dataPort },
        ...{ blocks: PROMPT_BLOCKS, storedBlocks: 0 },
      };
    });
    const [found] = await llm.generate([{ promptTokenIds: prompts[seed] ?? [] }], {
      ...{ ...GREEDY, kvSource: peer.source },
    });
    expect(found?.completions).toEqual(expected[seed]);
    await llm.close();
  });
});

test("a question with another scope gets host memory, and the same scope the device", async () => {
  await using peer = await PlayedPeer.open(() => new Uint8Array(1));
  const ask = (sharingScope: string | null): BlockAsk => ({
    ...{ ...identityOf(prefill), cacheSalt: null, from: 0, blocks: PROMPT_BLOCKS, compute: true },
    ...{ priority: 0, deadlineMs: 300, tokens: Int32Array.from(ids(700, 200)), sharingScope },
  });
  expect(await peer.ask(prefill, ask("cuda elsewhere"))).toMatchObject({ level: "host" });
  expect(await peer.ask(prefill, ask(null))).toMatchObject({ level: "host" });
  await expectNothingHeld(prefill);
});
