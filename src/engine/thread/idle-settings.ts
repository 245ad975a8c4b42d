/** Warnings about settings that are valid but have no effect. */
import type { EngineOptions } from "#engine/protocol";

/** Limits that the settings are compared with. */
export interface LoadedLimits {
  /** Blocks of host memory that were allocated. */
  readonly hostBlocks: number;
  /** Most tokens of a sequence that the model was made for. */
  readonly modelTokens: number;
}

/** Settings that have no effect, a sentence each, in the names of their fields. */
export function idleSettings(options: EngineOptions, loaded: LoadedLimits): string[] {
  return [...idleLevels(options, loaded), ...idleContext(options, loaded)];
}

function idleLevels({ kvCache, scheduler }: EngineOptions, { hostBlocks }: LoadedLimits): string[] {
  const { hostCacheBytes, diskCacheBytes, diskCacheDir, prefixCaching } = kvCache;
  const idle: string[] = [];
  if (scheduler.preemption === "swap" && hostBlocks === 0) {
    idle.push(
      "Preempted requests are computed again: to swap them hostCacheBytes must be above 0, " +
        `current value is ${hostCacheBytes}`,
    );
  }
  if (diskCacheDir !== null && diskCacheBytes === 0) {
    idle.push("No blocks go to disk: diskCacheBytes must be above 0, current value is 0");
  }
  if (diskCacheBytes > 0 && !prefixCaching) {
    idle.push("No blocks go to disk: prefixCaching must be on, current value is off");
  }
  if (hostCacheBytes > 0 && !prefixCaching && scheduler.preemption === "recompute") {
    idle.push(
      "No blocks go to host memory: prefixCaching must be on, or preemption swap or auto, " +
        "current values are off and recompute",
    );
  }
  return idle;
}

/** Only sinks let a sequence exceed the model's own context. */
function idleContext(
  { kvCache, scheduler }: EngineOptions,
  { modelTokens }: LoadedLimits,
): string[] {
  const asked = scheduler.contextTokensMax;
  if (asked === null || asked <= modelTokens || kvCache.attentionSinks > 0) return [];
  return [
    `Sequences end at the model's ${modelTokens} tokens: contextTokensMax must be at most that ` +
      `without attentionSinks, current value is ${asked}`,
  ];
}
