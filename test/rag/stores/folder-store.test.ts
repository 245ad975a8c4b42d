import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openStore } from "#rag/stores";
import { storeContract } from "./contract.ts";

async function folderPlace(options: { readonly exactElements?: number } = {}) {
  const folder = await mkdtemp(join(tmpdir(), "perigee-store-"));
  return {
    open: () => openStore(folder, options),
    close: () => rm(folder, { recursive: true, force: true }),
  };
}

storeContract("a folder", () => folderPlace(), { hasModelScores: true, histories: 12 });
// So few elements are compared one by one that the index takes in nearly all rows.
storeContract("a folder with an index", () => folderPlace({ exactElements: 12 }), {
  hasModelScores: true,
  histories: 12,
});
