import { messageOf } from "#base";
import { type EngineRequest, type RequestKey, toWire, type WireError } from "#engine/protocol";
import { type EndedReceive, Occupation, scopeKey, type TransferLevel } from "#kvcache";
import { type BlocksToCome, decodeAnswer, encodeAsk } from "./block-ask.ts";
import { CountAsks } from "./count-asks.ts";
import { type ExchangeParts, storedBlocks, wrongParts } from "./exchange-parts.ts";
import { nameOf } from "./peer-port.ts";

/** An answer says what will come: it takes no longer than a step of the other engine. */
const ANSWER_MS = 5000;

/** How often an engine that owes blocks is asked whether it still runs. */
const LOOK_MS = 3000;
const NOTHING = new Uint8Array(0);

/** Blocks that have all come wait no longer for how many were cached: it is asked meanwhile. */
const COUNT_MS = 100;

/** An engine whose device could not be reached is asked for host memory alone for so long. */
const FAR_MS = 60_000;

/** A request whose blocks come from another engine. */
interface Import {
  readonly request: EngineRequest;
  readonly occupation: Occupation;
  /** Blocks that were stored here before. */
  readonly from: number;
  readonly stop: AbortController;
  /** The present try, and where its blocks arrive. */
  transfer: number;
  level: TransferLevel;
  /** The first offer of the other engine, all later ones are of further tries; null: none yet. */
  firstOffer: string | null;
  /** Tokens of the prompt that no engine computed for it, as far as they are known. */
  cachedTokens: number;
  /** Settles when the other engine has said how many it had; null: nothing is awaited. */
  counting: Promise<unknown> | null;
  /** It was asked, or need not be. */
  counted: boolean;
  /** Why blocks did not come by the device: host memory is the next way. */
  hasFailed: boolean;
  /** Ends the wait for the next look at the other engine. */
  stopLooking: () => void;
  /** The engine has the request; its blocks are held until the first step computed it. */
  added: boolean;
}

/** A request that the engine refused once its blocks had come. */
export interface RefusedImport {
  readonly key: RequestKey;
  readonly error: WireError;
}

/**
 * Requests that wait for blocks of other engines; then they run like all others. Blocks of an
 * engine whose device this one reaches come from there to this device, others to host memory.
 */
export class BlockImports {
  readonly #parts: ExchangeParts;
  readonly #byKey = new Map<RequestKey, Import>();
  readonly #byTransfer = new Map<number, Import>();
  readonly #nextTransfer: () => number;
  readonly #counts: CountAsks;
  /** Engines whose device is not reached, and until when that is believed. */
  readonly #far = new Map<string, number>();
  #refused: RefusedImport[] = [];

  constructor(parts: ExchangeParts, nextTransfer: () => number) {
    this.#parts = parts;
    this.#counts = new CountAsks(parts.port);
    this.#nextTransfer = nextTransfer;
  }

