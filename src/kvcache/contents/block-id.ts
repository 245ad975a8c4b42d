/** One block of the pool: 0 up to the pool's size. */
export type BlockId = number & { readonly kind: "BlockId" };

/** Names a block that a table, list or index of ours stores as a plain integer. */
export function blockId(value: number): BlockId {
  // The one place where integers become ids: typed arrays cannot carry the brand.
  return value as BlockId;
}
