import { describe, it } from "vitest";
import { openStore } from "#rag/stores";
import { storeContract } from "./contract.ts";
import { MilvusLite, noMilvus } from "./milvus-lite.ts";

if (noMilvus === null) {
  storeContract(
    "Milvus Lite",
    async () => {
      const lite = await MilvusLite.start();
      return { open: () => openStore(lite.url), close: () => lite.close() };
    },
    { hasModelScores: false, histories: 6 },
  );
} else {
  describe.skip(`Milvus (${noMilvus})`, () => {
    it("has no server to run against", () => {});
  });
}
