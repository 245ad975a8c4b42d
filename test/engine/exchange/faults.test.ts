/** A peer that refuses, lies, stalls or breaks off costs time, and never a token. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { BlockAnswer, BlockAsk } from "../../../src/engine/exchange/block-ask.ts";
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
/** Of each seed's prompt: what an engine without others answers. */
let expected: (readonly Completion[] | undefined)[];
let seeds = 0;

const PROMPT_TOKENS = 200;
const PROMPT_BLOCKS = 12;
const SEEDS = 24;
const prompts = Array.from({ length: SEEDS }, (_, seed) => ids(seed, PROMPT_TOKENS));

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

type Answer = Parameters<typeof PlayedPeer.open>[0];

/** A prompt with this peer as its source gets the tokens that it gets alone. */
async function goesOn(answer: Answer, { deadlineMs = 3000 } = {}): Promise<PlayedPeer> {
  const seed = seeds++;
  const peer = await PlayedPeer.open(answer);
  const [found] = await decode.generate([{ promptTokenIds: prompts[seed] ?? [] }], {
    ...GREEDY,
    kvSource: { ...peer.source, deadlineMs },
  });
  expect(found?.completions).toEqual(expected[seed]);
  expect(found?.cachedTokens).toBe(0);
  await expectNothingHeld(decode);
  await peer.port.close();
  return peer;
}

/** The blocks that were asked for, of an engine that computes them. */
async function rightBlocks(ask: BlockAsk, peer: PlayedPeer): Promise<Uint8Array[]> {
  const asked = { ...ask, sharingScope: null };
  return await peer.read(prefill, asked, await peer.ask(prefill, asked));
}

/** An offer of these blocks, which the test makes ready. */
function offered(peer: PlayedPeer, ask: BlockAsk, blocks: number) {
  const offer = peer.port.offer({
    ...{ pieces: blocks, pieceBytesMax: ask.bytesPerBlock, deadlineMs: ask.deadlineMs },
  });
  const answer: BlockAnswer = {
    ...{ offer: offer.id, level: "host", port: peer.port.dataPort, blocks, storedBlocks: 0 },
  };
  return { offer, answer };
}

const EMPTY = { level: "host", port: 0, blocks: 0, storedBlocks: 0 } as const;
const garbage = (bytes: number) => Uint8Array.from({ length: bytes }, (_, place) => place * 7);

describe("a peer that", () => {
  test.for<[string, Answer]>([
    ["refuses", async () => ({ error: "its fingerprint must be another" })],
    ["answers garbage", () => garbage(500)],
    ["answers nothing", () => new Uint8Array(0)],
    ["answers too much", () => garbage(100_000)],
    ["has nothing", async () => ({ ...EMPTY, offer: null })],
    [
      "names an offer that is none",
      async () => ({
        ...{ ...EMPTY, offer: "0".repeat(32), port: 1, blocks: PROMPT_BLOCKS },
      }),
    ],
    [
      "says that it has more than was asked for, and gives none",
      async (ask, peer) => {
        const { answer, offer } = offered(peer, ask, PROMPT_BLOCKS);
        offer.fail("no");
        return { ...answer, blocks: 10_000, storedBlocks: 10_000 };
      },
    ],
    [
      "fails before the first block",
      async (ask, peer) => {
        const { answer, offer } = offered(peer, ask, PROMPT_BLOCKS);
        setTimeout(() => offer.fail("its model broke"), 20);
        return answer;
      },
    ],
    [
      "closes its port while it is read",
      async (ask, peer) => {
        const { answer } = offered(peer, ask, PROMPT_BLOCKS);
        setTimeout(() => void peer.port.close(), 20);
        return answer;
      },
    ],
    [
      "sends blocks of another size",
      async (ask, peer) => {
        const { answer, offer } = offered(peer, ask, PROMPT_BLOCKS);
        offer.ready(0, [garbage(ask.bytesPerBlock - 1)], () => {});
        return answer;
      },
    ],
  ])("[KV51] %s is not needed", async ([, answer]) => {
    await goesOn(answer);
  });

  test("[KV51] offers and never sends is waited for until the deadline", async () => {
    const start = performance.now();
    await goesOn(async (ask, peer) => offered(peer, ask, PROMPT_BLOCKS).answer, {
      deadlineMs: 300,
    });
    expect(performance.now() - start).toBeLessThan(3000);
    expect(warnings.some((text) => text.includes("they are computed here"))).toBe(true);
  });

  test("[KV51] does not answer is waited for until the deadline", async () => {
    await goesOn(() => new Promise(() => {}), { deadlineMs: 200 });
  });

  test.for([0, 1, 5, 11])("[KV51] breaks off behind %i blocks: they are used", async (count) => {
    const before = decode.stats().computedPromptTokens;
    await goesOn(async (ask, peer) => {
      const blocks = await rightBlocks(ask, peer);
      const { answer, offer } = offered(peer, ask, PROMPT_BLOCKS);
      let sent = 0;
      const onSent = () => ++sent === count && offer.fail("that was all");
      for (const [piece, bytes] of blocks.slice(0, count).entries()) {
        offer.ready(piece, [bytes], onSent);
      }
      if (count === 0) offer.fail("nothing");
      return answer;
    });
    const computed = decode.stats().computedPromptTokens - before;
    // The last block may be cut off as it is sent; one token shows that nothing is held.
    const most = PROMPT_TOKENS - 16 * Math.max(0, count - 1);
    expect(computed).toBeLessThanOrEqual(most + 10);
  });

  test("[KV50] answers fewer blocks than there are: those are used", async () => {
    const before = decode.stats().computedPromptTokens;
    await goesOn(async (ask, peer) => {
      const blocks = await rightBlocks(ask, peer);
      const { answer, offer } = offered(peer, ask, 3);
      for (const piece of [2, 0, 1])
        offer.ready(piece, [blocks[piece] ?? new Uint8Array(0)], () => {});
      return answer;
    });
    expect(decode.stats().computedPromptTokens - before).toBeLessThan(PROMPT_TOKENS - 3 * 16 + 10);
  });

  test.for(["asked", "read", "read in part"])(
    "[KV51] is %s while the request is aborted",
    async (when) => {
      const seed = seeds++;
      const stop = new AbortController();
      let reached = () => {};
      const arrived = new Promise<void>((resolve) => {
        reached = resolve;
      });
      await using peer = await PlayedPeer.open(async (ask, played) => {
        if (when === "asked") {
          reached();
          return await new Promise(() => {});
        }
        const blocks = when === "read" ? [] : (await rightBlocks(ask, played)).slice(0, 4);
        const { answer, offer } = offered(played, ask, PROMPT_BLOCKS);
        for (const [piece, bytes] of blocks.entries()) offer.ready(piece, [bytes], reached);
        if (when === "read") setTimeout(reached, 50);
        return answer;
      });
      const running = decode.generate([{ promptTokenIds: prompts[seed] ?? [] }], {
        ...{ ...GREEDY, kvSource: peer.source, signal: stop.signal },
      });
      const ended = expect(running).rejects.toThrow();
      await arrived;
      stop.abort();
      await ended;
      await expectNothingHeld(decode);
      // What came before, if anything, is right.
      const [found] = await decode.generate([{ promptTokenIds: prompts[seed] ?? [] }], GREEDY);
      expect(found?.completions).toEqual(expected[seed]);
    },
  );
});

