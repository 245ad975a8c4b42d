/** The store behind an address or a path. */
import { FolderStore, type FolderStoreOptions } from "./folder-store.ts";
import type { VectorStore } from "./vector-store.ts";

/** Options of all stores. */
export interface StoreOptions extends FolderStoreOptions {}

/**
 * Opens the store at `where`: a folder, which is made where there is none. Throws
 * STORE_UNAVAILABLE where it cannot be used.
 */
export async function openStore(where: string, options: StoreOptions = {}): Promise<VectorStore> {
  return FolderStore.open(where, options);
}
