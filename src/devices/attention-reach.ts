import { assert } from "#base";
import type { EncoderAttentionInput } from "./ops.ts";

/** Checks the reach of an encoder's attention, the same on every device; 0: there is none. */
export function reachOf({ reach }: Pick<EncoderAttentionInput, "reach">): number {
  if (reach === undefined) return 0;
  assert(Number.isInteger(reach) && reach >= 1, `Cannot attend with a reach of ${reach}`);
  return reach;
}