describe("an engine that is closed", () => {
  test("while blocks come to it ends its requests, and its memory is free", async () => {
    const { llm } = await load();
    await using peer = await PlayedPeer.open(
      async (ask, played) => offered(played, ask, PROMPT_BLOCKS).answer,
    );
    const running = llm.generate([{ promptTokenIds: prompts[0] ?? [] }], {
      ...{ ...GREEDY, kvSource: peer.source },
    });
    const ended = expect(running).rejects.toThrow();
    await expect.poll(() => peer.asked.length).toBe(1);
    await llm.close();
    await ended;
  });

  test("while it sends is not waited for", async () => {
    const { llm: giver } = await load();
    const seed = seeds++;
    const running = decode.generate([{ promptTokenIds: prompts[seed] ?? [] }], {
      ...{ ...GREEDY, kvSource: sourceOf(giver) },
    });
    await giver.close();
    const [found] = await running;
    expect(found?.completions).toEqual(expected[seed]);
    await expectNothingHeld(decode);
  });
});

describe("a question to an engine", () => {
  const ask = (own: Partial<BlockAsk> = {}): BlockAsk => ({
    ...{ ...identityOf(prefill), cacheSalt: null, from: 0, blocks: PROMPT_BLOCKS, compute: true },
    ...{ priority: 0, deadlineMs: 2000, tokens: Int32Array.from(ids(700, PROMPT_TOKENS)), ...own },
  });

  test.for<[string, Partial<BlockAsk>, string]>([
    ["of another model", { fingerprint: "f".repeat(32) }, "its fingerprint must be"],
    ["of other blocks", { blockTokens: 32 }, "its blockTokens must be 16"],
    ["of another format", { bytesPerBlock: 3072 }, "its bytesPerBlock must be 12288"],
    ["with tokens of another vocabulary", { tokens: Int32Array.of(400, 1) }, "400"],
    ["of a prompt that is too long", { tokens: new Int32Array(300) }, "1 to 256 token ids"],
  ])("%s is refused, with the remedy", async ([, own, why]) => {
    await using peer = await PlayedPeer.open(() => new Uint8Array(1));
    expect(await peer.ask(prefill, ask(own))).toEqual({ error: expect.stringContaining(why) });
    await expectNothingHeld(prefill);
  });

  test("whose answer is not read holds nothing once its deadline has passed", async () => {
    await using peer = await PlayedPeer.open(() => new Uint8Array(1));
    const answer = await peer.ask(prefill, ask({ deadlineMs: 200 }));
    expect(answer).toMatchObject({ blocks: PROMPT_BLOCKS });
    await expectNothingHeld(prefill);
  });
});
