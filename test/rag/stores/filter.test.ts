import { describe, expect, it } from "vitest";
import { type Filter, passes } from "#rag";

const attributes = { author: "Ada", year: 1843, draft: false };
const cases: readonly (readonly [Filter, boolean])[] = [
  [{ type: "eq", key: "author", value: "Ada" }, true],
  [{ type: "eq", key: "author", value: "Bob" }, false],
  [{ type: "eq", key: "draft", value: false }, true],
  [{ type: "eq", key: "year", value: "1843" }, false],
  [{ type: "ne", key: "year", value: "1843" }, true],
  [{ type: "ne", key: "missing", value: 1 }, true],
  [{ type: "eq", key: "toString", value: "x" }, false],
  [{ type: "gt", key: "year", value: 1842 }, true],
  [{ type: "gt", key: "year", value: 1843 }, false],
  [{ type: "gte", key: "year", value: 1843 }, true],
  [{ type: "lt", key: "author", value: "Bob" }, true],
  [{ type: "lte", key: "author", value: 7 }, false],
  [{ type: "lt", key: "draft", value: true }, false],
  [{ type: "in", key: "author", value: ["Ada", "Bob"] }, true],
  [{ type: "in", key: "missing", value: ["Ada"] }, false],
  [{ type: "nin", key: "missing", value: ["Ada"] }, true],
  [{ type: "nin", key: "author", value: ["Ada"] }, false],
  [{ type: "and", filters: [] }, true],
  [{ type: "or", filters: [] }, false],
  [
    {
      type: "or",
      filters: [
        { type: "eq", key: "year", value: 1 },
        {
          type: "and",
          filters: [
            { type: "eq", key: "author", value: "Ada" },
            { type: "lt", key: "year", value: 1900 },
          ],
        },
      ],
    },
    true,
  ],
];

describe("passes", () => {
  it.each(cases)("[RG1] %j: %s", (filter, expected) => {
    expect(passes(filter, attributes)).toBe(expected);
  });
});
