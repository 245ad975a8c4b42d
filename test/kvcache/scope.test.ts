import { expect, test } from "vitest";
import { type CacheScope, parseScope, scopeKey } from "#kvcache";

const SCOPES: readonly CacheScope[] = [null, 0, 1, 12].flatMap((loraId) =>
  [null, "a", "1", "1\na", "\na", "\n", "0\n"].map((cacheSalt) => ({ loraId, cacheSalt })),
);

test("[KV9] each adapter and salt has a key of its own, whatever the salt is", () => {
  expect(new Set(SCOPES.map(scopeKey)).size).toBe(SCOPES.length);
});

test("[KV9] a text that is no key, as a damaged file may have, is a salt and no adapter", () => {
  for (const key of ["a\nb", "-1\nb", "1.5\nb", " 1\nb", "4294967296\nb", "99999999999\nb"]) {
    expect(parseScope(key)).toEqual({ loraId: null, cacheSalt: key });
  }
  expect(parseScope("4294967295\nb")).toEqual({ loraId: 4294967295, cacheSalt: "b" });
});

test("[KV9] a key tells its adapter and salt", () => {
  for (const scope of SCOPES) expect(parseScope(scopeKey(scope))).toEqual(scope);
  expect(scopeKey({ loraId: null, cacheSalt: null })).toBe("");
  expect(scopeKey({ loraId: null, cacheSalt: "salt" })).toBe("salt");
});
