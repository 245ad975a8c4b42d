/** Little memory on both sides: nothing waits for ever, and nothing stays held. */
import { describe, expect, test } from "vitest";
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

/** Bytes of a block of the model's. */
const BLOCK = 12_288;
const SMALL = { poolBytes: 18 * BLOCK };

describe.each(["auto", "host"] as const)("engines with little memory, path %s", (path) => {
  const kvTransfer = { path };

  test("[KV53] fetch from each other at once, with host memory full on both sides", async () => {
    const [{ llm: first }, { llm: second }] = [
      await load({ kvTransfer }),
      await load({ kvTransfer }),
    ];
    const prompts = Array.from({ length: 16 }, (_, seed) => ids(seed, 250));
    const expected = await alone(prompts);
    const run = (llm: typeof first, from: typeof first, which: readonly (readonly number[])[]) =>
      llm.generate(
        which.map((promptTokenIds) => ({ promptTokenIds: [...promptTokenIds] })),
        { ...GREEDY, kvSource: sourceOf(from) },
      );
    const [ofFirst, ofSecond] = await Promise.all([
      run(first, second, prompts.slice(0, 8)),
      run(second, first, prompts.slice(8)),
    ]);
    const found = [...ofFirst, ...ofSecond].map(({ completions }) => completions);
    expect(found).toEqual(expected);
    for (const llm of [first, second]) {
      await expectNothingHeld(llm);
      await llm.close();
    }
  });

  test("[KV54] a pool of hardly one prompt: blocks that wait are given up where nothing else runs", async () => {
    const { llm: prefill } = await load({ kvTransfer });
    const { llm: decode } = await load({ kvCache: SMALL, kvTransfer });
    // Short prompts are stored, and their prefixes held while the rest comes.
    const heads = Array.from({ length: 12 }, (_, seed) => ids(seed, 20));
    const prompts = heads.map((head, seed) => [...head, ...ids(100 + seed, 220)]);
    const expected = await alone(prompts);
    await decode.generate(
      heads.map((promptTokenIds) => ({ promptTokenIds })),
      GREEDY,
    );
    const found = await decode.generate(
      prompts.map((promptTokenIds) => ({ promptTokenIds })),
      { ...GREEDY, kvSource: sourceOf(prefill) },
    );
    expect(found.map(({ completions }) => completions)).toEqual(expected);
    for (const llm of [prefill, decode]) {
      await expectNothingHeld(llm);
      await llm.close();
    }
  });

  test("[KV54] a giver with a small pool goes on with its own requests though its blocks are not read", async () => {
    const { llm: prefill } = await load({ kvCache: SMALL, kvTransfer });
    await using peer = await PlayedPeer.open(() => new Uint8Array(1));
    for (let seed = 0; seed < 4; seed++) {
      const tokens = Int32Array.from(ids(seed, 240));
      const answer = await peer.ask(prefill, {
        ...{ ...identityOf(prefill), cacheSalt: null, from: 0, blocks: 14 },
        ...{ compute: true, priority: 0, deadlineMs: 600_000, tokens },
      });
      expect(answer).toMatchObject({ blocks: 14 });
    }
    const prompts = Array.from({ length: 4 }, (_, seed) => ids(50 + seed, 240));
    const expected = await alone(prompts);
    const found = await prefill.generate(
      prompts.map((promptTokenIds) => ({ promptTokenIds })),
      GREEDY,
    );
    expect(found.map(({ completions }) => completions)).toEqual(expected);
    await prefill.close();
  });
});