  /**
   * Fetches the blocks of a request that are not stored here, then adds it to the engine. Whatever
   * does not come is computed. Throws as `Engine.add` does where nothing is fetched. What is held
   * for it is noted in `occupation`.
   */
  start(request: EngineRequest, occupation = new Occupation()): void {
    const { engine, cache, stages } = this.#parts;
    const { promptTokenIds: tokens, cacheSalt, kvSource } = request;
    const wanted = storedBlocks(tokens.length - 1, cache.blockTokens, false);
    const scope = scopeKey({ loraId: null, cacheSalt });
    const from = cache.match(scope, tokens).blocks.length;
    const reads = !request.params.skipReadingPrefixCache && request.params.promptLogprobs === null;
    // Other stages would need their parts of the blocks.
    const fetches = kvSource !== undefined && stages === null;
    if (!fetches || !reads || request.promptLogits || wanted <= from) {
      engine.add(request, occupation);
      return;
    }
    const started: Import = {
      ...{ request, occupation, from, stop: new AbortController(), transfer: 0, level: "host" },
      ...{ firstOffer: null, cachedTokens: from * cache.blockTokens },
      ...{ counting: null, counted: false },
      ...{ hasFailed: false, added: false, stopLooking: () => {} },
    };
    if (this.#begin(started, this.#levelsFor(request))) this.#byKey.set(request.key, started);
    else engine.add(request, occupation);
  }

  /** Ends a request that still waits; false: it does not. */
  abort(key: RequestKey): boolean {
    const started = this.#byKey.get(key);
    if (started === undefined) return false;
    const waits = !started.added;
    this.#end(started);
    return waits;
  }

  /** Requests that wait for blocks. */
  get keys(): readonly RequestKey[] {
    return [...this.#byKey.values()]
      .filter(({ added }) => !added)
      .map(({ request }) => request.key);
  }

  /** Adds the request of a transfer that is over. */
  received({ transfer, blocks }: EndedReceive): void {
    const started = this.#byTransfer.get(transfer);
    if (started === undefined) return;
    if (started.hasFailed && blocks <= started.from && started.level === "device") {
      this.#isFar(started.request);
      this.#endTry(started);
      if (this.#begin(started, ["host"])) return;
    } else this.#parts.traffic.endIncoming(transfer);
    if (started.counting === null || blocks <= started.from) this.#add(started, blocks);
    else void this.#addCounted(started, blocks, started.counting);
  }

  /** Adds it once it is known how many of its tokens were cached, or after a short while. */
  async #addCounted(started: Import, blocks: number, counting: Promise<unknown>): Promise<void> {
    const { timer, onWake } = this.#parts;
    let cancel = () => {};
    const late = new Promise<void>((resolve) => {
      cancel = timer.after(COUNT_MS, resolve);
    });
    await Promise.race([counting, late]);
    cancel();
    if (started.stop.signal.aborted || started.added) return;
    this.#add(started, blocks);
    onWake();
  }

  /** The request got its first tokens, or ended: its blocks are in its own table, or not needed. */
  begun(key: RequestKey): void {
    const started = this.#byKey.get(key);
    if (started?.added === true) this.#end(started);
  }

  /** Requests that were refused since the last call. */
  takeRefused(): readonly RefusedImport[] {
    const refused = this.#refused;
    this.#refused = [];
    return refused;
  }

  close(): void {
    for (const started of [...this.#byKey.values()]) this.#end(started);
  }

  /** `blocks`: leading blocks of the prompt that are stored now. */
  #add(started: Import, blocks: number): void {
    const { request, occupation, cachedTokens } = started;
    const { blockTokens } = this.#parts.cache;
    started.added = true;
    started.stopLooking();
    const found = Math.min(blocks * blockTokens, request.promptTokenIds.length - 1);
    const made = request.kvSource?.compute === true ? Math.max(0, found - cachedTokens) : 0;
    try {
      this.#parts.engine.add({ ...request, computedElsewhere: made }, occupation);
    } catch (error) {
      this.#end(started);
      this.#refused.push({ key: request.key, error: toWire(error) });
    }
  }

  /** Where blocks may arrive, the better way first. */
  #levelsFor({ kvSource }: EngineRequest): readonly TransferLevel[] {
    const { sharingScope, clock } = this.#parts;
    if (sharingScope === null || kvSource === undefined) return ["host"];
    const until = this.#far.get(nameOf(kvSource.peer)) ?? 0;
    return until > clock.nowMs() ? ["host"] : ["device", "host"];
  }

  #isFar({ kvSource }: EngineRequest): void {
    if (kvSource === undefined) return;
    const { clock } = this.#parts;
    for (const [name, until] of this.#far) if (until <= clock.nowMs()) this.#far.delete(name);
    this.#far.set(nameOf(kvSource.peer), clock.nowMs() + FAR_MS);
  }

  /** Takes room at the first of the levels that has some, and asks; false: none has. */
  #begin(started: Import, levels: readonly TransferLevel[]): boolean {
    for (const level of levels) {
      const blocks = this.#takeRoom(started, level);
      if (blocks === 0) continue;
      const { transfer } = started;
      void this.#ask(started, blocks).catch((error: unknown) => {
        this.#warn(started, messageOf(error));
        this.#parts.traffic.stopIncoming(transfer);
      });
      this.#parts.onWake();
      return true;
    }
    return false;
  }

  /** Begins a try with as many blocks as there is room for; 0: there is none. */
  #takeRoom(started: Import, level: TransferLevel): number {
    const { cache, traffic, identity } = this.#parts;
    const { request, occupation, from } = started;
    const { promptTokenIds, cacheSalt } = request;
    const tokens = promptTokenIds.subarray(0, -1);
    const prompt = { scope: scopeKey({ loraId: null, cacheSalt }), tokens, keys: null };
    const to = storedBlocks(tokens.length, cache.blockTokens, cache.storesTails);
    const transfer = this.#nextTransfer();
    const begin = { from, to, level, occupation };
    const blocks = cache.peers.receives.start(transfer, prompt, begin);
    if (blocks === 0) return 0;
    started.transfer = transfer;
    started.level = level;
    this.#byTransfer.set(transfer, started);
    const placedBytes = level === "device" ? identity.bytesPerBlock : null;
    traffic.startIncoming(transfer, blocks * cache.groupCount, placedBytes);
    return blocks;
  }

  async #ask(started: Import, blocks: number): Promise<void> {
    const { port, identity, cache, sharingScope: ownScope } = this.#parts;
    const { transfer, from, level } = started;
    const { kvSource, promptTokenIds: tokens, cacheSalt, priority } = started.request;
    if (kvSource === undefined) return;
    const { peer, compute, deadlineMs, prefix } = kvSource;
    const sharingScope = level === "device" ? ownScope : null;
    const message = encodeAsk({
      ...{ ...identity, cacheSalt, sharingScope, from, blocks, compute, priority, deadlineMs },
      ...{ spare: false, prefix },
      tokens: tokens.slice(0, Math.min((from + blocks) * cache.blockTokens, tokens.length - 1)),
    });
    // Also where the request ends meanwhile: an offer that is not known cannot be left.
    const { signal } = new AbortController();
    const asked = { peer, message, signal, deadlineMs: Math.min(ANSWER_MS, deadlineMs) };
    const answer = decodeAnswer(await port.ask(asked));
    if ("error" in answer) throw new Error(answer.error);
    if (this.#byTransfer.get(transfer) !== started) {
      this.#leave(started, answer);
      return;
    }
    if (started.firstOffer === null && answer.offer !== null) {
      started.firstOffer = answer.offer;
      const stored = answer.storedBlocks * cache.blockTokens;
      started.cachedTokens = Math.max(started.cachedTokens, stored);
    }
    if (answer.level === level || answer.offer === null) this.#read(started, answer, blocks);
    else if (answer.level === "host") this.#goOnInHostMemory(started, answer);
    else {
      this.#leave(started, answer);
      throw new Error("it offers blocks of its device, which were not asked for");
    }
  }

  /** The other engine has blocks in host memory: they cannot come to the device directly. */
  #goOnInHostMemory(started: Import, answer: BlocksToCome): void {
    this.#endTry(started);
    // What it computes would be on a device that is reached: its device is not.
    if (started.request.kvSource?.compute === true) this.#isFar(started.request);
    const blocks = this.#takeRoom(started, "host");
    if (blocks > 0) this.#read(started, answer, blocks);
    else {
      this.#leave(started, answer);
      this.#add(started, started.from);
    }
    this.#parts.onWake();
  }

  /** Tells the other engine that its offer is not wanted: it holds blocks for it. */
  #leave({ request: { kvSource } }: Import, { offer, port, parts = [] }: BlocksToCome): void {
    if (offer === null || kvSource === undefined) return;
    const peer = { host: kvSource.peer.host, port };
    this.#parts.traffic.leave({ peer, offer, parts });
  }

  #read(started: Import, answer: BlocksToCome, blocks: number): void {
    const { traffic, cache, identity } = this.#parts;
    const { transfer, request } = started;
    const { offer, port, parts = [] } = answer;
    const problem = wrongParts(answer, identity);
    if (problem !== null) {
      this.#leave(started, answer);
      throw new Error(problem);
    }
    if (offer === null || request.kvSource === undefined) {
      traffic.stopIncoming(transfer);
      return;
    }
    const { peer, deadlineMs } = request.kvSource;
    const coming = Math.min(blocks, answer.blocks);
    const pieces = coming * cache.groupCount;
    const onFailure = (error: unknown) => {
      started.hasFailed = true;
      this.#warn(started, messageOf(error));
    };
    const from = { host: peer.host, port };
    const isStored = answer.storedBlocks >= started.from + coming;
    // Once the first has come, the other engine has begun to compute, or is about to.
    const onBegun = () => void this.#count(started, answer);
    const source = { peer: from, offer, pieces, isStored, deadlineMs, parts, onBegun, onFailure };
    traffic.readFrom(transfer, source);
    this.#countEarly(started, answer);
    this.#lookAgain(started);
  }

  /** Asks before anything has come: the answer is there when the last block is. */
  #countEarly(started: Import, answer: BlocksToCome): void {
    const { kvSource } = started.request;
    const release = kvSource === undefined ? null : this.#counts.takeEarly(kvSource.peer);
    if (release !== null) void this.#count(started, answer).then(release);
  }

  /**
   * Asks how much of the prompt the other engine had when it computed it: it may have fetched a
   * part, or another request has computed it meanwhile. Once.
   */
  async #count(started: Import, { offer, blocks, storedBlocks }: BlocksToCome): Promise<void> {
    const { kvSource, promptTokenIds } = started.request;
    if (kvSource?.compute !== true || offer === null || offer !== started.firstOffer) return;
    if (started.counted || storedBlocks >= started.from + blocks) return;
    started.counted = true;
    const { peer, deadlineMs } = kvSource;
    const counting = this.#counts.ask({ peer, offer, deadlineMs, signal: started.stop.signal });
    started.counting = counting;
    const cached = Math.min(await counting, promptTokenIds.length - 1);
    started.cachedTokens = Math.max(started.cachedTokens, cached);
    started.counting = null;
  }

  /** A peer that computes for long sends nothing: one that was stopped is not waited for. */
  #lookAgain(started: Import): void {
    const { port, traffic, timer } = this.#parts;
    const { request, stop, transfer } = started;
    const { signal } = stop;
    const isOver = () => started.added || signal.aborted || started.transfer !== transfer;
    started.stopLooking = timer.after(LOOK_MS, () => {
      if (request.kvSource === undefined || isOver()) return;
      const { peer } = request.kvSource;
      port.ask({ peer, message: NOTHING, signal, deadlineMs: ANSWER_MS }).then(
        () => {
          if (!isOver()) this.#lookAgain(started);
        },
        (error: unknown) => {
          if (isOver()) return;
          this.#warn(started, messageOf(error));
          traffic.stopIncoming(transfer);
        },
      );
    });
  }

  #end(started: Import): void {
    this.#byKey.delete(started.request.key);
    started.stop.abort();
    this.#endTry(started);
    this.#parts.onWake();
  }

  /** Releases what the present try holds. */
  #endTry(started: Import): void {
    const { transfer } = started;
    this.#byTransfer.delete(transfer);
    started.stopLooking();
    this.#parts.traffic.endIncoming(transfer);
    this.#parts.cache.peers.receives.end(transfer);
  }

  #warn({ request, stop }: Import, why: string): void {
    if (stop.signal.aborted) return;
    const { host, port } = request.kvSource?.peer ?? { host: "?", port: 0 };
    this.#parts.warn(
      `Cannot fetch keys and values from ${host}:${port}: ${why}; they are computed here`,
    );
  }
}
