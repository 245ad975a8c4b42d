/** A decoder's cache in all levels, with the part of its blocks that is a drafter's. */
import { hostMemory } from "#devices";
import { type OfferingStages, stagedLink } from "#engine/exchange";
import type { EngineOptions } from "#engine/protocol";
import { CacheMemory, type FingerprintInput, modelFingerprint } from "#engine/tiers";
import { attentionWeight } from "#kvcache";
import type { DecoderSpec, DecoderWeights } from "#models";
import { servedTokens } from "./attention-window.ts";
import { type CachePlan, ofShare } from "./cache-plan.ts";
import { kvIdentity } from "./kv-identity.ts";
import type { LoadedFollower } from "./load-drafter.ts";
import type { Loading } from "./loading.ts";

/** What the blocks are for. */
export interface MemoryParts {
  readonly spec: DecoderSpec;
  readonly weights: Pick<DecoderWeights, "format">;
  /** Of the whole model. */
  readonly parameters: number;
  readonly plan: CachePlan;
  /** Blocks of the device. Default: what the plan says. */
  readonly blocks?: number;
  /** A drafter with keys and values of its own; null: there is none. */
  readonly follower: LoadedFollower | null;
  /** The stages that have the further layers; null: all are here. */
  readonly next: OfferingStages | null;
}

/** The pool takes the memory that weights and steps leave, as far as it is useful. */
export async function openMemory(loading: Loading, parts: MemoryParts): Promise<CacheMemory> {
  const { message, context, device } = loading;
  const { spec, parameters, plan, next } = parts;
  const options = ofShare(message.options, plan.share);
  const { blocks = plan.blocks() } = parts;
  return await CacheMemory.open({
    device,
    memory: { ...plan.block, blocks },
    drafterMemory: plan.drafterPool(blocks),
    settings: options.kvCache,
    windows: plan.windows,
    attentionWeight: attentionWeight({
      parameters,
      layers: spec.layers.length,
      heads: spec.heads,
      headDim: spec.headDim,
    }),
    fingerprint: (layout, drafterLayout) => fingerprintOf(loading, parts, [layout, drafterLayout]),
    clock: context.clock,
    timer: context.timer,
    hostBytesFree: hostMemory().availableBytes,
    warn: context.warn,
    onFinished: context.onWake,
    peers: loading.way && stagedLink(loading.way.traffic, next),
    sharesDevice: sharesDevice(options, next),
    peerBlocks:
      2 * plan.layout.groups.length * Math.ceil(plan.contextTokensMax() / plan.block.blockTokens),
  });
}

/** Whether readers may copy from the device: of several stages it has a part of each block. */
function sharesDevice({ kvTransfer }: EngineOptions, next: OfferingStages | null): boolean {
  return kvTransfer?.path !== "host" && kvTransfer?.memoryAlone !== true && next === null;
}

/**
 * Of weights, arithmetic and KV format: workers of equal ones compute the same tokens, whatever
 * machine they are on.
 */
export function fleetFingerprint(
  loading: Loading,
  parts: MemoryParts,
  { blocks, drafterBlocks }: Pick<CacheMemory, "blocks" | "drafterBlocks">,
): Promise<string> {
  const { plan } = parts;
  const layout = plan.share === 1 ? blocks.layout : wholeLayout(loading, plan);
  const layouts = [layout, drafterBlocks?.layout ?? null] as const;
  return fingerprintOf(loading, parts, layouts, { fileTimes: false });
}

/** Of blocks with all layers, of which some are elsewhere. */
function wholeLayout({ device }: Loading, { whole }: CachePlan): string {
  const pool = device.allocateKvPool({ ...whole.block, blocks: 1 });
  const { layout } = pool;
  device.release(pool);
  return layout;
}

/** `layouts`: of the model's pool and of the drafter's, null where there is none. */
async function fingerprintOf(
  { message: { options }, checkpoint, device }: Loading,
  { spec, weights, plan, follower }: MemoryParts,
  [layout, drafterLayout]: readonly [string, string | null],
  how: Pick<FingerprintInput, "fileTimes"> = {},
): Promise<string> {
  const common = { options, device, weightFormat: weights.format };
  let drafter: FingerprintInput | null = null;
  if (follower !== null && drafterLayout !== null) {
    const { windows } = follower;
    drafter = kvIdentity({
      ...{ ...common, checkpoint: follower.checkpoint, layout: drafterLayout },
      spec: { ...follower.spec, layers: windows.map((window) => ({ window })) },
      places: windows.map((_, layer) => ({ group: 0, layer })),
      streaming: plan.drafterStreaming,
      servedTokens: Math.min(follower.spec.contextTokensMax, servedTokens(options, spec)),
    });
  }
  const { places } = plan.whole.layout;
  const identity = kvIdentity({ ...common, checkpoint, spec, layout, places, drafter });
  return await modelFingerprint({ ...identity, ...how });
}
