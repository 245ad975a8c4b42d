import { EngineError, messageOf } from "#base";
import { type EngineRequest, firstKeyOf, PEER_CLIENT, type RequestKey } from "#engine/protocol";
import { type LookUp, Occupation, scopeKey, type TransferLevel } from "#kvcache";
import { SamplingParams } from "#sampling";
import type { AskingPeer } from "#transfer";
import {
  type BlockAnswer,
  type BlockAsk,
  countedOffer,
  decodeAsk,
  encodeAnswer,
  encodeCount,
} from "./block-ask.ts";
import { CachedCounts } from "./cached-counts.ts";
import { type ExchangeParts, storedBlocks } from "./exchange-parts.ts";
import type { PortOffer } from "./peer-port.ts";

/** Blocks that another engine reads. */
interface Export {
  readonly transfer: number;
  readonly offer: PortOffer;
  /** Of the request that computes them, and of what is held to be sent. */
  readonly occupation: Occupation;
  /** Leading blocks of the prompt that are to be found. */
  readonly wanted: number;
  /** The request that computes them; null: they are stored. */
  readonly computing: RequestKey | null;
  /** Nothing more will be computed. */
  computed: boolean;
  /** It is not sent any more. */
  over: boolean;
  stopWatching: () => void;
  stopAwaiting: () => void;
}

/** A reader that takes nothing for so long is gone. */
const STILL_MS = 30_000;

/** Who asked begins to read within some steps of its own, or never. */
const UNREAD_MS = 15_000;

/** It has ended, or has more connections than it keeps: then it reads at its next turn. */
const GONE_MS = 5000;

/** Most transfers to other engines at a time. */
const EXPORTS_MAX = 1024;

/** Takes requests that compute prompts for other engines. */
interface Computing {
  /** Throws as `Engine.add` does. */
  add(request: EngineRequest, occupation: Occupation): void;
  abort(key: RequestKey): void;
}

/** Answers other engines that ask for blocks, and sends these as they are computed. */
export class BlockExports {
  readonly #parts: ExchangeParts;
  readonly #nextTransfer: () => number;
  readonly #requests: Computing;
  readonly #exports = new Map<number, Export>();
  readonly #byKey = new Map<RequestKey, Export>();
  readonly #counts = new CachedCounts();
  #nextKey = firstKeyOf(PEER_CLIENT);

  constructor(parts: ExchangeParts, nextTransfer: () => number, requests: Computing) {
    this.#parts = parts;
    this.#nextTransfer = nextTransfer;
    this.#requests = requests;
  }

  /** Whether a request of that key computes for another engine. */
  owns(key: RequestKey): boolean {
    return this.#byKey.has(key);
  }

  /** Whether blocks are being sent, or computed for others. */
  get active(): boolean {
    return this.#exports.size > 0;
  }

