/** What loading starts from, works with and brings. */
import type { Clock, Timer } from "#base";
import type { Checkpoint } from "#checkpoint";
import type { Device } from "#devices";
import type { EncoderEngine } from "#engine/forward";
import type { Engine } from "#engine/loop";
import type { EngineInfo, LoadMessage, LoadPhase, LoadProgress } from "#engine/protocol";
import type { CacheMemory } from "#engine/tiers";
import type { KvSnapshot, NumberedKvEvent } from "#kvcache";
import type { WeightSupply } from "#models";
import type { LoadPhases } from "./load-phases.ts";

/** What was loaded. Give `memory` back before the device, and the engine before both. */
export interface LoadedEngine {
  readonly engine: Engine | EncoderEngine;
  readonly device: Device;
  readonly info: EngineInfo;
  /** Where the cache's events come from; null for a model without a cache. */
  readonly kvEvents: KvEventOutlet | null;
  /** The cache's bytes in all levels; null for a model without a cache. */
  readonly memory: CacheMemory | null;
  /** What loading took. */
  readonly phases: readonly LoadPhase[];
}

/** The same, as what makes one kind of model knows it. */
export type LoadedModel = Omit<LoadedEngine, "phases">;

/** What a cache tells of itself: `KvCache` is one. */
export interface KvEventOutlet {
  /** All events since the last call; none where the cache tells nothing. */
  takeEvents(): readonly NumberedKvEvent[];
  /** All that the taken events add up to; null where the cache tells nothing. */
  snapshot(): KvSnapshot | null;
}

export interface LoadContext {
  readonly clock: Clock;
  readonly timer: Timer;
  readonly warn: (message: string) => void;
  /** Hears of parts of loading that take long. */
  readonly onProgress: (progress: LoadProgress) => void;
  /** Called when work became possible outside a step. */
  readonly onWake: () => void;
}

/** What loading works with. */
export interface Loading {
  readonly message: LoadMessage;
  readonly context: LoadContext;
  readonly phases: LoadPhases;
  readonly checkpoint: Checkpoint;
  /** Its weights, or such as are made up for its configuration. */
  readonly sources: WeightSupply;
  readonly device: Device;
}

/** Weights' bytes that were read, for whoever watches. */
export function watchWeights({ context, checkpoint, sources }: Loading): (bytes: number) => void {
  const total = checkpoint.totalBytes;
  // What is made up is there at once.
  if (sources !== checkpoint.tensors || total === 0) return () => {};
  return (done) => context.onProgress({ part: "weights", done: Math.min(done, total), total });
}
