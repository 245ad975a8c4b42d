import type { CacheLook } from "#kvcache";

/** A look into the cache, and how long it kept the engine's thread. */
export interface TimedLook extends CacheLook {
  readonly tookMs: number;
}
