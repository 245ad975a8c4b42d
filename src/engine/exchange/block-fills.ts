import { EngineError, messageOf } from "#base";
import type { KvFill, KvFillResult, RequestKey } from "#engine/protocol";
import { type EndedReceive, type LookUp, scopeKey } from "#kvcache";
import { decodeAnswer, encodeAsk } from "./block-ask.ts";
import type { DiskLoads } from "./disk-loads.ts";
import { type ExchangeParts, storedBlocks, wrongParts } from "./exchange-parts.ts";

/** An answer says what will come: it takes no longer than a step of the other engine. */
const ANSWER_MS = 5000;

/** Most fills at a time: they bound what comes, beside the books (KV53). */
const FILLS_MAX = 8;

/** Blocks that come for no request. */
interface Fill {
  readonly key: RequestKey;
  readonly fill: KvFill;
  /** Leading blocks that were stored before. */
  readonly from: number;
  readonly stop: AbortController;
  /** Why blocks did not come; null: they did, or the other engine has none. */
  failure: string | null;
}

/** A fill that is over. */
export type EndedFill = { readonly key: RequestKey } & (
  | { readonly result: KvFillResult; readonly error: null }
  | { readonly result: null; readonly error: EngineError }
);

/** Fetches blocks that no request waits for: they are stored as cached, and may be evicted. */
export class BlockFills {
  readonly #parts: ExchangeParts;
  readonly #byTransfer = new Map<number, Fill>();
  readonly #nextTransfer: () => number;
  #ended: EndedFill[] = [];

  readonly #loads: DiskLoads;
  /** Fills that were taken and are not over. */
  #open = 0;
  #isClosed = false;

  constructor(parts: ExchangeParts, nextTransfer: () => number, loads: DiskLoads) {
    this.#parts = parts;
    this.#nextTransfer = nextTransfer;
    this.#loads = loads;
  }

