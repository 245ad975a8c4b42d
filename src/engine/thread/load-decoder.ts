/** A decoder's checkpoint and options → an engine with a cache. */

import { TREE_NODES_MAX } from "#base";
import type { HostSlots } from "#devices";
import {
  DecoderExecutor,
  KvDrafter,
  PartExecutor,
  type PartExecutorParts,
  RowDrafter,
} from "#engine/forward";
import { CommandRunner, Engine, type StepExecutor } from "#engine/loop";
import type { StageLink } from "#engine/pipeline";
import {
  type EngineInfo,
  type EngineOptions,
  loadedDrafts,
  type SpeculationInfo,
} from "#engine/protocol";
import type { CacheMemory } from "#engine/tiers";
import {
  cacheWindow,
  checkStreaming,
  type DecoderModel,
  type DecoderSpec,
  type DecoderWeights,
  layerWindow,
  loadDecoderWeights,
  partOf,
  wholeWeights,
} from "#models";
import { Scheduler, type TransferEstimates } from "#scheduler";
import { EarlierOutputs } from "#speculative";
import { modelContextTokens, streamingOf } from "./attention-window.ts";
import { CachePlan } from "./cache-plan.ts";
import { compilersOf } from "./compilers.ts";
import { draftPolicyOf } from "./draft-policy-of.ts";
import { decoderEmbedding } from "./embedding-info.ts";
import { endTokens } from "./end-tokens.ts";
import { idleSettings } from "./idle-settings.ts";
import { type LoadedDrafter, loadDrafter } from "./load-drafter.ts";
import { type LoadedModel, type Loading, watchWeights } from "./loading.ts";
import {
  type DecoderParts,
  makeGraphs,
  makeSteps,
  overlapsSteps,
  PROMPT_LOGIT_ROWS,
  type StepParts,
  sampledRowsMax,
  treeTokensMax,
} from "./make-steps.ts";
import { weightFormatFor } from "./memory-plan.ts";
import { startExchange } from "./open-exchange.ts";
import { fleetFingerprint, openMemory } from "./open-memory.ts";
import { checkTravel, openStages, type PipelinePlace, withStages } from "./pipeline-stages.ts";
import { openOut } from "./stage-hidden.ts";

/** Default `prefillMsMax` of a CPU: most ms that prompts delay other sequences' tokens. */
const CPU_PREFILL_MS = 50;

/**
 * Throws what reading weights and allocating them and the cache throw, and INVALID_ARGUMENT for
 * attention sinks that the model does not support.
 */
export async function loadDecoder(loading: Loading, model: DecoderModel): Promise<LoadedModel> {
  const { phases, checkpoint, sources, device } = loading;
  const { options } = loading.message;
  const { spec } = model;
  const streaming = streamingOf(options);
  if (streaming !== null) checkStreaming(spec, streaming);
  const format = weightFormatFor(options, checkpoint, device);
  const onProgress = watchWeights(loading);
  const place = openStages(loading, model, 0);
  const { range, next } = place;
  return await withStages(place, async () => {
    const part = range === null ? model : partOf(model, range);
    const { weights, drafter } = await phases.run("weights", () => {
      const weights = loadDecoderWeights(device, part, { sources, format, onProgress });
      if (next !== null) return { weights, drafter: null };
      return { weights, drafter: loadDrafter(loading, { model, weights: wholeWeights(weights) }) };
    });
    const follower = drafter?.follower ?? null;
    const cache = { device, options, checkpoint, spec, range, format, drafter: follower };
    const plan = new CachePlan(cache);
    checkTravel(options, plan.layout);
    const parameters = await phases.run("weights", () => limitedBy(plan, place, model, weights));
    // Before the pool, which on a GPU takes nearly all remaining memory.
    const step = await phases.run("steps", async () => {
      const contextTokensMax = plan.contextTokensMax();
      next?.load({ type: "steps", contextTokensMax });
      const wanted = { spec: part.spec, weights, plan, drafter, contextTokensMax };
      const out = next && openOut(device, next);
      const step = await makeSteps(loading, wanted);
      await limitedBy(plan, place, model, weights);
      return { ...step, out };
    });
    const cached = { spec, weights, parameters, plan, follower, next };
    const memory = await phases.run("cache", () => openMemory(loading, cached));
    try {
      const hostBlocks = memory.cache.poolStats(1).total;
      next?.load({ type: "pool", blocks: memory.blocks.blocks, hostBlocks });
      const fingerprint = await fleetFingerprint(loading, cached, memory);
      await phases.run("graphs", () => makeGraphs(loading, { step, memory }));
      await next?.loaded();
      const parts = { spec, weights, parameters, plan, step, memory, next, fingerprint };
      return await createEngine(loading, parts);
    } catch (error) {
      // Disposing of the device frees its own memory, but not the folder of the disk level.
      await memory.close();
      throw error;
    }
  });
}

