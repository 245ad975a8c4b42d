/** The store behind an address or a path. */
import { FolderStore, type FolderStoreOptions } from "./folder-store.ts";
import { isMilvusAddress, parseMilvusAddress } from "./milvus-address.ts";
import { MilvusStore } from "./milvus-store.ts";
import type { VectorStore } from "./vector-store.ts";

/** Options of stores; those of folders have no effect on servers. */
export interface StoreOptions extends FolderStoreOptions {}

/**
 * Opens the store at `where`: a Milvus server at `milvus://`, `http://` or `https://`
 * (`parseMilvusAddress` says what such an address may have), else a folder. Throws
 * STORE_UNAVAILABLE where it cannot be used.
 */
export async function openStore(where: string, options: StoreOptions = {}): Promise<VectorStore> {
  if (!isMilvusAddress(where)) return FolderStore.open(where, options);
  return MilvusStore.open(parseMilvusAddress(where), () => import("@zilliz/milvus2-sdk-node"));
}
