/** Two small engines with a way between them, and peers that a test plays itself. */
import { expect } from "vitest";
import { systemTimer } from "#base";
import {
  type BlockAnswer,
  type BlockAsk,
  countedOffer,
  decodeAnswer,
  decodeAsk,
  encodeAnswer,
  encodeAsk,
} from "../../../src/engine/exchange/block-ask.ts";
import { openPeerPort } from "../../../src/engine/exchange/network-port.ts";
import type { PeerPort } from "../../../src/engine/exchange/peer-port.ts";
import {
  type Completion,
  type GenerateOptions,
  LLM,
  type LoadOptions,
} from "../../../src/index.ts";

export const MODEL = "test/fixtures/models/llama";
const MIB = 2 ** 20;

export const OPTIONS = {
  device: "cpu",
  dtype: "float32",
  threads: 1,
  engineThread: false,
  kvTransfer: {},
  kvCache: { poolBytes: 2 * MIB },
} satisfies LoadOptions;

export const GREEDY = { maxTokens: 8, temperature: 0, ignoreEos: true } as const;

/** Ids of a made-up text: no two seeds begin alike. */
export function ids(seed: number, length: number): number[] {
  return Array.from({ length }, (_, place) => 3 + ((seed * 7919 + place * 104_729) % 300));
}

/** A source's address, with what else is said of it. */
export function sourceOf(llm: LLM, compute = true): NonNullable<GenerateOptions["kvSource"]> {
  const { kvAddress } = llm.info;
  if (kvAddress === null) throw new Error("It must have an address");
  return { ...kvAddress, compute };
}

/** What questions to the engine must say of it. */
export function identityOf({ info }: LLM) {
  const { fingerprint, blockTokens, bytesPerBlock } = info;
  if (fingerprint === null) throw new Error("It must have a fingerprint");
  return {
    fingerprint,
    blockTokens,
    bytesPerBlock,
    sharingScope: null,
    prefix: null,
    spare: false,
  };
}

/** A small engine, and what it warned of. */
export async function load(
  own: LoadOptions = {},
  model: string = MODEL,
): Promise<{ readonly llm: LLM; readonly warnings: string[] }> {
  const warnings: string[] = [];
  const onWarning = (text: string) => warnings.push(text);
  return { llm: await LLM.load(model, { ...OPTIONS, onWarning, ...own }), warnings };
}

/** What an engine without others answers. */
export async function alone(
  prompts: readonly (readonly number[])[],
  params: GenerateOptions = GREEDY,
  { own = {}, model = MODEL }: { own?: LoadOptions; model?: string } = {},
): Promise<(readonly Completion[] | undefined)[]> {
  await using llm = await LLM.load(model, { ...OPTIONS, ...own, kvTransfer: null });
  const results = await llm.generate(
    prompts.map((promptTokenIds) => ({ promptTokenIds: [...promptTokenIds] })),
    params,
  );
  return results.map(({ completions }) => completions);
}

/** No level of the engine holds a block; transfers may take a moment to end. */
export async function expectNothingHeld(llm: LLM): Promise<void> {
  await expect
    .poll(
      async () => {
        // Statistics are posted with steps.
        await llm.generate([{ promptTokenIds: [5] }], { maxTokens: 1, temperature: 0 });
        return (llm.stats().cache?.levels ?? []).map(({ held }) => held);
      },
      { timeout: 10_000 },
    )
    .toSatisfy((held: number[]) => held.length > 0 && held.every((count) => count === 0));
  expect(llm.stats()).toMatchObject({ heldBlocks: 0, running: 0, waiting: 0 });
}

/** An engine that a test plays: it answers questions, offers pieces, and asks others. */
export class PlayedPeer implements AsyncDisposable {
  readonly port: PeerPort;
  /** Questions that were asked, in order. */
  readonly asked: BlockAsk[] = [];

  private constructor(port: PeerPort) {
    this.port = port;
  }

  /** `count`: what it says of how much was cached. */
  static async open(
    answer: (ask: BlockAsk, peer: PlayedPeer) => Promise<BlockAnswer | Uint8Array> | Uint8Array,
    count: () => Promise<Uint8Array> = () => Promise.reject(new Error("It does not say")),
  ): Promise<PlayedPeer> {
    const address = { host: "127.0.0.1", port: 0, nixl: null, tls: null, secrets: [] };
    const peer = new PlayedPeer(await openPeerPort(address, systemTimer));
    peer.port.onAsk(async (message) => {
      if (message.length === 0) return message;
      if (countedOffer(message) !== null) return await count();
      const ask = decodeAsk(message, { tokensMax: 4096, vocabularySize: 4096 });
      peer.asked.push(ask);
      const given = await answer(ask, peer);
      return given instanceof Uint8Array ? given : encodeAnswer(given);
    });
    return peer;
  }

  get source(): NonNullable<GenerateOptions["kvSource"]> {
    return { ...this.port.address, compute: true };
  }

  /** Asks an engine. */
  async ask(llm: LLM, ask: BlockAsk, deadlineMs = 5000): Promise<BlockAnswer> {
    const { host, port } = sourceOf(llm);
    const { signal } = new AbortController();
    const message = encodeAsk(ask);
    return decodeAnswer(await this.port.ask({ peer: { host, port }, message, signal, deadlineMs }));
  }

  /** All blocks of an answer of that engine, by piece. */
  async read(llm: LLM, ask: BlockAsk, answer: BlockAnswer): Promise<Uint8Array[]> {
    if ("error" in answer || answer.offer === null) throw new Error("It must offer blocks");
    const { host } = sourceOf(llm);
    const blocks = Array.from({ length: answer.blocks }, () => new Uint8Array(ask.bytesPerBlock));
    await this.port.read({
      peer: { host, port: answer.port },
      offer: answer.offer,
      pieces: blocks.map((into, index) => ({ index, into: [into] })),
      copyPlaced: (_piece, _from, done) => done(false),
      onPiece: () => {},
      signal: new AbortController().signal,
      deadlineMs: 5000,
    });
    return blocks;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.port.close();
  }
}
