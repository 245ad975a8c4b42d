/** The memory of a decoder's steps, allocated and measured while it is loaded. */
import { TREE_NODES_MAX } from "#base";
import { LateTokens, runWorstSteps, TokenMover, TreeAcceptance } from "#engine/forward";
import { CommandBuilder } from "#engine/loop";
import { type EngineOptions, loadedDrafts } from "#engine/protocol";
import type { CacheMemory } from "#engine/tiers";
import {
  Decoder,
  type DecoderSpec,
  type DecoderWeights,
  draftElementsMax,
  type KvDraftNetwork,
  warmUp,
} from "#models";
import { BatchWriter, Sampler } from "#sampling";
import { servedTokens, streamingOf } from "./attention-window.ts";
import type { CachePlan } from "./cache-plan.ts";
import { type LoadedDrafter, limitsOf } from "./load-drafter.ts";
import type { Loading } from "./loading.ts";

/** Rows of logits a step may need at once: one per running sequence, or a piece of a prompt. */
export const PROMPT_LOGIT_ROWS = 64;
/** What rows of chains may read again: about as long as the launches take that a replay saves. */
const REREAD_BYTES_MAX = 4e9;

export interface DecoderParts {
  readonly spec: DecoderSpec;
  readonly weights: DecoderWeights;
}

/** The parts that compute steps, with all memory that they need. */
export interface StepParts {
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

export interface StepsWanted extends DecoderParts {
  readonly plan: CachePlan;
  readonly drafter: LoadedDrafter | null;
  /** At least the scheduler's limit of a sequence. */
  readonly contextTokensMax: number;
}

/** Allocates memory of steps, and on a GPU runs the largest ones, which allocate the rest of it. */
export async function makeSteps(loading: Loading, parts: StepsWanted): Promise<StepParts> {
  const { spec, weights, plan, drafter, contextTokensMax } = parts;
  const { message, device } = loading;
  const { stepTokensMax, runningSequencesMax } = message.options.scheduler;
  const { blockTokens } = message.options.kvCache;
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
  // A part without the output layer samples nothing.
  const sampled = spec.part?.ends === false ? { ...batches, rowsMax: 1 } : batches;
  const sampler = new Sampler({ device, ...sampled, draftElements });
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
export function overlapsSteps({ message: { options }, device }: Loading): boolean {
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

/** Rows of logits that a step has room for; drafted tokens get those that no sequence needs. */
export function sampledRowsMax({ scheduler }: EngineOptions): number {
  return Math.max(scheduler.runningSequencesMax, PROMPT_LOGIT_ROWS);
}

/** Most tokens of a sequence under a tree mask; 0 where drafts are chains, as beside sinks. */
export function treeTokensMax(options: EngineOptions): number {
  const isTree = loadedDrafts(options).some(({ width }) => width > 1);
  return isTree && options.kvCache.attentionSinks === 0 ? TREE_NODES_MAX : 0;
}

/** The pools of steps. */
export type StepCaches = Pick<CacheMemory, "blocks" | "drafterBlocks">;

/** Rows of drafts up to which steps are captured in advance: more rarely pay. */
const WARM_DRAFT_ROWS = 64;

/** Captures decode steps in advance where the device runs them as CUDA graphs. */
export async function makeGraphs(
  { message, context, device }: Loading,
  { step, memory }: { readonly step: StepParts; readonly memory: StepCaches },
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
