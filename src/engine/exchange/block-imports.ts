import { messageOf } from "#base";
import { type EngineRequest, type RequestKey, toWire, type WireError } from "#engine/protocol";
import { type EndedReceive, scopeKey } from "#kvcache";
import { decodeAnswer, encodeAsk } from "./block-ask.ts";
import { type ExchangeParts, fullBlocks } from "./exchange-parts.ts";

/** An answer says what will come: it takes no longer than a step of the other engine. */
const ANSWER_MS = 5000;

/** How often an engine that owes blocks is asked whether it still runs. */
const LOOK_MS = 3000;
const NOTHING = new Uint8Array(0);

/** A request whose blocks come from another engine. */
interface Import {
  readonly transfer: number;
  readonly request: EngineRequest;
  /** Blocks that were stored here before. */
  readonly from: number;
  readonly stop: AbortController;
  /** Blocks that the other engine had stored when it was asked. */
  storedThere: number;
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

/** Requests that wait for blocks of other engines; then they run like all others. */
export class BlockImports {
  readonly #parts: ExchangeParts;
  readonly #byKey = new Map<RequestKey, Import>();
  readonly #byTransfer = new Map<number, Import>();
  readonly #nextTransfer: () => number;
  #refused: RefusedImport[] = [];

  constructor(parts: ExchangeParts, nextTransfer: () => number) {
    this.#parts = parts;
    this.#nextTransfer = nextTransfer;
  }

  /**
   * Fetches the blocks of a request that are not stored here, then adds it to the engine. Whatever
   * does not come is computed. Throws as `Engine.add` does where nothing is fetched.
   */
  start(request: EngineRequest): void {
    const { engine, cache, traffic } = this.#parts;
    const { promptTokenIds: tokens, cacheSalt, kvSource } = request;
    const wanted = fullBlocks(tokens.length, cache.blockTokens);
    const scope = scopeKey({ loraId: null, cacheSalt });
    const from = cache.match(scope, tokens).blocks.length;
    const reads = !request.params.skipReadingPrefixCache && request.params.promptLogprobs === null;
    if (kvSource === undefined || !reads || request.promptLogits || wanted <= from) {
      engine.add(request);
      return;
    }
    const transfer = this.#nextTransfer();
    const prompt = { scope, tokens, keys: null };
    const blocks = cache.peers.receives.start(transfer, prompt, { from, to: wanted });
    if (blocks === 0) {
      engine.add(request);
      return;
    }
    const stop = new AbortController();
    const started = {
      transfer,
      request,
      from,
      stop,
      storedThere: from,
      added: false,
      stopLooking: () => {},
    };
    this.#byKey.set(request.key, started);
    this.#byTransfer.set(transfer, started);
    traffic.startIncoming(transfer, blocks * cache.groupCount);
    void this.#ask(started, blocks).catch((error: unknown) => {
      this.#warn(started, messageOf(error));
      traffic.stopIncoming(transfer);
    });
    this.#parts.onWake();
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
    this.#parts.traffic.endIncoming(transfer);
    const { request, from, storedThere } = started;
    const { blockTokens } = this.#parts.cache;
    started.added = true;
    started.stopLooking();
    const made = Math.max(0, blocks - Math.max(from, storedThere)) * blockTokens;
    try {
      this.#parts.engine.add({ ...request, computedElsewhere: made });
    } catch (error) {
      this.#end(started);
      this.#refused.push({ key: request.key, error: toWire(error) });
    }
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

  async #ask({ transfer, request, from, stop }: Import, blocks: number): Promise<void> {
    const { port, traffic, identity, cache } = this.#parts;
    const { kvSource, promptTokenIds: tokens, cacheSalt, priority } = request;
    if (kvSource === undefined) return;
    const { peer, compute, deadlineMs } = kvSource;
    const message = encodeAsk({
      ...{ ...identity, cacheSalt, from, blocks, compute, priority, deadlineMs },
      tokens: tokens.slice(0, (from + blocks) * cache.blockTokens + 1),
    });
    const { signal } = stop;
    const asked = { peer, message, signal, deadlineMs: Math.min(ANSWER_MS, deadlineMs) };
    const answer = decodeAnswer(await port.ask(asked));
    if ("error" in answer) throw new Error(answer.error);
    const started = this.#byTransfer.get(transfer);
    if (started === undefined) return;
    started.storedThere = answer.storedBlocks;
    const { offer } = answer;
    if (offer === null) traffic.stopIncoming(transfer);
    else {
      const pieces = Math.min(blocks, answer.blocks) * cache.groupCount;
      const from = { host: peer.host, port: answer.port };
      const onFailure = (error: unknown) => this.#warn(started, messageOf(error));
      traffic.readFrom(transfer, { peer: from, offer, pieces, deadlineMs, onFailure });
      this.#lookAgain(started);
    }
  }

  /** A peer that computes for long sends nothing: one that was stopped is not waited for. */
  #lookAgain(started: Import): void {
    const { port, traffic, timer } = this.#parts;
    const { request, stop, transfer } = started;
    const { signal } = stop;
    const isOver = () => started.added || signal.aborted;
    started.stopLooking = timer.after(LOOK_MS, () => {
      if (request.kvSource === undefined || isOver()) return;
      const { peer } = request.kvSource;
      port.ask({ peer, message: NOTHING, signal, deadlineMs: ANSWER_MS }).then(
        () => this.#lookAgain(started),
        (error: unknown) => {
          if (isOver()) return;
          this.#warn(started, messageOf(error));
          traffic.stopIncoming(transfer);
        },
      );
    });
  }

  #end(started: Import): void {
    const { transfer, request, stop } = started;
    this.#byKey.delete(request.key);
    this.#byTransfer.delete(transfer);
    started.stopLooking();
    stop.abort();
    this.#parts.traffic.endIncoming(transfer);
    this.#parts.cache.peers.receives.end(transfer);
    this.#parts.onWake();
  }

  #warn({ request, stop }: Import, why: string): void {
    if (stop.signal.aborted) return;
    const { host, port } = request.kvSource?.peer ?? { host: "?", port: 0 };
    this.#parts.warn(
      `Cannot fetch keys and values from ${host}:${port}: ${why}; they are computed here`,
    );
  }
}
