/** A decoder's layout and options → an engine that holds blocks for others and computes nothing. */
import { EngineError } from "#base";
import type { Checkpoint } from "#checkpoint";
import { type EngineInfo, type EngineOptions, loadedDrafts } from "#engine/protocol";
import { cacheWindow, type DecoderModel } from "#models";
import { elementCount } from "#tensor";
import { modelContextTokens, streamingOf } from "./attention-window.ts";
import { CachePlan } from "./cache-plan.ts";
import { decoderEmbedding } from "./embedding-info.ts";
import type { LoadedModel, Loading } from "./loading.ts";
import { MemoryEngine } from "./memory-engine.ts";
import { weightFormatFor } from "./memory-plan.ts";
import { startExchange } from "./open-exchange.ts";
import { fleetFingerprint, openMemory } from "./open-memory.ts";
import { refuseStages } from "./pipeline-stages.ts";

/** The books want a device; nothing is ever put there. */
const DEVICE_BLOCKS = 1;

/** Drafters whose keys and values are a part of the blocks. */
const WITH_BLOCKS = new Set(["draft-model", "eagle3"]);

/**
 * Weights are not read: of their files it takes the names and shapes of tensors, and the pieces by
 * which the fingerprint knows them. Throws INVALID_ARGUMENT for options that leave it no memory to
 * give, and what allocating that memory throws.
 */
export async function loadMemory(loading: Loading, model: DecoderModel): Promise<LoadedModel> {
  const { phases, checkpoint, device, context, way } = loading;
  const { options } = loading.message;
  const { spec } = model;
  checkOptions(options);
  refuseStages(options, "a worker that gives memory alone");
  const format = weightFormatFor(options, checkpoint, device);
  const plan = new CachePlan({
    ...{ device, options, checkpoint, spec, format },
    ...{ drafter: null, range: null },
  });
  const parts = {
    ...{ spec, weights: { format }, parameters: parametersOf(checkpoint), plan },
    ...{ follower: null, next: null, blocks: DEVICE_BLOCKS },
  };
  const memory = await phases.run("cache", () => openMemory(loading, parts));
  try {
    const fingerprint = await fleetFingerprint(loading, parts, memory);
    const engine = new MemoryEngine(memory, context.clock);
    const { vocabularySize } = spec;
    const contextTokensMax = Math.min(
      modelContextTokens(options, spec),
      options.scheduler.contextTokensMax ?? Number.POSITIVE_INFINITY,
    );
    const exchange =
      way &&
      startExchange(way, context, {
        ...{ engine, memory, fingerprint, contextTokensMax, vocabularySize },
        ...{ memoryAlone: true, bytesPerBlock: memory.bytesPerBlock, stages: null },
      });
    engine.onLoaded = (keys) => exchange?.loaded(keys);
    const info: EngineInfo = {
      architecture: spec.architecture,
      kind: "decoder",
      parameters: 0,
      vocabularySize,
      contextTokensMax,
      attentionWindow: cacheWindow(spec, streamingOf(options))?.tokens ?? null,
      groupWindows: memory.cache.windows.map((window) => window?.tokens ?? null),
      hiddenSize: spec.hiddenSize,
      embedding: decoderEmbedding(checkpoint, spec, contextTokensMax).info,
      pairScoring: null,
      device: `host memory alone, for blocks of ${device.description}`,
      weightFormat: format,
      kvFormat: memory.blocks.format,
      blockTokens: memory.blocks.blockTokens,
      blocks: memory.blocks.blocks,
      bytesPerBlock: memory.bytesPerBlock,
      fingerprint,
      kvAddress: way?.port.address ?? null,
      speculative: null,
    };
    const { cache: kvEvents } = memory;
    return { engine, generator: null, device, info, kvEvents, memory, exchange, stages: null };
  } catch (error) {
    await memory.close();
    throw error;
  }
}

function checkOptions(options: EngineOptions): void {
  const { hostCacheBytes } = options.kvCache;
  if (hostCacheBytes === 0) {
    throw refused(
      "hostCacheBytes",
      "hostCacheBytes must be above 0, which is all that it gives, current value is 0",
    );
  }
  const own = loadedDrafts(options).find(({ kind }) => WITH_BLOCKS.has(kind));
  if (own === undefined) return;
  throw refused(
    "speculative",
    "speculative must be a kind without keys and values of its own, current value is " +
      `${own.kind}; start all workers of the fleet with speculative.kind off or lookup ` +
      "(--speculative off)",
  );
}

function refused(param: string, why: string): EngineError {
  const message = `Cannot hold blocks for other engines: ${why}`;
  return new EngineError("INVALID_ARGUMENT", message, { param });
}

function parametersOf({ tensors }: Checkpoint): number {
  let parameters = 0;
  for (const { shape } of tensors.values()) parameters += elementCount(shape);
  return parameters;
}
