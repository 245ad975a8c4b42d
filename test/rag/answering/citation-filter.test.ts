import { describe, expect, it } from "vitest";
import type { AskEvent, Source } from "#rag";
import { type AnswerPiece, CitationFilter } from "../../../src/rag/answering/citation-filter.ts";
import { CitedText } from "../../../src/rag/answering/cited-text.ts";
import { wordChunk } from "../../support/word-embedder.ts";

/** What the filter makes of a text, with the given sources; `step`: characters at a time. */
function piecesOf(text: string, sources: number, step: number): AnswerPiece[] {
  const filter = new CitationFilter(sources);
  const pieces: AnswerPiece[] = [];
  for (let at = 0; at < text.length; at += step) {
    pieces.push(...filter.feed(text.slice(at, at + step)));
  }
  return [...pieces, ...filter.end()];
}

const shown = (pieces: readonly AnswerPiece[]) =>
  pieces.map((piece) => (piece.type === "dropped" ? "" : piece.text)).join("");
const numbers = (pieces: readonly AnswerPiece[], type: AnswerPiece["type"]) =>
  pieces.flatMap((piece) => (piece.type === type && "number" in piece ? [piece.number] : []));

const cases: readonly (readonly [string, string, number[], number[]])[] = [
  ["18,240 [3]", "18,240 [3]", [3], []],
  ["One [1]. Two [9].", "One [1]. Two.", [1], [9]],
  ["Both [1, 2].", "Both [1][2].", [1, 2], []],
  ["Some [2,7,1] of", "Some [2][1] of", [2, 1], [7]],
  ["None [0] [4] left", "None left", [], [0, 4]],
  ["Twice [1][1]", "Twice [1][1]", [1, 1], []],
  ["Open [1", "Open [1", [], []],
  ["Not [a] one [1a] [-1]", "Not [a] one [1a] [-1]", [], []],
  ["In list[ 2] it", "In list[2] it", [], []],
  ["An [ 2] forged", "An [ 2] forged", [], []],
  ["Huge [99999999999999999999]", "Huge [99999999999999999999]", [], []],
  ["[2] begins", "[2] begins", [2], []],
];

describe("CitationFilter", () => {
  it.each(cases)("[RG87] %j is shown as %j", (text, expected, cited, dropped) => {
    for (let step = 1; step <= text.length; step++) {
      const pieces = piecesOf(text, 3, step);
      expect(shown(pieces)).toBe(expected);
      expect(numbers(pieces, "citation")).toEqual(cited);
      expect(numbers(pieces, "dropped")).toEqual(dropped);
    }
  });

  it("shows text as soon as it cannot be a citation", () => {
    const filter = new CitationFilter(3);
    expect(shown(filter.feed("It is 412"))).toBe("It is 412");
    expect(shown(filter.feed(" metres ["))).toBe(" metres");
    expect(shown(filter.feed("2"))).toBe("");
    expect(shown(filter.feed("] long"))).toBe(" [2] long");
  });
});

const sourcesOf = (...texts: readonly string[]): Source[] =>
  texts.map((text, place) => {
    return { number: place + 1, score: 1, chunk: wordChunk("a.md", text, { index: place }) };
  });

function answered(text: string, sources: readonly Source[]) {
  const cited = new CitedText(sources);
  const events: AskEvent[] = [];
  for (const character of text) events.push(...cited.feed(character));
  events.push(...cited.end(false));
  const said = events.map((event) => (event.type === "text" ? event.text : "")).join("");
  expect(said).toBe(cited.text);
  return cited;
}

describe("CitedText", () => {
  const sources = sourcesOf(
    "The Orlen bridge was built in 1931. Its architect was Tamsin Vorle.",
    "Sarvik has a population of 18,240.",
  );

  it("[RG88] tells which part of the answer a citation stands for, and whether it is there", () => {
    const { citations, text } = answered("Built in 1931 [1]. Sarvik has 99 [2].", sources);
    expect(citations).toEqual([
      { number: 1, at: 14, claim: "Built in 1931", support: "verbatim", by: "model" },
      { number: 2, at: 33, claim: "Sarvik has 99", support: null, by: "model" },
    ]);
    expect([text.slice(14, 17), text.slice(33, 36)]).toEqual(["[1]", "[2]"]);
  });

  it("[RG88] checks numbers in a row against the same words", () => {
    const { citations } = answered("Built in 1931 [1][2].", sources);
    expect(citations.map(({ claim, support }) => [claim, support])).toEqual([
      ["Built in 1931", "verbatim"],
      ["Built in 1931", null],
    ]);
  });

  it("[RG88] checks a number that begins a sentence against that sentence", () => {
    const { citations } = answered("According to [2], Sarvik has a population of 18,240.", sources);
    expect(citations).toMatchObject([{ number: 2, support: "words" }]);
  });

  it("cites the source of an answer in its very words, where the model cites none", () => {
    const { citations, text } = answered("Tamsin Vorle", sources);
    expect(text).toBe("Tamsin Vorle [1]");
    expect(citations).toEqual([
      { number: 1, at: 13, claim: "Tamsin Vorle", support: "verbatim", by: "match" },
    ]);
    expect(answered("Tamsin Vorle [7]", sources).citations).toEqual([]);
    expect(answered("No one at all", sources).citations).toEqual([]);
  });
});
