/** The exchange of blocks with other engines, for one that is being loaded. */
import { type BlockIdentity, KvExchange } from "#engine/exchange";
import type { Engine } from "#engine/loop";
import type { CacheMemory } from "#engine/tiers";
import type { ExchangeWay } from "./exchange-way.ts";
import type { LoadContext } from "./loading.ts";

/** What an engine with a cache gives to its exchange. */
export interface ExchangingEngine {
  readonly engine: Engine;
  readonly memory: CacheMemory;
  readonly fingerprint: string;
  readonly contextTokensMax: number;
  readonly vocabularySize: number;
}

/** Connects the way with the engine and its cache. */
export function startExchange(
  { port, traffic }: ExchangeWay,
  { clock, timer, onWake, warn }: LoadContext,
  { engine, memory, fingerprint, contextTokensMax, vocabularySize }: ExchangingEngine,
): KvExchange {
  const { cache, blocks, bytesPerBlock, sharingScope } = memory;
  const { blockTokens } = blocks;
  const identity: BlockIdentity = { fingerprint, blockTokens, bytesPerBlock };
  const limits = { contextTokensMax, vocabularySize, sharingScope };
  const exchange = new KvExchange({
    ...{ engine, cache, port, traffic, clock, timer, identity, ...limits, onWake, warn },
  });
  memory.onReceived(exchange.received);
  return exchange;
}
