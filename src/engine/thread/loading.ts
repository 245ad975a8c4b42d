/** Inputs, state and result of loading. */
import type { Clock, EngineError, Timer } from "#base";
import type { Checkpoint } from "#checkpoint";
import type { Device } from "#devices";
import type { KvExchange } from "#engine/exchange";
import type { Engine, StepEngine } from "#engine/loop";
import type {
  EngineInfo,
  LoadMessage,
  LoadPhase,
  LoadProgress,
  StageTimes,
} from "#engine/protocol";
import type { CacheMemory } from "#engine/tiers";
import type { CacheAsk, CacheLook, KvSnapshot, NumberedKvEvent } from "#kvcache";
import type { WeightSupply } from "#models";
import { elementCount } from "#tensor";
import type { CountedMemory } from "./cache-stats.ts";
import type { ExchangeWay } from "./exchange-way.ts";
import type { LoadPhases } from "./load-phases.ts";

/** A loaded engine. Dispose of the engine first, then `stages`, `memory` and the device. */
export interface LoadedEngine {
  readonly engine: StepEngine;
  /** The same engine where the model is a decoder; null: an encoder, which generates nothing. */
  readonly generator: Engine | null;
  readonly device: Pick<Device, "dispose">;
  readonly info: EngineInfo;
  /** Where the cache's events come from; null for a model without a cache. */
  readonly kvEvents: KvEventOutlet | null;
  /** The cache's bytes in all levels; null for a model without a cache. */
  readonly memory: EngineMemory | null;
  /** Gives blocks to other engines and takes theirs; null: they stay here. */
  readonly exchange: KvExchange | null;
  /** The processes that have the model's further layers; null: all are here. */
  readonly stages: LoadedStages | null;
  /** Time and memory of each part of loading. */
  readonly phases: readonly LoadPhase[];
}

/** The further stages of a model, and what is known of all. */
export interface LoadedStages {
  close(): Promise<void>;
  /** Of all stages, the first one included. */
  readonly times: readonly StageTimes[];
}

/** What the thread itself asks of a cache's memory. */
export type EngineMemory = CountedMemory &
  Pick<CacheMemory, "close"> &
  Partial<Pick<CacheMemory, "flush">>;

/** The same without phases: the result for one kind of model. */
export type LoadedModel = Omit<LoadedEngine, "phases">;

/** The event interface of a cache: `KvCache` has it. */
export interface KvEventOutlet {
  /** All events since the last call; none where events are off. */
  takeEvents(): readonly NumberedKvEvent[];
  /** The contents that the taken events add up to; null where events are off. */
  snapshot(): KvSnapshot | null;
  /** What is where: a bounded scan. */
  look(ask: CacheAsk): CacheLook;
  /** Forgets cached blocks; those that are held stay. */
  forgetCached(): void;
}

export interface LoadContext {
  readonly clock: Clock;
  readonly timer: Timer;
  readonly warn: (message: string) => void;
  /** Receives the progress of slow parts of loading. */
  readonly onProgress: (progress: LoadProgress) => void;
  /** Called when work became possible outside a step. */
  readonly onWake: () => void;
  /** Called when a part of the engine in another process broke: it must not go on. */
  readonly onBroken: (error: EngineError) => void;
  /** Blocks were held for another engine: bytes of the device times seconds. */
  readonly onPeerServed: (kvByteSeconds: number) => void;
}

/** The state of loading. */
export interface Loading {
  readonly message: LoadMessage;
  readonly context: LoadContext;
  readonly phases: LoadPhases;
  readonly checkpoint: Checkpoint;
  /** Its weights, or random weights for its configuration. */
  readonly sources: WeightSupply;
  readonly device: Device;
  /** The way to other engines; null: there is none. */
  readonly way: ExchangeWay | null;
}

/** Reports the bytes of weights that were read, as the files have them: 4 bits of a block are 4. */
export function watchWeights({
  context,
  checkpoint,
  sources,
}: Loading): (elements: number) => void {
  const total = checkpoint.totalBytes;
  let all = 0;
  for (const { shape } of checkpoint.tensors.values()) all += elementCount(shape);
  // Random weights are not read.
  if (sources !== checkpoint.tensors || all === 0) return () => {};
  return (elements) => {
    const done = Math.round(total * Math.min(1, elements / all));
    context.onProgress({ part: "weights", done, total });
  };
}
