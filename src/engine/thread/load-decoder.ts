/** A decoder's checkpoint and options → an engine with a cache. */

import { TREE_NODES_MAX } from "#base";
import {
  DecoderExecutor,
  KvDrafter,
  LateTokens,
  RowDrafter,
  runWorstSteps,
  TokenMover,
  TreeAcceptance,
} from "#engine/forward";
import { CommandBuilder, CommandRunner, Engine } from "#engine/loop";
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
  Decoder,
  type DecoderModel,
  type DecoderSpec,
  type DecoderWeights,
  draftElementsMax,
  type KvDraftNetwork,
  layerWindow,
  loadDecoderWeights,
  warmUp,
  wholeWeights,
} from "#models";
import { BatchWriter, Sampler } from "#sampling";
import { Scheduler, type TransferEstimates } from "#scheduler";
import { EarlierOutputs } from "#speculative";
import { modelContextTokens, servedTokens, streamingOf } from "./attention-window.ts";
import { CachePlan } from "./cache-plan.ts";
import { compilersOf } from "./compilers.ts";
import { draftPolicyOf } from "./draft-policy-of.ts";
import { decoderEmbedding } from "./embedding-info.ts";
import { endTokens } from "./end-tokens.ts";
import { idleSettings } from "./idle-settings.ts";
import { type LoadedDrafter, limitsOf, loadDrafter } from "./load-drafter.ts";
import { type LoadedModel, type Loading, watchWeights } from "./loading.ts";
import { weightFormatFor } from "./memory-plan.ts";
import { startExchange } from "./open-exchange.ts";
import { fleetFingerprint, openMemory } from "./open-memory.ts";

/** Rows of logits a step may need at once: one per running sequence, or a piece of a prompt. */
const PROMPT_LOGIT_ROWS = 64;
/** What rows of chains may read again: about as long as the launches take that a replay saves. */
const REREAD_BYTES_MAX = 4e9;

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
  const { weights, drafter } = await phases.run("weights", () => {
    const weights = loadDecoderWeights(device, model, { sources, format, onProgress });
    return { weights, drafter: loadDrafter(loading, { model, weights: wholeWeights(weights) }) };
  });
  const follower = drafter?.follower ?? null;
  const plan = new CachePlan({ device, options, checkpoint, spec, format, drafter: follower });
  // Before the pool, which on a GPU takes nearly all remaining memory.
  const step = await phases.run("steps", () =>
    makeSteps(loading, { spec, weights, plan, drafter }),
  );
  const cached = { spec, weights, plan, follower };
  const memory = await phases.run("cache", () => openMemory(loading, cached));
  try {
    const fingerprint = await fleetFingerprint(loading, cached, memory);
    await phases.run("graphs", () => makeGraphs(loading, { step, memory }));
    return await createEngine(loading, { spec, weights, step, memory, fingerprint });
  } catch (error) {
    // Disposing of the device frees its own memory, but not the folder of the disk level.
    await memory.close();
    throw error;
  }
}