  /** Its end is told by `takeEnded`. Throws INVALID_ARGUMENT, PROMPT_TOO_LONG and QUEUE_FULL. */
  start(key: RequestKey, fill: KvFill): void {
    this.#check(fill);
    this.#open++;
    const { promptTokenIds: tokens, cacheSalt } = fill;
    const { blocks, onDisk } = this.#loads.match({ tokens, cacheSalt });
    const stored = blocks.length + onDisk.length;
    const isStored = this.#wantedBlocks(fill, stored) <= stored;
    if (onDisk.length === 0 || isStored) this.#begin(key, fill, stored);
    else {
      // What comes continues blocks that must be in host memory.
      void this.#loads.bring({ tokens, cacheSalt }).then(() => {
        if (this.#isClosed) return;
        this.#begin(key, fill, this.#loads.match({ tokens, cacheSalt }).blocks.length);
      });
    }
  }

  #begin(key: RequestKey, fill: KvFill, from: number): void {
    const { cache, traffic } = this.#parts;
    const { promptTokenIds: tokens } = fill;
    const scope = scopeKey({ loraId: null, cacheSalt: fill.cacheSalt });
    const to = this.#wantedBlocks(fill, from);
    const prompt: LookUp = { scope, tokens: tokens.slice(0, to * cache.blockTokens), keys: null };
    const transfer = this.#nextTransfer();
    const started: Fill = { key, fill, from, stop: new AbortController(), failure: null };
    const blocks =
      to > from ? cache.peers.receives.start(transfer, prompt, { from, to, level: "host" }) : 0;
    if (blocks === 0) {
      this.#tell(started, from);
      return;
    }
    this.#byTransfer.set(transfer, started);
    traffic.startIncoming(transfer, blocks * cache.groupCount);
    void this.#ask(transfer, started, blocks).catch((error: unknown) => {
      started.failure = messageOf(error);
      traffic.stopIncoming(transfer);
    });
    this.#parts.onWake();
  }

  /** Takes in the end of a transfer; false: it is another's. */
  received({ transfer, blocks }: EndedReceive): boolean {
    const started = this.#byTransfer.get(transfer);
    if (started === undefined) return false;
    this.#byTransfer.delete(transfer);
    this.#parts.traffic.endIncoming(transfer);
    this.#parts.cache.peers.receives.end(transfer);
    this.#tell(started, blocks);
    return true;
  }

  /** Fills that ended since the last call. */
  takeEnded(): readonly EndedFill[] {
    const ended = this.#ended;
    this.#ended = [];
    return ended;
  }

  close(): void {
    this.#isClosed = true;
    for (const [transfer, { stop }] of this.#byTransfer) {
      stop.abort();
      this.#parts.traffic.endIncoming(transfer);
      this.#parts.cache.peers.receives.end(transfer);
    }
    this.#byTransfer.clear();
  }

  #check({ promptTokenIds: tokens }: KvFill): void {
    const { memoryAlone, contextTokensMax, vocabularySize } = this.#parts;
    if (!memoryAlone) throw wrong("the worker must have the role kv, it computes");
    if (tokens.length > contextTokensMax) {
      const given = `at most ${contextTokensMax} tokens, current value is ${tokens.length}`;
      throw new EngineError(
        "PROMPT_TOO_LONG",
        `Cannot fetch blocks: the prompt must have ${given}`,
      );
    }
    const other = tokens.find((id) => id < 0 || id >= vocabularySize);
    if (other !== undefined) throw wrong(`token id ${other} must be in the vocabulary`);
    if (this.#open < FILLS_MAX) return;
    const most = `at most ${FILLS_MAX} prompts at a time; try again later`;
    throw new EngineError("QUEUE_FULL", `Cannot fetch blocks: ${most}`);
  }

  /** Leading blocks to have: what was reused at any cost, the rest where memory is free. */
  #wantedBlocks({ promptTokenIds: tokens, reusedTokens }: KvFill, from: number): number {
    const { cache } = this.#parts;
    const all = storedBlocks(Math.max(0, tokens.length - 1), cache.blockTokens, false);
    const reused = storedBlocks(reusedTokens, cache.blockTokens, false);
    const free = Math.floor(cache.poolStats(1).free / cache.groupCount);
    return Math.min(all, Math.max(reused, from + free));
  }

  async #ask(transfer: number, started: Fill, blocks: number): Promise<void> {
    const { port, identity, cache, traffic } = this.#parts;
    const { fill, from, stop } = started;
    const { promptTokenIds: tokens, cacheSalt, peer, deadlineMs } = fill;
    const { signal } = stop;
    const message = encodeAsk({
      ...{ ...identity, cacheSalt, sharingScope: null, from, blocks, compute: false, spare: true },
      ...{ priority: 0, deadlineMs, prefix: null },
      tokens: tokens.slice(0, (from + blocks) * cache.blockTokens),
    });
    const asked = { peer, message, signal, deadlineMs: Math.min(ANSWER_MS, deadlineMs) };
    const answer = decodeAnswer(await port.ask(asked));
    if ("error" in answer) throw new Error(answer.error);
    const { offer, parts = [] } = answer;
    const offered = { peer: { host: peer.host, port: answer.port }, offer: offer ?? "", parts };
    if (offer === null || this.#byTransfer.get(transfer) !== started || answer.level !== "host") {
      if (offer !== null) traffic.leave(offered);
      traffic.stopIncoming(transfer);
      return;
    }
    const problem = wrongParts(answer, identity);
    if (problem !== null) {
      traffic.leave(offered);
      throw new Error(problem);
    }
    const pieces = Math.min(blocks, answer.blocks) * cache.groupCount;
    const onFailure = (error: unknown) => {
      started.failure = messageOf(error);
    };
    traffic.readFrom(transfer, { ...offered, pieces, isStored: true, deadlineMs, onFailure });
  }

  #tell({ key, fill, from, failure }: Fill, blocks: number): void {
    this.#open--;
    const { blockTokens } = this.#parts.cache;
    if (failure !== null && blocks <= from) {
      const { host, port } = fill.peer;
      const message = `Cannot fetch blocks from ${host}:${port}: ${failure}`;
      this.#ended.push({ key, result: null, error: new EngineError("WORKER_FAILED", message) });
    } else {
      const result = { storedTokens: blocks * blockTokens, storedBefore: from * blockTokens };
      this.#ended.push({ key, result, error: null });
    }
    this.#parts.onWake();
  }
}

function wrong(why: string): EngineError {
  return new EngineError("INVALID_ARGUMENT", `Cannot fetch blocks: ${why}`);
}
