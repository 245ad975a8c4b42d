import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  expressionOf,
  readAttributes,
  storedAttributes,
  textLiteral,
} from "../../../src/rag/stores/milvus-filter.ts";
import { attributeSets, filters } from "./corpus-cases.ts";

/** Literals of an expression: what stands between quotes, with its escapes. */
const LITERAL = /"(?:[^"\\\n\r]|\\.)*"/g;
/** All else that an expression of ours has. */
const REST =
  /^(?:key|document|attributes|exists|not|and|or|in|[0-9.eE+-]|true|false|[\s()[\],<>=!])*$/;

/** Characters that end or escape literals, and any others. */
const awkwardTexts = fc
  .array(
    fc.oneof(
      fc.constantFrom('"', "\\", "\n", "\r", "\t", "'", "\0", "\u2028", "🦊", "n"),
      fc.integer({ min: 0, max: 0xd7ff }).map((code) => String.fromCharCode(code)),
    ),
  )
  .map((characters) => characters.join(""));

describe("expressions of Milvus", () => {
  it("[RG24] hold any value within its literal", () => {
    fc.assert(
      fc.property(awkwardTexts, (text) => {
        const literal = textLiteral(text);
        expect(literal.replace(LITERAL, "")).toBe("");
        const read = literal.slice(1, -1).replace(/\\(.)/g, (_, escaped: string) => {
          return { n: "\n", r: "\r", t: "\t" }[escaped] ?? escaped;
        });
        expect(read).toBe(text);
      }),
    );
  });

  it.each([true, false])(
    "[RG24] of any filter are of our own words but for literals (lists: %s)",
    (hasLists) => {
      fc.assert(
        fc.property(filters, (filter) => {
          const expression = expressionOf(filter, hasLists);
          expect(expression.replace(LITERAL, "")).toMatch(REST);
          expect(expression).not.toMatch(/not \(/);
        }),
      );
    },
  );

  it("[RG1] ask for absence, and compare values of one type alone", () => {
    const cases = [
      [{ type: "eq", key: "a", value: 1 }, 'attributes["n_a"] == 1'],
      [{ type: "eq", key: "a", value: "1" }, 'attributes["s_a"] == "1"'],
      [
        { type: "ne", key: "a", value: true },
        '(not exists attributes["b_a"] or attributes["b_a"] != true)',
      ],
      [
        { type: "in", key: "a", value: [1, "x"] },
        '(attributes["s_a"] in ["x"] or attributes["n_a"] in [1])',
      ],
      [{ type: "in", key: "a", value: [] }, 'key == ""'],
      [{ type: "nin", key: "a", value: [] }, 'key != ""'],
      [{ type: "gt", key: "a", value: 1e19 }, 'attributes["n_a"] > 1e+19'],
      [{ type: "lt", key: "a", value: true }, 'key == ""'],
    ] as const;
    for (const [filter, expression] of cases) expect(expressionOf(filter, true)).toBe(expression);
  });

  it("[RG1] keep attributes as they are", () => {
    fc.assert(
      fc.property(attributeSets, (attributes) => {
        const stored = JSON.parse(JSON.stringify(storedAttributes(attributes)));
        expect(readAttributes(stored)).toEqual(attributes);
      }),
    );
  });
});
