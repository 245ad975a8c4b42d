import type { Clock, Timer } from "#base";
import type { EngineRequest, LoopStats, RequestKey } from "#engine/protocol";
import type { KvCache, Occupation } from "#kvcache";
import type { BlocksToCome } from "./block-ask.ts";
import type { PeerPort } from "./peer-port.ts";
import type { PeerTraffic } from "./peer-traffic.ts";
import type { OfferingStages } from "./staged-link.ts";

/** What an exchange works with. */
export interface ExchangeParts {
  readonly engine: ExchangeEngine;
  readonly cache: KvCache;
  readonly port: PeerPort;
  /** The same that carries the cache's jobs. */
  readonly traffic: PeerTraffic;
  readonly clock: Clock;
  readonly timer: Timer;
  /** Who blocks can be exchanged with: engines of the same values. */
  readonly identity: BlockIdentity;
  /** Engines whose device has the same may copy from this one's; null: none can. */
  readonly sharingScope: string | null;
  /** It computes nothing, for itself or others, and is told which blocks to fetch. */
  readonly memoryAlone: boolean;
  readonly contextTokensMax: number;
  readonly vocabularySize: number;
  /** Those that have the further layers of each block: nothing is fetched then; null: none have. */
  readonly stages: OfferingStages | null;
  /** Something changed that the engine's next turn must see. */
  readonly onWake: () => void;
  readonly warn: (message: string) => void;
  /** Told what was held for another engine, when it is not any more. */
  readonly onServed: (heldBlockMs: number) => void;
}

/** All that a block's bytes depend on beside tokens. */
export interface BlockIdentity {
  /** `ModelInfo.fingerprint`. */
  readonly fingerprint: string;
  readonly blockTokens: number;
  readonly bytesPerBlock: number;
}

/** The engine's part in it. */
export interface ExchangeEngine {
  /** Throws as `Engine.add` does. */
  add(request: EngineRequest, occupation?: Occupation): void;
  abort(key: RequestKey): void;
  stats(): Pick<LoopStats, "waiting">;
}

/** Why what stages offer cannot be the ends of blocks; null: it can. */
export function wrongParts(
  { parts = [] }: Pick<BlocksToCome, "parts">,
  { bytesPerBlock }: Pick<BlockIdentity, "bytesPerBlock">,
): string | null {
  const partBytes = parts.reduce((sum, { bytes }) => sum + bytes, 0);
  if (partBytes < bytesPerBlock) return null;
  return `its stages offer ${partBytes} of a block's ${bytesPerBlock} bytes`;
}

/**
 * Blocks of so many tokens that can be stored: with `tails` the last may be filled in part. Of a
 * prompt all tokens but the last are stored, which the engine that samples computes.
 */
export function storedBlocks(tokens: number, blockTokens: number, tails: boolean): number {
  return tails ? Math.ceil(tokens / blockTokens) : Math.floor(tokens / blockTokens);
}
