import { EngineError } from "#base";
import type { WorkerInfo } from "#cluster/protocol";

/** Which contents a worker's blocks are. */
export interface WorkerScope {
  /** Workers of equal models share contents. */
  readonly model: string;
  readonly blockTokens: number;
}

/**
 * The scope of a worker's contents, the same in what feeds tell and what is looked up. Throws
 * INVALID_ARGUMENT for a worker that announces nothing.
 */
export function workerScope({ id, kv, fingerprint, models }: WorkerInfo): WorkerScope {
  if (kv === null) {
    throw new EngineError("INVALID_ARGUMENT", `Cannot follow KV events: ${id} announces none`);
  }
  return { model: fingerprint ?? models[0] ?? "", blockTokens: kv.blockTokens };
}
