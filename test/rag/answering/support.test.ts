import { describe, expect, it } from "vitest";
import type { Support } from "#rag";
import { supportOf } from "../../../src/rag/answering/support.ts";

const source =
  "The Orlen bridge was built in 1931 by Tamsin Vorle. It is 1,412 metres long and carries no " +
  "trains. Blocks of low priority are evicted first. Set `--max-tokens 64` or run `npm test`. " +
  "The Kesset bridge was opened in 1950.";

const cases: readonly (readonly [string, Support])[] = [
  ["1931", "verbatim"],
  ["in 1931", "verbatim"],
  ["1412 metres", "verbatim"],
  ["1,412 metres", "verbatim"],
  ["Tamsin Vorle", "verbatim"],
  ["`--max-tokens 64`", "verbatim"],
  ["The Orlen bridge was built in 1931 by Tamsin Vorle.", "verbatim"],
  ["Tamsin Vorle built the Orlen bridge in 1931", "words"],
  ["Blocks with low priority get evicted first", "words"],
  // Another number, name or literal.
  ["1932", null],
  ["193", null],
  ["412 metres", null],
  ["Tamsin Vorles", null],
  ["Tamsin Vorle built the Orlen bridge in 1932", null],
  ["Joren Hask built the Orlen bridge in 1931", null],
  ["Set `--min-tokens 64`", null],
  // Words that stand far from each other.
  ["The Orlen bridge was opened in 1950", null],
  // Denied in one of the two.
  ["The Orlen bridge is 1,412 metres long and carries trains", null],
  ["Blocks of low priority are not evicted first", null],
  // Nothing that could be checked.
  ["It is so.", null],
  ["", null],
  ["Yes", null],
];

describe("supportOf", () => {
  it.each(cases)("[RG88] %j: %s", (claim, expected) => {
    expect(supportOf(claim, source)).toBe(expected);
  });

  it("[RG88] ends in time for long texts", () => {
    const long = "word ".repeat(6000) + "a. ".repeat(2000);
    const start = performance.now();
    supportOf(`${"other ".repeat(2000)}1931`, long);
    expect(performance.now() - start).toBeLessThan(2000);
  });
});
