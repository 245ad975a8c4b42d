import { expect, test } from "vitest";
import { candidateOf, policyOf, requestOf } from "../../contracts/routing-policy.ts";

test("[CL64] a prefix counts however long the output will be", () => {
  const levels = [40, 40, 40] as const;
  const candidates = [candidateOf({ id: "empty" }), candidateOf({ id: "warm", levels })];
  for (const outputTokens of [1, 1000, 1_000_000]) {
    for (let seed = 1; seed <= 20; seed++) {
      const { chosen, reason } = policyOf("kv", seed).choose(
        requestOf({ outputTokens }),
        candidates,
      );
      expect([chosen, reason]).toEqual([1, "prefix"]);
    }
  }
});
