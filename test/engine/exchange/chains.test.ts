/** An engine that computes a prompt for another one, and fetches its beginning from a third. */
import { afterEach, describe, expect, test } from "vitest";
import type { LLM, LoadOptions } from "../../../src/index.ts";
import { alone, expectNothingHeld, GREEDY, ids, load, PlayedPeer, sourceOf } from "./peers.ts";

const opened: LLM[] = [];
afterEach(async () => {
  for (const llm of opened.splice(0)) {
    await expectNothingHeld(llm);
    await llm.close();
  }
});

async function three(own: LoadOptions = {}) {
  const [holder, prefill, decode] = [await load(own), await load(own), await load(own)];
  opened.push(holder.llm, prefill.llm, decode.llm);
  return { holder: holder.llm, prefill: prefill.llm, decode: decode.llm };
}

const addressOf = (llm: LLM) => {
  const { host, port } = sourceOf(llm);
  return { host, port };
};

const beginning = ids(1, 160);
const prompt = [...beginning, ...ids(2, 60)];

describe.each(["auto", "host"] as const)("three engines, path %s", (path) => {
  test("[CL246] compute each part of a prompt once", async () => {
    const { holder, prefill, decode } = await three({ kvTransfer: { path } });
    await holder.generate([{ promptTokenIds: beginning }], GREEDY);
    const expected = await alone([prompt]);
    const kvSource = { ...sourceOf(prefill), prefix: addressOf(holder) };
    const [found] = await decode.generate([{ promptTokenIds: prompt }], { ...GREEDY, kvSource });
    expect(found?.completions).toEqual(expected[0]);
    // All of the prompt but its last token, less what the third one had.
    expect(prefill.stats().computedPromptTokens).toBe(219 - 160);
    expect(decode.stats().computedPromptTokens).toBe(1);
  });

  test("[KV72] tell what the third one had as cached", async () => {
    const { holder, prefill, decode } = await three({ kvTransfer: { path } });
    await holder.generate([{ promptTokenIds: beginning }], GREEDY);
    const kvSource = { ...sourceOf(prefill), prefix: addressOf(holder) };
    const [found] = await decode.generate([{ promptTokenIds: prompt }], { ...GREEDY, kvSource });
    expect(found?.cachedTokens).toBe(160);
  });
});

describe("a third engine that", () => {
  test("[CL246] is not there costs time, and no token", async () => {
    const { prefill, decode } = await three();
    const kvSource = { ...sourceOf(prefill), prefix: { host: "127.0.0.1", port: 1 } };
    const [found] = await decode.generate([{ promptTokenIds: prompt }], { ...GREEDY, kvSource });
    expect(found?.completions).toEqual((await alone([prompt]))[0]);
    expect(prefill.stats().computedPromptTokens).toBe(219);
  });

  test("stalls is waited for until the request ends", async () => {
    const { prefill, decode } = await three();
    await using peer = await PlayedPeer.open(async (ask, own) => {
      const offer = own.port.offer({
        ...{ pieces: ask.blocks, pieceBytesMax: ask.bytesPerBlock, deadlineMs: 60_000 },
      });
      return {
        ...{ offer: offer.id, level: "host", port: own.port.dataPort },
        ...{ blocks: ask.blocks, storedBlocks: 0 },
      };
    });
    const stop = new AbortController();
    const kvSource = { ...sourceOf(prefill), prefix: peer.port.address };
    const running = decode.generate([{ promptTokenIds: prompt }], {
      ...{ ...GREEDY, kvSource, signal: stop.signal },
    });
    const ended = expect(running).rejects.toThrow();
    await expect.poll(() => peer.asked.length).toBe(1);
    expect(peer.asked[0]).toMatchObject({ compute: false, prefix: null });
    stop.abort();
    await ended;
  });

  test("is the one that asks has nothing more to give", async () => {
    const { prefill, decode } = await three();
    const kvSource = { ...sourceOf(prefill), prefix: addressOf(decode) };
    const [found] = await decode.generate([{ promptTokenIds: prompt }], { ...GREEDY, kvSource });
    expect(found?.completions).toEqual((await alone([prompt]))[0]);
  });
});

test("a wrong address of a third engine is refused, with the remedy", async () => {
  const { decode, prefill } = await three();
  const kvSource = { ...sourceOf(prefill), prefix: { host: "", port: 9 } };
  await expect(decode.generate([{ promptTokenIds: prompt }], { kvSource })).rejects.toThrow(
    "Cannot use kvSource.prefix.host: must be the name or address of a machine",
  );
});
