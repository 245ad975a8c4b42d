/** The store behind an address or a path. */
import { EngineError, requireOptions, shortText } from "#base";
import { FolderStore, type FolderStoreOptions } from "./folder-store.ts";
import { isMilvusAddress, parseMilvusAddress } from "./milvus-address.ts";
import { MilvusStore } from "./milvus-store.ts";
import type { VectorStore } from "./vector-store.ts";

const SCHEME = /^[a-z][a-z0-9+.-]*:\/\//i;

/** Options of stores; those of folders have no effect on servers. */
export interface StoreOptions extends FolderStoreOptions {}

/**
 * Opens the store at `where`: a Milvus server at `milvus://`, `http://` or `https://`
 * (`parseMilvusAddress` says what such an address may have), else a folder. Throws
 * STORE_UNAVAILABLE where it cannot be used, INVALID_ARGUMENT for an address of another kind.
 */
export async function openStore(where: string, options: StoreOptions = {}): Promise<VectorStore> {
  requireOptions(options);
  if (isMilvusAddress(where)) {
    return MilvusStore.open(parseMilvusAddress(where), () => import("@zilliz/milvus2-sdk-node"));
  }
  if (SCHEME.test(where)) throw unknownScheme(where);
  return FolderStore.open(where, options);
}

/** Without what follows: an address may have a password. */
function unknownScheme(where: string): EngineError {
  const scheme = shortText(where.slice(0, where.indexOf("//")));
  const message =
    "Cannot open the store: an address must begin with milvus://, http:// or https://, current " +
    `value begins with ${scheme}//; use one of these, or the path of a folder`;
  return new EngineError("INVALID_ARGUMENT", message, { param: "store" });
}
