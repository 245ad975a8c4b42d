/** The exchange of blocks with other engines, for one that is being loaded. */
import {
  type BlockIdentity,
  type ExchangeParts,
  KvExchange,
  type OfferingStages,
} from "#engine/exchange";
import type { CacheMemory } from "#engine/tiers";
import type { ExchangeWay } from "./exchange-way.ts";
import type { LoadContext } from "./loading.ts";

/** What an engine with a cache gives to its exchange. */
export interface ExchangingEngine {
  readonly engine: ExchangeParts["engine"];
  readonly memory: CacheMemory;
  readonly fingerprint: string;
  readonly contextTokensMax: number;
  readonly vocabularySize: number;
  /** Default: false, the engine computes. */
  readonly memoryAlone?: boolean;
  /** Of a block in all stages. */
  readonly bytesPerBlock: number;
  /** Those that have the further layers; null: all are here. */
  readonly stages: OfferingStages | null;
}

/** Connects the way with the engine and its cache. */
export function startExchange(
  { port, traffic }: ExchangeWay,
  { clock, timer, onWake, onPeerServed, warn }: LoadContext,
  given: ExchangingEngine,
): KvExchange {
  const { engine, memory, fingerprint, contextTokensMax, vocabularySize } = given;
  const { bytesPerBlock, stages, memoryAlone = false } = given;
  const { cache, blocks, sharingScope } = memory;
  const { blockTokens } = blocks;
  const identity: BlockIdentity = { fingerprint, blockTokens, bytesPerBlock };
  const limits = { contextTokensMax, vocabularySize, sharingScope, memoryAlone };
  const exchange = new KvExchange({
    ...{ engine, cache, port, traffic, clock, timer, identity, ...limits, stages, onWake, warn },
    onServed: (heldBlockMs) => onPeerServed((heldBlockMs * bytesPerBlock) / 1000),
  });
  memory.onReceived(exchange.received);
  return exchange;
}