/** Takes in what the stages have so far; returns the parameters of all. */
async function limitedBy(
  plan: CachePlan,
  place: PipelinePlace,
  { spec }: DecoderModel,
  { parameters: own }: DecoderWeights,
): Promise<number> {
  if (place.next === null) return own;
  const { blocks, parameters } = await place.next.loaded();
  plan.limit(blocks);
  // A tied table is at both ends.
  return own + parameters - (spec.tied ? spec.vocabularySize * spec.hiddenSize : 0);
}

async function createEngine(loading: Loading, parts: LoadedParts): Promise<LoadedModel> {
  const { message, context, checkpoint, device } = loading;
  const { options } = message;
  const { spec, memory, next } = parts;
  // With stages, steps of known tokens begin ahead alone: what is sampled is not here.
  const overlapSteps = next === null && overlapsSteps(loading);
  const scheduler = new Scheduler({
    config: options.scheduler,
    cache: memory.cache,
    contextTokensMax: modelContextTokens(options, spec),
    overlapSteps,
    sampledRowsMax: sampledRowsMax(options),
    estimates: estimatesOf(memory, options),
  });
  const found = { hostBlocks: memory.cache.poolStats(1).total, modelTokens: spec.contextTokensMax };
  for (const text of idleSettings(options, found)) context.warn(text);
  const { decoder, sampler, builder, writer } = parts.step;
  const follower = kvDrafterOf(loading, parts);
  const { clock, timer } = context;
  const common = { device, decoder, memory, kvCache: memory.blocks, clock };
  const part = partExecutorOf(parts, { ...common, timer });
  const executor: StepExecutor =
    part ??
    new DecoderExecutor({
      ...{ ...common, sampler, follower, promptRowsMax: PROMPT_LOGIT_ROWS },
      tokenMover: parts.step.tokenMover,
    });
  const eosTokenIds = endTokens(spec.eosTokenIds, checkpoint.generationConfig);
  const { vocabularySize } = spec;
  const { contextTokensMax } = scheduler;
  const embedding = decoderEmbedding(checkpoint, spec, contextTokensMax);
  const sources = draftSourcesOf(options, spec);
  const engineParts = {
    scheduler,
    runner: new CommandRunner({
      ...{ executor, builder, writer },
      drafter: follower ?? rowDrafterOf(parts.step),
    }),
    memory,
    overlapSteps,
    ...(next !== null && { stepsAheadMax: options.pipeline.stages }),
    prefillMsMax: options.scheduler.prefillMsMax ?? (device.accelerator ? null : CPU_PREFILL_MS),
    clock: context.clock,
    onWake: context.onWake,
    shape: {
      ...{ vocabularySize, eosTokenIds, contextTokensMax },
      blockTokens: memory.blocks.blockTokens,
      embedding: embedding.pooling,
      promptLogprobsMax: options.promptLogprobsMax,
      ...sources,
    },
    createCompiler: compilersOf({ options, vocabularySize, eosTokenIds, clock: context.clock }),
  };
  const draftPolicy = await draftPolicyOf(loading, {
    ...{ engineParts, sampledRowsMax: sampledRowsMax(options) },
    ...{ treePathMax: sources.treePathMax, windows: memory.cache.windows },
  });
  const engine = new Engine({ ...engineParts, draftPolicy });
  const info = infoOf(loading, parts, { contextTokensMax, embedding: embedding.info });
  const { fingerprint } = parts;
  const { bytesPerBlock } = info;
  const limits = { contextTokensMax, vocabularySize, bytesPerBlock };
  const exchanging = { engine, memory, fingerprint, ...limits, stages: next };
  const exchange = loading.way && startExchange(loading.way, context, exchanging);
  const loaded = { engine, generator: engine, device, info, memory };
  return { ...loaded, kvEvents: memory.cache, exchange, stages: stagesOf(part, next) };
}

