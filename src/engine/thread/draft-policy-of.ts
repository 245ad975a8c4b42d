import { DraftPolicy, Engine, type EngineParts, measureCosts } from "#engine/loop";
import { loadedDrafts } from "#engine/protocol";
import { type CacheWindow, KvCache } from "#kvcache";
import { Scheduler } from "#scheduler";
import type { Loading } from "./loading.ts";

/** Blocks of the books that made-up requests run on: enough for all that are measured. */
const MEASURED_BLOCKS_MAX = 4096;

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
function measureAhead({ message, context }: Loading, parts: PolicyParts) {
  const { options } = message;
  const { scheduler: config, kvCache, speculative } = options;
  const { engineParts, sampledRowsMax, treePathMax, windows } = parts;
  const { shape, scheduler, overlapSteps = false } = engineParts;
  const { contextTokensMax } = scheduler;
  const [wanted] = loadedDrafts(options);
  const lookup = loadedDrafts(options).find(({ kind }) => kind === "lookup");
  const isNetwork = wanted !== undefined && wanted.kind !== "lookup";
  const path = treePathMax > 0 ? treePathMax : Number.POSITIVE_INFINITY;
  return measureCosts({
    open: ({ policy, makeDrafter }) => {
      const blocks = Math.min(MEASURED_BLOCKS_MAX, scheduler.stats().totalBlocks);
      const { blockTokens } = kvCache;
      const cache = new KvCache({ blocks, blockTokens, windows, prefixCaching: false });
      return new Engine({
        ...engineParts,
        scheduler: new Scheduler({ config, cache, contextTokensMax, overlapSteps, sampledRowsMax }),
        memory: null,
        shape: { ...shape, earlierOutputs: null, makeDrafter },
        draftPolicy: policy,
      });
    },
    ...{ clock: context.clock, msMax: speculative.measureMs },
    ...{ sequencesMax: config.runningSequencesMax, sampledRowsMax, contextTokensMax },
    vocabularySize: shape.vocabularySize,
    lookupMax: isNetwork && !speculative.mixed ? 0 : (lookup?.lengthMax ?? 0),
    network: isNetwork
      ? {
          length: Math.min(wanted.lengthMax, path),
          width: treePathMax > 0 ? wanted.width : 1,
        }
      : null,
  });
}
