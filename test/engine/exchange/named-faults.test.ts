/** Faults that are known of other engines which give keys and values to each other. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import type { BlockAnswer } from "../../../src/engine/exchange/block-ask.ts";
import type { LLM, LoadOptions } from "../../../src/index.ts";
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

const BLOCK_BYTES = 12_288;
const PROMPT_TOKENS = 200;
const PROMPT_BLOCKS = 12;
/** With the one that the prompt fills in part. */
const PROMPT_BLOCKS_ALL = 13;
const prompts = Array.from({ length: 8 }, (_, seed) => ({
  promptTokenIds: ids(seed, PROMPT_TOKENS),
}));
const expected = await alone(prompts.map(({ promptTokenIds }) => promptTokenIds));
const promptOf = (seed: number) => prompts[seed] ?? { promptTokenIds: [] };
const fetched = (llm: LLM) => llm.stats().cache?.peers.received ?? 0;

test("[TR64] a giver that restarts ends no taker, and its successor gives again", async () => {
  await using decode = (await load()).llm;
  const first = (await load()).llm;
  const source = sourceOf(first);
  const kvTransfer = { port: source.port };
  const running = decode.generate([promptOf(0)], { ...GREEDY, kvSource: source });
  await first.close();
  expect((await running)[0]?.completions).toEqual(expected[0]);
  for (const seed of [1, 2]) {
    await using successor = (await load({ kvTransfer })).llm;
    const before = fetched(decode);
    const [found] = await decode.generate([promptOf(seed)], { ...GREEDY, kvSource: source });
    expect(found?.completions).toEqual(expected[seed]);
    expect(fetched(decode) - before).toBe(PROMPT_BLOCKS_ALL);
    await expectNothingHeld(successor);
  }
  await expectNothingHeld(decode);
});

describe("[TR65] a resident block is a hit:", () => {
  test("what the taker has is not asked for", async () => {
    await using decode = (await load()).llm;
    await using peer = await PlayedPeer.open(() => new Uint8Array(1));
    await decode.generate([promptOf(0)], GREEDY);
    const [found] = await decode.generate([promptOf(0)], { ...GREEDY, kvSource: peer.source });
    expect(found?.completions).toEqual(expected[0]);
    expect(found?.cachedTokens).toBe(PROMPT_TOKENS - 1);
    expect(peer.asked).toEqual([]);
  });

  test("what the giver has is told as stored, wherever it lies", async () => {
    await using prefill = (await load()).llm;
    await using peer = await PlayedPeer.open(() => new Uint8Array(1));
    await prefill.generate([promptOf(0)], GREEDY);
    for (let times = 0; times < 2; times++) {
      const ask = {
        ...{ ...identityOf(prefill), cacheSalt: null, from: 0, blocks: PROMPT_BLOCKS },
        ...{ compute: false, priority: 0, deadlineMs: 2000 },
        tokens: Int32Array.from(promptOf(0).promptTokenIds),
      };
      const answer = await peer.ask(prefill, ask);
      expect(answer).toMatchObject({ blocks: PROMPT_BLOCKS, storedBlocks: PROMPT_BLOCKS });
      expect(await peer.read(prefill, ask, answer)).toHaveLength(PROMPT_BLOCKS);
    }
    await expectNothingHeld(prefill);
  });
});

