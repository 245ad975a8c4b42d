import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ThinkingSplitter } from "../../../src/server/openai/thinking-splitter.ts";

/** What pieces of a text become together. */
function split(pieces: readonly string[], promptEnd = ""): [string, string] {
  const splitter = new ThinkingSplitter(promptEnd);
  const parts = [...pieces.map((piece) => splitter.push(piece)), splitter.finish()];
  return [parts.map(({ reasoning }) => reasoning).join(""), parts.map(({ rest }) => rest).join("")];
}

describe("a text", () => {
  test.for([
    ["no mark", "Four.", ["", "Four."]],
    ["white space before", "\n\nFour.", ["", "\n\nFour."]],
    ["a mark", "<think>\nA sum.\n</think>\n\nFour.", ["A sum.", "Four."]],
    ["white space before the mark", "\n<think>a</think>b", ["a", "b"]],
    ["Mistral's marks", "[THINK]a[/THINK]b", ["a", "b"]],
    ["no end", "<think>\nA sum, and", ["A sum, and", ""]],
    ["no reasoning", "<think>\n\n</think>\n\nFour.", ["", "Four."]],
    ["half a mark", "<thin", ["", "<thin"]],
    ["another tag", "<b>bold</b>", ["", "<b>bold</b>"]],
    ["a mark in the middle", "a <think>b</think>", ["", "a <think>b</think>"]],
    ["a second mark", "<think>a</think><think>b</think>", ["a", "<think>b</think>"]],
    ["half of the end", "<think>a </thi b</think>c", ["a </thi b", "c"]],
    ["nothing", "", ["", ""]],
    ["white space alone", " \n", ["", " \n"]],
  ] as const)("with %s", ([, text, expected]) => {
    expect(split([text])).toEqual(expected);
    expect(split([...text])).toEqual(expected);
  });

  test("whose prompt opens the reasoning begins within it", () => {
    expect(split(["A sum.</think>Four."], "assistant\n<think>\n")).toEqual(["A sum.", "Four."]);
    expect(split(["Four."], "assistant\n")).toEqual(["", "Four."]);
  });

  test("is split in the same way, however it is cut", () => {
    const piece = fc.constantFrom(
      "<think>",
      "</think>",
      "<",
      "/",
      "think",
      ">",
      " ",
      "\n",
      "a",
      "é",
    );
    fc.assert(
      fc.property(fc.array(piece), fc.array(fc.nat(9)), (parts, cuts) => {
        const text = parts.join("");
        const pieces: string[] = [];
        let at = 0;
        for (const cut of cuts) {
          pieces.push(text.slice(at, at + cut));
          at += cut;
        }
        pieces.push(text.slice(at));
        expect(split(pieces)).toEqual(split([text]));
      }),
      { seed: 7, numRuns: 500 },
    );
  });
});