  /**
   * Answers a question, once `bring` has brought what is farther away. Never rejects: what is wrong
   * is an answer, too.
   */
  async answer(
    message: Uint8Array,
    from: AskingPeer,
    bring: (ask: BlockAsk) => Promise<void> = async () => {},
  ): Promise<Uint8Array> {
    // Asked only whether this engine runs.
    if (message.length === 0) return message;
    try {
      const counted = countedOffer(message);
      if (counted !== null) return encodeCount(await this.#counts.of(counted));
      const ask = this.#checked(message);
      await bring(ask);
      if (from.isGone) throw new Error("Cannot answer: who asked has ended");
      return encodeAnswer(await this.#begin(ask, from));
    } catch (error) {
      return encodeAnswer({ error: messageOf(error).slice(0, 2000) });
    }
  }

  /** Sends what became known since the last call. Once per turn. */
  advance(): void {
    for (const one of [...this.#exports.values()]) {
      if (one.over) continue;
      const found = this.#parts.cache.peers.sends.advance(one.transfer, one.wanted);
      if (found < one.wanted && one.computed) this.#fail(one, "its blocks were evicted");
    }
  }

  /** The books ended these transfers: a sequence needs their blocks. */
  yielded(transfers: readonly number[]): void {
    for (const transfer of transfers) {
      const one = this.#exports.get(transfer);
      if (one !== undefined) this.#fail(one, "its blocks are needed for other requests");
    }
  }

  /** The request of that key, if it is one of these, has computed what was not cached. */
  computed(key: RequestKey, cachedTokens: number): void {
    const one = this.#byKey.get(key);
    if (one === undefined) return;
    one.computed = true;
    this.#counts.tell(one.offer.id, cachedTokens);
  }

  /** The request of that key, if it is one of these, has failed. */
  failed(key: RequestKey, why: string): void {
    const one = this.#byKey.get(key);
    if (one !== undefined) this.#fail(one, why);
  }

  /** What a failed step should have computed is in no block: nothing more is sent. */
  failAll(why: string): void {
    for (const one of this.#exports.values()) this.#fail(one, why);
  }

  #fail(one: Export, why: string): void {
    one.over = true;
    one.offer.fail(why);
    // All of the first stage's part may have been read, and nothing of the others'.
    this.#parts.stages?.endOffer(one.transfer, why);
  }

  /** Ends a transfer of which nothing was taken since the last look, though there is something. */
  #watch(one: Export, sentBefore: number): void {
    const { timer, cache } = this.#parts;
    const { transfer } = one;
    const before = cache.peers.sends.progress(transfer);
    const cancel = timer.after(STILL_MS, () => {
      const { onTheWay, sent } = cache.peers.sends.progress(transfer);
      const stands = sent === sentBefore && onTheWay > 0 && before.onTheWay > 0;
      if (stands) this.#fail(one, `nothing of it was read for ${STILL_MS} ms`);
      else this.#watch(one, sent);
    });
    one.stopWatching = cancel;
  }

  #checked(message: Uint8Array): BlockAsk {
    const { identity, contextTokensMax: tokensMax, vocabularySize } = this.#parts;
    const ask = decodeAsk(message, { tokensMax, vocabularySize });
    for (const name of ["fingerprint", "blockTokens", "bytesPerBlock"] as const) {
      if (ask[name] === identity[name]) continue;
      throw new EngineError(
        "INVALID_ARGUMENT",
        `Cannot give blocks to another engine: its ${name} must be ${identity[name]}, current ` +
          `value is ${ask[name]}; serve the same model with the same settings on both`,
      );
    }
    if (this.#exports.size >= EXPORTS_MAX) {
      const most = `at most ${EXPORTS_MAX} at a time`;
      throw new EngineError("QUEUE_FULL", `Cannot give blocks to another engine: ${most}`);
    }
    return ask;
  }

  /** Ends a transfer that nothing begins to read: who asked may have ended meanwhile. */
  #awaitReader(one: Export, from: AskingPeer): void {
    const { timer } = this.#parts;
    const endUnread = (ms: number, why: string) =>
      timer.after(ms, () => {
        if (!one.offer.begun) this.#fail(one, why);
      });
    const stopUnread = endUnread(UNREAD_MS, `nothing began to read it in ${UNREAD_MS} ms`);
    let stopGone = () => {};
    const stopListening = from.onGone(() => {
      stopGone = endUnread(GONE_MS, "who asked for it has ended");
    });
    one.stopAwaiting = () => {
      stopUnread();
      stopListening();
      stopGone();
    };
  }