describe("[TR66] what lies on the disk comes as it was written:", () => {
  /** Room for hardly two prompts, and a disk for all of them, if any. */
  const options = (hasDisk: boolean): LoadOptions => {
    const diskCacheDir = mkdtempSync(join(tmpdir(), "perigee-named-faults-"));
    onTestFinished(() => rmSync(diskCacheDir, { recursive: true, force: true }));
    return {
      kvCache: {
        ...{ poolBytes: 30 * BLOCK_BYTES, hostCacheBytes: 30 * BLOCK_BYTES },
        ...(hasDisk && { diskCacheBytes: 400 * BLOCK_BYTES, diskCacheDir, onboard: "always" }),
      },
    };
  };

  test.for(["giver", "taker", "both"])("at the %s", async (who) => {
    await using prefill = (await load(options(who !== "taker"))).llm;
    await using decode = (await load(options(who !== "giver"))).llm;
    const used = (llm: LLM) => llm.stats().cache?.moves.diskRead.blocks ?? 0;
    // When a block reaches the disk depends on time: further rounds, until some were read there.
    const isUsed = () => used(prefill) + used(decode) > 0;
    for (let round = 0; round < 3 || (round < 12 && !isUsed()); round++) {
      const source = round < 3 ? { kvSource: sourceOf(prefill) } : {};
      for (const [seed, prompt] of prompts.entries()) {
        const [found] = await decode.generate([prompt], { ...GREEDY, ...source });
        expect(found?.completions).toEqual(expected[seed]);
      }
    }
    for (const llm of [prefill, decode]) await expectNothingHeld(llm);
    expect(used(prefill) + used(decode)).toBeGreaterThan(0);
    expect(fetched(decode)).toBeGreaterThan(0);
  });
});

describe("[TR67] two requests that are told one offer:", () => {
  test("one has the blocks, the other computes them, and both are right", async () => {
    await using decode = (await load()).llm;
    await using prefill = (await load()).llm;
    let isRead = () => {};
    const read = new Promise<void>((resolve) => {
      isRead = resolve;
    });
    let told: BlockAnswer | null = null;
    await using peer = await PlayedPeer.open(async (ask, played) => {
      if (told !== null) {
        await read;
        return told;
      }
      const pieces = PROMPT_BLOCKS;
      const { deadlineMs, bytesPerBlock: pieceBytesMax } = ask;
      const offer = played.port.offer({ pieces, pieceBytesMax, deadlineMs });
      const place = { level: "host", port: played.port.dataPort, storedBlocks: 0 } as const;
      told = { offer: offer.id, blocks: pieces, ...place };
      const asked = { ...ask, sharingScope: null, blocks: pieces };
      const blocks = await played.read(prefill, asked, await played.ask(prefill, asked));
      // The rest follows once the second one has tried to read them.
      offer.ready(0, blocks.slice(0, 1), isRead);
      setTimeout(() => {
        for (const [at, bytes] of blocks.entries()) if (at > 0) offer.ready(at, [bytes], () => {});
      }, 500);
      return told;
    });
    const found = await decode.generate([promptOf(0), promptOf(1)], {
      ...{ ...GREEDY, kvSource: { ...peer.source, deadlineMs: 3000 } },
    });
    expect(found.map(({ completions }) => completions)).toEqual(expected.slice(0, 2));
    expect(peer.asked).toHaveLength(2);
    expect(fetched(decode)).toBe(PROMPT_BLOCKS);
    await expectNothingHeld(decode);
  });

  test("the same prompt twice at once has two offers of its own", async () => {
    await using decode = (await load()).llm;
    await using prefill = (await load()).llm;
    const [one, two] = await Promise.all(
      [0, 1].map(() => decode.generate([promptOf(0)], { ...GREEDY, kvSource: sourceOf(prefill) })),
    );
    for (const found of [one, two]) expect(found?.[0]?.completions).toEqual(expected[0]);
    for (const llm of [decode, prefill]) await expectNothingHeld(llm);
  });
});

test.for(["stored", "computed"])(
  "[TR68] log-probabilities of a prompt whose blocks were %s elsewhere are those of one engine",
  async (where) => {
    await using prefill = (await load()).llm;
    await using decode = (await load()).llm;
    const params = { ...GREEDY, promptLogprobs: 2 };
    await using lone = (await load({ kvTransfer: null })).llm;
    const [right] = await lone.generate([promptOf(3)], params);
    if (where === "stored") await prefill.generate([promptOf(3)], GREEDY);
    const kvSource = sourceOf(prefill, where === "computed");
    // A prompt whose blocks have come before is no other.
    for (let times = 0; times < 2; times++) {
      const [found] = await decode.generate([promptOf(3)], { ...params, kvSource });
      expect(found?.promptLogprobs).toEqual(right?.promptLogprobs);
      expect(found?.completions).toEqual(right?.completions);
    }
    for (const llm of [prefill, decode]) await expectNothingHeld(llm);
  },
);
