import { assert } from "#base";
import {
  DraftPolicy,
  type DraftSources,
  Engine,
  type EngineParts,
  measureCosts,
  practise,
  type StepPolicy,
} from "#engine/loop";
import { loadedDrafts } from "#engine/protocol";
import { type CacheWindow, KvCache } from "#kvcache";
import { Scheduler } from "#scheduler";
import type { Loading } from "./loading.ts";

/** Blocks of the books that made-up requests run on: enough for all that are measured. */
const MEASURED_BLOCKS_MAX = 4096;
/** Made-up requests that may wait, whatever the queue of real ones may hold. */
const MEASURED_WAITING_MIN = 1024;

export interface PolicyParts {
  /** Of the engine that the policy is for. */
  readonly engineParts: EngineParts;
  /** Rows that one step can sample. */
  readonly sampledRowsMax: number;
  /** Most drafted tokens on a path of a tree; 0: drafts are chains. */
  readonly treePathMax: number;
  /** By group of layers: the window of its blocks. */
  readonly windows: readonly (CacheWindow | null)[];
}

/**
 * What decides how much of drafts is verified; null: all that is drafted is. It begins with what
 * steps take, as far as `speculative.measureMs` is enough to measure it.
 */
export async function draftPolicyOf(
  loading: Loading,
  parts: PolicyParts,
): Promise<DraftPolicy | null> {
  const { options } = loading.message;
  const { adaptive, measureMs } = options.speculative;
  if (!adaptive) return null;
  const { sampledRowsMax } = parts;
  if (loadedDrafts(options).length === 0 || measureMs === 0) return new DraftPolicy(sampledRowsMax);
  const ahead = await loading.phases.run("drafts", () => measureAhead(loading, parts));
  return new DraftPolicy(sampledRowsMax, ahead);
}

/** Made-up requests on the real device, whose cache is still empty, with books of their own. */
async function measureAhead({ message, context }: Loading, parts: PolicyParts) {
  const { options } = message;
  const { kvCache, speculative } = options;
  const waitingMax = Math.max(options.scheduler.waitingSequencesMax, MEASURED_WAITING_MIN);
  const config = { ...options.scheduler, waitingSequencesMax: waitingMax };
  const { engineParts, sampledRowsMax, treePathMax, windows } = parts;
  const { shape, scheduler, overlapSteps = false } = engineParts;
  const { contextTokensMax } = scheduler;
  const open = (drafts: { policy: StepPolicy } & Pick<DraftSources, "makeDrafter">): Engine => {
    const blocks = Math.min(MEASURED_BLOCKS_MAX, scheduler.stats().totalBlocks);
    const { blockTokens } = kvCache;
    const cache = new KvCache({ blocks, blockTokens, windows, prefixCaching: false });
    const { makeDrafter } = drafts;
    return new Engine({
      ...engineParts,
      scheduler: new Scheduler({ config, cache, contextTokensMax, overlapSteps, sampledRowsMax }),
      memory: null,
      shape: { ...shape, earlierOutputs: null, ...(makeDrafter && { makeDrafter }) },
      draftPolicy: drafts.policy,
    });
  };
  const [wanted, ...others] = loadedDrafts(options);
  assert(wanted !== undefined, "Cannot measure drafts: there are none");
  const lookup = wanted.kind === "lookup" ? wanted : others.find(({ kind }) => kind === "lookup");
  const isNetwork = wanted.kind !== "lookup";
  const lookupMax = isNetwork && !speculative.mixed ? 0 : (lookup?.lengthMax ?? 0);
  const length = treePathMax > 0 ? Math.min(wanted.lengthMax, treePathMax) : wanted.lengthMax;
  const width = treePathMax > 0 ? wanted.width : 1;
  const { vocabularySize } = shape;
  const common = { clock: context.clock, msMax: speculative.measureMs, contextTokensMax };
  const ahead = await measureCosts({
    ...{ ...common, vocabularySize, open, sampledRowsMax, lookupMax },
    sequencesMax: config.runningSequencesMax,
    network: isNetwork ? { length, width } : null,
  });
  await practise({
    ...{ ...common, vocabularySize },
    engine: open({ policy: new DraftPolicy(sampledRowsMax, ahead) }),
    draftShape: { kind: wanted.kind, length, width, besideMax: isNetwork ? lookupMax : 0 },
  });
  return ahead;
}
