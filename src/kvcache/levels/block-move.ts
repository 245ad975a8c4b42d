import type { BlockId } from "#kvcache/contents";

/**
 * Bytes of one block that must be copied, all layers: within the device, from the device to host
 * memory, or back. Moves are carried out in the order in which they were decided, before the next
 * step computes: a source block's next holder writes it later.
 */
export interface BlockMove {
  readonly kind: "copy" | "offload" | "onboard";
  readonly from: BlockId;
  readonly to: BlockId;
}
