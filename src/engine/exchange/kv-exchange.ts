import type { EngineRequest, KvFill, RequestKey, StepOutput } from "#engine/protocol";
import type { EndedReceive } from "#kvcache";
import type { BlockAsk } from "./block-ask.ts";
import { BlockExports } from "./block-exports.ts";
import { BlockFills, type EndedFill } from "./block-fills.ts";
import { BlockImports, type RefusedImport } from "./block-imports.ts";
import { DiskLoads } from "./disk-loads.ts";
import type { ExchangeParts } from "./exchange-parts.ts";

/** Gives blocks to other engines, and fetches them from these. One per engine, on its thread. */
export class KvExchange {
  readonly #parts: ExchangeParts;
  readonly #imports: BlockImports;
  readonly #exports: BlockExports;
  readonly #fills: BlockFills;
  readonly #loads: DiskLoads;
  #transfers = 0;

  constructor(parts: ExchangeParts) {
    const next = () => ++this.#transfers;
    this.#parts = parts;
    this.#imports = new BlockImports(parts, next);
    this.#loads = new DiskLoads(parts);
    this.#fills = new BlockFills(parts, next, this.#loads);
    // What another engine has of a prompt is fetched before the rest is computed for a third.
    this.#exports = new BlockExports(parts, next, {
      add: (request, occupation) => this.#imports.start(request, occupation),
      abort: (key) => {
        if (!this.#imports.abort(key)) parts.engine.abort(key);
      },
    });
    const bring = (ask: BlockAsk) => this.#loads.bring(ask);
    parts.port.onAsk((message, from) => this.#exports.answer(message, from, bring));
  }

  /** Where other engines find this one's blocks. */
  get address() {
    return this.#parts.port.address;
  }

  /** Requests that wait for blocks: the engine does not know them yet. */
  get keys(): readonly RequestKey[] {
    return this.#imports.keys.filter((key) => !this.#exports.owns(key));
  }

  /** Whether blocks wait to be moved: another turn is needed. */
  get hasJobs(): boolean {
    return this.#parts.cache.peers.hasJobs;
  }

  /** Adds a request whose blocks are fetched first. Throws as `Engine.add` does. */
  add(request: EngineRequest): void {
    this.#imports.start(request);
  }

  /** Ends a request that still waits for its blocks; false: the engine has it, or it ended. */
  abort(key: RequestKey): boolean {
    return this.#imports.abort(key);
  }

  /** Fetches blocks that no request waits for. Throws as `BlockFills.start` does. */
  fill(key: RequestKey, fill: KvFill): void {
    this.#fills.start(key, fill);
  }

  /** Fills that ended since the last call. */
  takeEndedFills(): readonly EndedFill[] {
    return this.#fills.takeEnded();
  }

  /** Of an engine that gives memory alone: loads from disk that have ended. */
  loaded(keys: readonly number[]): void {
    this.#loads.loaded(keys);
  }

  /** See `CacheMemory.onReceived`. */
  readonly received = (ended: EndedReceive): void => {
    if (!this.#fills.received(ended)) this.#imports.received(ended);
  };

  /** Takes in a turn of the engine. Returns the requests that were refused since the last. */
  turn(step: StepOutput | null): readonly RefusedImport[] {
    for (const { key, prompt } of step?.outputs ?? []) {
      this.#imports.begun(key);
      this.#exports.computed(key, prompt?.cachedTokens ?? 0);
    }
    for (const { key, error } of step?.failures ?? []) {
      this.#imports.begun(key);
      this.#exports.failed(key, error.message);
      if (error.code === "ENGINE_STEP_FAILED") this.#exports.failAll(error.message);
    }
    if (this.#exports.active) this.#exports.advance();
    if (step === null) this.#yield();
    const refused = this.#imports.takeRefused();
    for (const { key, error } of refused) this.#exports.failed(key, error.message);
    return refused.filter(({ key }) => !this.#exports.owns(key));
  }

  /** Where nothing runs and a request waits, it may wait for blocks that transfers hold. */
  #yield(): void {
    const { cache, engine, onWake } = this.#parts;
    if (engine.stats().waiting === 0) return;
    const ended = cache.peers.yieldDevice();
    if (ended === null) return;
    this.#exports.yielded(ended);
    onWake();
  }

  /** Ends all transfers, and the connections to other engines. */
  async close(): Promise<void> {
    this.#imports.close();
    this.#fills.close();
    this.#loads.close();
    this.#exports.failAll("the engine is closed");
    await this.#parts.port.close();
  }
}