/** Null: all layers are here. */
function partExecutorOf(
  { next, step: { out } }: LoadedParts,
  common: Omit<PartExecutorParts, "next" | "out">,
): PartExecutor | null {
  return next === null || out === null ? null : new PartExecutor({ ...common, next, out });
}

function stagesOf(first: PartExecutor | null, next: StageLink | null): LoadedModel["stages"] {
  if (first === null || next === null) return null;
  return {
    close: () => next.close(),
    get times() {
      return [first.times, ...next.times];
    },
  };
}

function infoOf(
  loading: Loading,
  { spec, weights, parameters, plan, memory, step, fingerprint }: LoadedParts,
  { contextTokensMax, embedding }: Pick<EngineInfo, "contextTokensMax" | "embedding">,
): EngineInfo {
  const { blocks } = memory;
  const { device } = loading;
  const { options } = loading.message;
  return {
    architecture: spec.architecture,
    kind: "decoder",
    parameters,
    vocabularySize: spec.vocabularySize,
    contextTokensMax,
    attentionWindow: cacheWindow(spec, streamingOf(options))?.tokens ?? null,
    groupWindows: memory.cache.windows.map((window) => window?.tokens ?? null),
    hiddenSize: spec.hiddenSize,
    embedding,
    pairScoring: null,
    device: device.description,
    weightFormat: weights.format,
    kvFormat: blocks.format,
    blockTokens: blocks.blockTokens,
    blocks: blocks.blocks,
    bytesPerBlock: Math.round(memory.bytesPerBlock / plan.share),
    fingerprint,
    kvAddress: loading.way?.port.address ?? null,
    speculative: speculationOf(options, spec, step.drafter),
  };
}

/** Measured costs decide, unless stored blocks must be fetched at any cost. */
function estimatesOf({ cost }: CacheMemory, { kvCache }: EngineOptions): TransferEstimates {
  if (kvCache.onboard === "auto") return cost;
  return {
    recomputeMs: (tokens, start) => cost.recomputeMs(tokens, start),
    swapMs: (blocks) => cost.swapMs(blocks),
    loadPays: () => true,
  };
}

interface LoadedParts extends DecoderParts {
  /** Of all stages. */
  readonly parameters: number;
  readonly plan: CachePlan;
  /** `out`: where hidden states leave the device; null: nowhere. */
  readonly step: StepParts & { readonly out: HostSlots | null };
  readonly memory: CacheMemory;
  /** The stages behind this one; null: all layers are here. */
  readonly next: StageLink | null;
  /** `ModelInfo.fingerprint`. */
  readonly fingerprint: string;
}

function draftSourcesOf(options: EngineOptions, spec: DecoderSpec) {
  const { kind, earlierBytes } = options.speculative;
  const isKept = kind !== "off" && earlierBytes > 0;
  return {
    treePathMax: treePathMax(options, spec),
    earlierOutputs: isKept ? new EarlierOutputs(earlierBytes) : null,
  };
}

function rowDrafterOf({ decoder, drafter, late, acceptance }: StepParts): RowDrafter | null {
  const network = drafter?.network ?? null;
  return network && new RowDrafter({ decoder, network, late, acceptance });
}

function kvDrafterOf({ device }: Loading, { step, memory }: LoadedParts): KvDrafter | null {
  const { follower: network, late } = step;
  const { drafterBlocks: cache, blocks } = memory;
  if (network === null || cache === null) return null;
  return new KvDrafter({ device, network, cache, blocks: blocks.blocks, late });
}

function speculationOf(
  options: EngineOptions,
  spec: DecoderSpec,
  drafter: LoadedDrafter | null,
): SpeculationInfo | null {
  const [drafts] = loadedDrafts(options);
  if (drafts === undefined) return null;
  const { kind, lengthMax, width } = drafts;
  const pathMax = treePathMax(options, spec);
  const info = drafter?.info ?? null;
  const mixed = options.speculative.mixed && kind !== "lookup";
  if (pathMax === 0) return { kind, mixed, lengthMax, width: 1, drafter: info };
  return { kind, mixed, lengthMax: Math.min(lengthMax, pathMax), width, drafter: info };
}

/** A window must be longer than the path of a tree (`AttentionBatch.treeMask`). */
function treePathMax(options: EngineOptions, spec: DecoderSpec): number {
  const streaming = streamingOf(options);
  const windows = spec.layers.map((layer) => layerWindow(layer, streaming) ?? TREE_NODES_MAX);
  return Math.max(0, Math.min(treeTokensMax(options), ...windows) - 1);
}
