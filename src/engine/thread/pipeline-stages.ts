/** The stages of a model that is spread over several processes, as each of them sees it. */
import { fileURLToPath } from "node:url";
import { EngineError } from "#base";
import { SLOT_BYTES_MAX, type StageFacts, StageLink } from "#engine/pipeline";
import { type EngineOptions, isPipelined, loadedDrafts } from "#engine/protocol";
import { type DecoderModel, type KvLayout, type LayerRange, layerRanges } from "#models";
import type { Loading } from "./loading.ts";

/** What a stage knows of the model's spread. */
export interface PipelinePlace {
  /** Its layers; null: all, there is one stage. */
  readonly range: LayerRange | null;
  /** The stages behind it; null: it is the last one. */
  readonly next: StageLink | null;
}

/** Steps on their way beyond those that the stages compute. */
const SPARE_SLOTS = 2;

/** Node 20 cannot run TypeScript: from source, the process runs the built file. */
function entryPath(): string {
  const fromSource = import.meta.url.endsWith(".ts");
  const path = "../../../dist/engine/thread/stage-process.js";
  return fileURLToPath(new URL(fromSource ? path : "./stage-process.js", import.meta.url));
}

/** The options as a worker with stages takes them: a step is a chunk of the pipeline. */
export function pipelinedOptions(options: EngineOptions): EngineOptions {
  if (!isPipelined(options)) return options;
  const { scheduler, pipeline } = options;
  const { chunkTokens } = pipeline;
  if (chunkTokens < scheduler.runningSequencesMax) {
    throw unusable("pipeline.chunkTokens", {
      wanted: `at least the ${scheduler.runningSequencesMax} of runningSequencesMax`,
      current: String(chunkTokens),
      remedy: "raise it, or lower runningSequencesMax",
    });
  }
  return { ...options, scheduler: { ...scheduler, stepTokensMax: chunkTokens } };
}

/**
 * Starts the stages behind stage `index`, which load while this one does. Throws INVALID_ARGUMENT
 * for what stages cannot do, with the setting to change.
 */
export function openStages(loading: Loading, model: DecoderModel, index: number): PipelinePlace {
  const { message, context, device } = loading;
  const { options, path } = message;
  const { stages, timeoutMs } = options.pipeline;
  if (stages === 1) return { range: null, next: null };
  const { spec } = model;
  const ranges = layerRanges(spec.layers.length, stages);
  if (ranges === null) {
    throw unusable("pipeline.stages", {
      wanted: `at most the ${spec.layers.length} layers of the model`,
      current: String(stages),
      remedy: "lower it",
    });
  }
  checkOptions(options);
  const range = ranges[index] ?? null;
  if (index === stages - 1) return { range, next: null };
  const bytesPerSlot = slotBytes(options, spec.hiddenSize);
  const next = new StageLink({
    entry: entryPath(),
    plan: {
      ...{ index: index + 1, path, options: { ...options, device: device.kind } },
      slots: { slots: stages + SPARE_SLOTS, bytesPerSlot },
    },
    ...{ stages, timeoutMs, timer: context.timer, warn: context.warn },
    onBroken: context.onBroken,
  });
  return { range, next };
}

/** Of the hidden states of a chunk. */
function slotBytes({ scheduler }: EngineOptions, hiddenSize: number): number {
  const { stepTokensMax } = scheduler;
  const bytesPerToken = hiddenSize * Float32Array.BYTES_PER_ELEMENT;
  const tokensMax = Math.floor(SLOT_BYTES_MAX / bytesPerToken);
  if (stepTokensMax <= tokensMax) return stepTokensMax * bytesPerToken;
  throw unusable("pipeline.chunkTokens", {
    wanted: `at most ${tokensMax}, whose hidden states are 4 GiB`,
    current: String(stepTokensMax),
    remedy: "lower it",
  });
}

/** Runs the work of loading with the stages behind, which end if it fails. */
export async function withStages<T>({ next }: PipelinePlace, load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (error) {
    await next?.close();
    throw error;
  }
}

/** What this stage has, together with all behind it. */
export async function factsOf(
  own: { readonly blocks: number; readonly parameters: number; readonly device: string },
  { next }: PipelinePlace,
): Promise<StageFacts> {
  const { blocks, parameters, device } = own;
  if (next === null) return { blocks, parameters, devices: [device] };
  const facts = await next.loaded();
  return {
    blocks: Math.min(blocks, facts.blocks),
    parameters: parameters + facts.parameters,
    devices: [device, ...facts.devices],
  };
}

function checkOptions(options: EngineOptions): void {
  const { kvCache } = options;
  const [drafts] = loadedDrafts(options);
  if (drafts !== undefined) {
    throw unusable("speculative.kind", {
      wanted: "off",
      current: drafts.kind,
      remedy: "draft at workers of one stage, such as those that decode",
    });
  }
  if (kvCache.diskCacheBytes > 0) {
    throw unusable("kvCache.diskCacheBytes", {
      wanted: "0",
      current: String(kvCache.diskCacheBytes),
      remedy: "give the memory of the host more blocks: kvCache.hostCacheBytes",
    });
  }
}

/** Refuses to give blocks whose parts lie at different places in the blocks of each group. */
export function checkTravel(options: EngineOptions, layout: KvLayout): void {
  if (!isPipelined(options) || options.kvTransfer === null || layout.groups.length === 1) return;
  throw unusable("kvTransfer", {
    wanted: `null for a model with ${layout.groups.length} groups of layers`,
    current: "set",
    remedy: "leave it out, or take one stage",
  });
}

/** Refuses several stages for a model that has no layers to spread. */
export function refuseStages(options: EngineOptions, what: string): void {
  if (!isPipelined(options)) return;
  throw unusable("pipeline.stages", {
    wanted: `1 for ${what}`,
    current: String(options.pipeline.stages),
    remedy: "leave it out",
  });
}

function unusable(
  param: string,
  { wanted, current, remedy }: Record<"wanted" | "current" | "remedy", string>,
): EngineError {
  return new EngineError(
    "INVALID_ARGUMENT",
    `Cannot spread the model over stages: ${nameOf(param)} must be ${wanted}, current value is ` +
      `${current}; ${remedy}`,
    { param },
  );
}

/** Names of one word alone say too little without what they are a part of. */
function nameOf(param: string): string {
  const last = param.split(".").at(-1) ?? param;
  return last === last.toLowerCase() ? param : last;
}
