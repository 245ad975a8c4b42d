/** One block of the pool: 0 up to the pool's size. */
export type BlockId = number & { readonly kind: "BlockId" };

/** Brands an integer from a table, list or index as a block id. */
export function blockId(value: number): BlockId {
  // The one place where integers become ids: typed arrays cannot carry the brand.
  return value as BlockId;
}