  async #begin(ask: BlockAsk, from: AskingPeer): Promise<BlockAnswer> {
    const { cache, port, identity, traffic, stages } = this.#parts;
    const { tokens, from: first, cacheSalt } = ask;
    const scope = scopeKey({ loraId: null, cacheSalt });
    const prompt: LookUp = { scope, tokens, keys: null };
    const stored = cache.match(scope, tokens).blocks.length;
    const all = storedBlocks(tokens.length, cache.blockTokens, cache.storesTails);
    const full = Math.min(all, first + ask.blocks);
    const level = this.#levelFor(ask, prompt, full);
    const occupation = new Occupation();
    const start = { prompt, from: first, level, isSpare: ask.spare, occupation };
    // What is farther away is brought there by the request that continues it.
    const near = cache.peers.sends.reach(start, full);
    const wanted = ask.compute && !this.#parts.memoryAlone ? full : near;
    const blocks = wanted - first;
    if (blocks <= 0) return { offer: null, level, port: 0, blocks: 0, storedBlocks: stored };
    const computes = near < wanted;
    const key = computes ? this.#nextKey++ : null;
    if (key !== null) this.#requests.add(prefillRequest(key, ask), occupation);
    const offer = port.offer({
      pieces: blocks * cache.groupCount,
      pieceBytesMax: identity.bytesPerBlock,
      deadlineMs: ask.deadlineMs,
    });
    const transfer = this.#nextTransfer();
    const one: Export = {
      ...{ transfer, offer, occupation, wanted, computing: key, computed: !computes },
      ...{ over: false, stopWatching: () => {}, stopAwaiting: () => {} },
    };
    this.#exports.set(transfer, one);
    if (key !== null) {
      this.#byKey.set(key, one);
      this.#counts.expect(offer.id);
    }
    cache.peers.sends.start(transfer, start);
    traffic.startOutgoing(transfer, offer);
    this.#watch(one, 0);
    this.#awaitReader(one, from);
    const { deadlineMs } = ask;
    // Told before any step whose blocks they send.
    const theirs = stages?.offer({ transfer, pieces: blocks * cache.groupCount, deadlineMs });
    void this.#whenEnded(one).then(() => this.#end(one));
    this.#parts.onWake();
    const answer = { offer: offer.id, level, port: port.dataPort, blocks, storedBlocks: stored };
    if (theirs === undefined) return answer;
    try {
      return { ...answer, parts: await theirs };
    } catch (error) {
      this.#fail(one, messageOf(error));
      throw error;
    }
  }

  /** Waits until no part of a transfer is read any more. */
  async #whenEnded({ offer, transfer }: Export): Promise<void> {
    const { stages } = this.#parts;
    const end = await offer.ended;
    if (stages === null) return;
    if (!wasSent(end)) stages.endOffer(transfer, "the first stage's part is not read any more");
    await stages.offersEnded(transfer);
  }

  /** The device, for an engine that reaches it, unless more is stored in host memory. */
  #levelFor(ask: BlockAsk, prompt: LookUp, full: number): TransferLevel {
    const { sharingScope, cache } = this.#parts;
    if (sharingScope === null || ask.sharingScope !== sharingScope) return "host";
    if (ask.compute) return "device";
    const reached = (level: TransferLevel) =>
      cache.peers.sends.reach({ prompt, from: ask.from, level }, full);
    return reached("device") >= reached("host") ? "device" : "host";
  }

  /** All was sent, or it is not wanted any more. */
  #end(one: Export): void {
    const { cache, traffic, clock, onServed } = this.#parts;
    const { transfer, computing, occupation } = one;
    one.over = true;
    one.stopWatching();
    one.stopAwaiting();
    this.#exports.delete(transfer);
    this.#counts.end(one.offer.id);
    traffic.endOutgoing(transfer);
    cache.peers.sends.end(transfer);
    if (computing !== null && this.#byKey.delete(computing)) this.#requests.abort(computing);
    onServed(occupation.blockMsAt(clock.nowMs()));
    this.#parts.onWake();
  }
}

/** Computes the prompt. The engine that asked samples its first token. */
function prefillRequest(key: RequestKey, ask: BlockAsk): EngineRequest {
  const { prefix } = ask;
  return {
    ...{ key, requestId: `prefill-${key}`, promptTokenIds: ask.tokens.slice() },
    params: PREFILL,
    ...{ seed: 0n, cacheSalt: ask.cacheSalt, retention: null, priority: ask.priority },
    ...{ badWordTokenIds: [], thinking: null, promptLogits: false },
    ...{ draftShape: null, predictedTokenIds: null, computesOnly: true },
    ...(prefix !== null && {
      kvSource: { peer: prefix, compute: false, deadlineMs: ask.deadlineMs, prefix: null },
    }),
  };
}

/** Whether all of an offer was sent. */
function wasSent(end: unknown): boolean {
  return typeof end === "object" && end !== null && "outcome" in end && end.outcome === "sent";
}

const PREFILL = SamplingParams.parse({ temperature: 0, maxTokens: 1, ignoreEos: true });