async function createEngine(loading: Loading, parts: LoadedParts): Promise<LoadedModel> {
  const { message, context, checkpoint, device } = loading;
  const { options } = message;
  const { spec, memory } = parts;
  const overlapSteps = overlapsSteps(loading);
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
  const executor = new DecoderExecutor({
    ...{ device, decoder, sampler, memory, follower },
    kvCache: memory.blocks,
    clock: context.clock,
    promptRowsMax: PROMPT_LOGIT_ROWS,
    tokenMover: parts.step.tokenMover,
  });
  const eosTokenIds = endTokens(spec.eosTokenIds, checkpoint.generationConfig);
  const { vocabularySize } = spec;
  const { contextTokensMax } = scheduler;
  const embedding = decoderEmbedding(checkpoint, spec);
  const sources = draftSourcesOf(options, spec);
  const engineParts = {
    scheduler,
    runner: new CommandRunner({
      ...{ executor, builder, writer },
      drafter: follower ?? rowDrafterOf(parts.step),
    }),
    memory,
    overlapSteps,
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
  const exchanging = { engine, memory, fingerprint, contextTokensMax, vocabularySize };
  const exchange = loading.way && startExchange(loading.way, context, exchanging);
  const loaded = { engine, generator: engine, device, info, memory };
  return { ...loaded, kvEvents: memory.cache, exchange };
}

function infoOf(
  loading: Loading,
  { spec, weights, memory, step, fingerprint }: LoadedParts,
  { contextTokensMax, embedding }: Pick<EngineInfo, "contextTokensMax" | "embedding">,
): EngineInfo {
  const { blocks } = memory;
  const { device } = loading;
  const { options } = loading.message;
  return {
    architecture: spec.architecture,
    kind: "decoder",
    parameters: weights.parameters,
    vocabularySize: spec.vocabularySize,
    contextTokensMax,
    attentionWindow: cacheWindow(spec, streamingOf(options))?.tokens ?? null,
    groupWindows: memory.cache.windows.map((window) => window?.tokens ?? null),
    hiddenSize: spec.hiddenSize,
    embedding,
    device: device.description,
    weightFormat: weights.format,
    kvFormat: blocks.format,
    blockTokens: blocks.blockTokens,
    blocks: blocks.blocks,
    bytesPerBlock: memory.bytesPerBlock,
    fingerprint,
    kvAddress: loading.way?.port.address ?? null,
    speculative: speculationOf(options, spec, step.drafter),
  };
}

/** Rows of logits that a step has room for; drafted tokens get those that no sequence needs. */
function sampledRowsMax({ scheduler }: EngineOptions): number {
  return Math.max(scheduler.runningSequencesMax, PROMPT_LOGIT_ROWS);
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

interface DecoderParts {
  readonly spec: DecoderSpec;
  readonly weights: DecoderWeights;
}

/** The parts that compute steps, with all memory that they need. */
interface StepParts {
  readonly decoder: Decoder;
  readonly sampler: Sampler;
  readonly builder: CommandBuilder;
  readonly writer: BatchWriter;
  readonly tokenMover: TokenMover | null;
  readonly drafter: LoadedDrafter | null;
  /** The drafter's network where it has keys and values of its own; null: it has none. */
  readonly follower: KvDraftNetwork | null;
  /** Where the network's tokens wait for the next step; null: there is no network. */
  readonly late: LateTokens | null;
  /** Accepts drafts on the device; null: steps do not overlap, or there is no network. */
  readonly acceptance: TreeAcceptance | null;
}

interface LoadedParts extends DecoderParts {
  readonly step: StepParts;
  readonly memory: CacheMemory;
  /** `ModelInfo.fingerprint`. */
  readonly fingerprint: string;
}

/** Allocates memory of steps, and on a GPU runs the largest ones, which allocate the rest of it. */
async function makeSteps(
  loading: Loading,
  parts: DecoderParts & { readonly plan: CachePlan; readonly drafter: LoadedDrafter | null },
): Promise<StepParts> {
  const { spec, weights, plan, drafter } = parts;
  const { message, device } = loading;
  const { stepTokensMax, runningSequencesMax } = message.options.scheduler;
  const { blockTokens } = message.options.kvCache;
  // At least the scheduler's limit of a sequence.
  const contextTokensMax = plan.contextTokensMax();
  const logitRowsMax = sampledRowsMax(message.options);
  const chains = chainsOf(loading, plan);
  const limits = {
    ...{ stepTokensMax, logitRowsMax },
    // Rows of chains are sequences of their own in steps that are replayed.
    sequencesMax: chains === 0 ? runningSequencesMax : Math.max(runningSequencesMax, logitRowsMax),
    ...{ blockTokens, contextTokensMax },
    blocksPerSequenceMax: Math.ceil(contextTokensMax / blockTokens),
    treeTokensMax: treeTokensMax(message.options),
  };
  const streaming = streamingOf(message.options);
  const groups = plan.layout.groups.length;
  const { vocabularySize } = spec;
  const decoder = new Decoder({
    ...{ device, spec, weights, limits, streaming, layout: plan.layout },
    servedTokens: servedTokens(message.options, spec),
    taps: drafter?.follower?.taps ?? [],
  });
  const batches = { rowsMax: logitRowsMax, vocabularySize };
  const { network = null, follower: loaded = null } = drafter ?? {};
  const drafts = network === null && loaded === null ? null : limitsOf(loading);
  const draftElements = drafts === null ? 0 : draftElementsMax(drafts);
  const sampler = new Sampler({ device, ...batches, draftElements });
  const follower =
    loaded?.open(
      {
        ...limitsOf(loading),
        ...{ ...limits, stepSequencesMax: limits.sequencesMax },
        sequencesMax: runningSequencesMax,
        servedTokens: servedTokens(message.options, spec),
        streaming: plan.drafterStreaming,
      },
      decoder.tapped,
    ) ?? null;
  if (device.accelerator) {
    const { block, drafterBlock } = plan;
    const beside = follower && drafterBlock && { network: follower, block: drafterBlock };
    const parts = { device, decoder, sampler, limits, block, network, follower: beside };
    await runWorstSteps({ ...parts, rowsApart: chains > 0 });
  }
  const writer = new BatchWriter(batches);
  const builder = new CommandBuilder({ ...limits, groups, rereadTokensMax: chains });
  const tokenMover =
    limits.treeTokensMax === 0
      ? null
      : new TokenMover(device, {
          groupsMax: groups * runningSequencesMax,
          movesMax: groups * logitRowsMax,
        });
  const late = drafts && new LateTokens({ device, sampler, elementsMax: draftElements });
  const acceptance =
    network !== null && overlapsSteps(loading)
      ? new TreeAcceptance({ device, decoder, sampler, treesMax: runningSequencesMax })
      : null;
  return { decoder, sampler, builder, writer, tokenMover, drafter, follower, late, acceptance };
}

/** Whether the next step begins while one is computed. */
function overlapsSteps({ message: { options }, device }: Loading): boolean {
  return options.overlapSteps ?? device.runsLater;
}

/**
 * Tokens of the cache that the rows of chains may read again, so that their steps are replayed; 0:
 * none are. Sinks move keys by the length of a sequence, so its rows stay together.
 */
function chainsOf({ message: { options }, device }: Loading, plan: CachePlan): number {
  const isOff = loadedDrafts(options).length === 0 || options.kvCache.attentionSinks > 0;
  if (isOff || !device.replays) return 0;
  const { block, layout } = plan;
  const bytesPerToken =
    (device.kvBytesPerBlock(block) * layout.groups.length) / options.kvCache.blockTokens;
  return Math.floor(REREAD_BYTES_MAX / bytesPerToken);
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

/** Most tokens of a sequence under a tree mask; 0 where drafts are chains, as beside sinks. */
function treeTokensMax(options: EngineOptions): number {
  const isTree = loadedDrafts(options).some(({ width }) => width > 1);
  return isTree && options.kvCache.attentionSinks === 0 ? TREE_NODES_MAX : 0;
}

/** A window must be longer than the path of a tree (`AttentionBatch.treeMask`). */
function treePathMax(options: EngineOptions, spec: DecoderSpec): number {
  const streaming = streamingOf(options);
  const windows = spec.layers.map((layer) => layerWindow(layer, streaming) ?? TREE_NODES_MAX);
  return Math.max(0, Math.min(treeTokensMax(options), ...windows) - 1);
}

/** Rows of drafts up to which steps are captured in advance: more rarely pay. */
const WARM_DRAFT_ROWS = 64;

/** Captures decode steps in advance where the device runs them as CUDA graphs. */
async function makeGraphs(
  { message, context, device }: Loading,
  { step, memory }: Pick<LoadedParts, "step" | "memory">,
): Promise<void> {
  const isDrafting = loadedDrafts(message.options).length > 0;
  const trees = treeTokensMax(message.options);
  await warmUp({
    ...{ device, decoder: step.decoder, cache: memory.blocks, sampled: step.sampler.tokens },
    sequencesMax: message.options.scheduler.runningSequencesMax,
    drafts: isDrafting ? { rowsMax: WARM_DRAFT_ROWS, treeTokensMax: trees } : null,
    onProgress: (progress) => context.onProgress({ part: "graphs", ...progress }),
  });
  const { follower } = step;
  if (!device.replays || follower === null || memory.drafterBlocks === null) return;
  // Once op by op, and once to be captured.
  for (let run = 0; run < 2; run++) follower.runSizes(memory.drafterBlocks);
  await device.synchronize();
}
