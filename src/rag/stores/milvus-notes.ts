/** What a Milvus server lacks, and how it is made up for. */
import type { MilvusAddress } from "./milvus-address.ts";
import type { MilvusFeatures } from "./milvus-client.ts";

/** A sentence each. */
export function notesOf(address: MilvusAddress, features: MilvusFeatures): string[] {
  const notes: string[] = [];
  const hasSecret = address.user !== null || address.token !== null;
  if (features.isLite) {
    notes.push("Milvus Lite is for one process and one machine, and has no TLS of its own");
    if (hasSecret) notes.push("Milvus Lite has no users: user, password and token have no effect");
    notes.push("Milvus Lite compares no attribute with a list: lists are written as alternatives");
  }
  if (!features.hasBm25) {
    notes.push(
      "this version has no BM25: words are weighed here, with 100 words as the usual length",
    );
  }
  if (hasSecret && !address.hasTls && !features.isLite) {
    notes.push("without tls=true the password or token is sent unencrypted");
  }
  if (address.consistency !== "Strong") {
    notes.push(`with consistency=${address.consistency} a search may miss what was just stored`);
  }
  return notes;
}
