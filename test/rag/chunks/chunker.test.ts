import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { atomsOf, cutDocument, type Piece, passageOf } from "#rag/chunks";
import type { Section, SourceDocument } from "#rag/texts";
import { WordEmbedder, wordTokens } from "../../support/rag-word-embedder.ts";

const embedder = new WordEmbedder();
const count = (texts: readonly string[]) => embedder.countTokens(texts);

function documentOf(texts: readonly string[], headings: readonly string[] = []): SourceDocument {
  const sections: Section[] = [];
  let line = 1;
  for (const text of texts) {
    sections.push({ text, line, page: null, headings });
    line += text.split("\n").length - 1;
  }
  return { id: "a.md", hash: "0", sections, attributes: {} };
}

/** Text with everything that chunks may end at, and what they may not tear. */
const strangeText = fc
  .array(
    fc.oneof(
      fc.constantFrom(
        " ",
        "\n",
        "\n\n",
        "  \n\t",
        ". ",
        "! ",
        "。",
        "…) ",
        "\r\n",
        "\u00a0",
        "\u2028",
      ),
      fc.constantFrom("word", "Wort", "語", "👩‍👩‍👧", "e\u0301", "\ud83d\ude00", "```", "(x)."),
      fc.string({ unit: "grapheme", maxLength: 30 }),
      fc.string({ unit: "binary", maxLength: 8 }),
      fc.nat(700).map((length) => "x".repeat(length)),
      fc.nat(700).map((length) => " ".repeat(length)),
    ),
    { maxLength: 120 },
  )
  .map((parts) => parts.join(""));

/** That the pieces have all of a document, at their places. */
function expectWhole(document: SourceDocument, pieces: readonly Piece[]): void {
  for (const [index, section] of document.sections.entries()) {
    let covered = 0;
    for (const piece of pieces.filter((one) => one.section === index)) {
      const end = piece.start + piece.text.length;
      expect(section.text.slice(piece.start, end)).toBe(piece.text);
      expect(section.text.slice(covered, Math.max(covered, piece.start)).trim()).toBe("");
      expect(end).toBeGreaterThan(covered);
      covered = end;
      const first = (section.line ?? 0) + section.text.slice(0, piece.start).split("\n").length - 1;
      expect(piece.place.lines).toEqual([first, first + piece.text.split("\n").length - 1]);
      expect(piece.text.trim()).not.toBe("");
      expect(piece.text.isWellFormed()).toBe(section.text.isWellFormed());
    }
    expect(section.text.slice(covered).trim()).toBe("");
  }
}

describe("cutDocument", () => {
  it("[RG30] [RG32] keeps all text of any document in order, as it stands at its lines", async () => {
    const property = fc.asyncProperty(
      fc.array(strangeText, { maxLength: 4 }),
      fc.integer({ min: 16, max: 120 }),
      fc.integer({ min: 0, max: 8 }),
      async (texts, chunkTokens, overlapTokens) => {
        const document = documentOf(texts.filter((text) => text.isWellFormed()));
        expectWhole(document, await cutDocument(document, { chunkTokens, overlapTokens }, count));
      },
    );
    await fc.assert(property, { numRuns: 300 });
  });

  it("[RG31] makes no chunk of more tokens than the limit, with its headings", async () => {
    const property = fc.asyncProperty(
      strangeText,
      fc.array(fc.string({ maxLength: 40 }), { maxLength: 3 }),
      fc.integer({ min: 16, max: 80 }),
      async (text, headings, chunkTokens) => {
        const document = documentOf([text], headings);
        const pieces = await cutDocument(document, { chunkTokens, overlapTokens: 8 }, count);
        for (const { text: own, isHeaded } of pieces) {
          const passage = isHeaded ? passageOf(own, headings) : own;
          expect(wordTokens(passage) + 2).toBeLessThanOrEqual(chunkTokens);
        }
      },
    );
    await fc.assert(property, { numRuns: 300 });
  });

  it("[RG31] makes no chunk that is too long for a store, though white space has no tokens", async () => {
    const text = `a${" ".repeat(100_000)}b${"\n".repeat(9000)}c${" d".repeat(20_000)}`;
    const document = documentOf([text]);
    const limits = { chunkTokens: 2 ** 17, overlapTokens: 1000 };
    const pieces = await cutDocument(document, limits, count);
    expectWhole(document, pieces);
    expect(Math.max(...pieces.map((piece) => piece.text.length))).toBeLessThanOrEqual(16_000);
  });

  it("[RG31] holds where tokens of parts do not add up to those of the whole", async () => {
    const squared = async (texts: readonly string[]) =>
      texts.map((text) => 2 + Math.ceil(text.length ** 1.5 / 40));
    const document = documentOf(["The quick brown fox jumps over it. ".repeat(200)]);
    const pieces = await cutDocument(document, { chunkTokens: 60, overlapTokens: 0 }, squared);
    expectWhole(document, pieces);
    for (const { text } of pieces) expect((await squared([text]))[0]).toBeLessThanOrEqual(60);
  });

  it("[RG31] ends with single characters where even those have too many tokens", async () => {
    const document = documentOf(["ab 😀"]);
    const pieces = await cutDocument(
      document,
      { chunkTokens: 16, overlapTokens: 0 },
      async (texts) => texts.map((text) => (text === "" ? 1 : 99)),
    );
    expect(pieces.map(({ text }) => text)).toEqual(["a", "b", "😀"]);
  });

  it("[RG32] repeats whole sentences of the chunk before, within the overlap", async () => {
    const sentences = Array.from(
      { length: 40 },
      (_, at) => `Sentence number ${at} says that it is followed by the one of number ${at + 1}. `,
    );
    const document = documentOf([sentences.join("")]);
    const pieces = await cutDocument(document, { chunkTokens: 100, overlapTokens: 30 }, count);
    for (const [index, piece] of pieces.entries()) {
      const next = pieces[index + 1];
      if (next === undefined) break;
      const repeated = document.sections[0]?.text.slice(
        next.start,
        piece.start + piece.text.length,
      );
      expect(wordTokens(repeated ?? "")).toBeGreaterThan(10);
      expect(wordTokens(repeated ?? "")).toBeLessThanOrEqual(30);
      expect(next.text).toMatch(/^Sentence/);
    }
  });

  it("[RG33] ends at a paragraph rather than within one, and in one at a sentence", async () => {
    const paragraph =
      "One sentence of this paragraph says a thing or two, and so does the next one. ";
    const text = `${paragraph.repeat(3)}\n\n`.repeat(8);
    const limits = { chunkTokens: 90, overlapTokens: 0 };
    const pieces = await cutDocument(documentOf([text]), limits, count);
    expect(pieces).toHaveLength(8);
    expect(new Set(pieces.map((piece) => piece.text)).size).toBe(1);
    const long = await cutDocument(documentOf([paragraph.repeat(30)]), limits, count);
    expect(long.every((piece) => piece.text.endsWith("one."))).toBe(true);
  });

  it("[RG30] keeps the lines of a row, whose text has others", async () => {
    const row = { text: "a: 1\nb: 2", line: 7, lastLine: 8, page: null, headings: [] };
    const document = { ...documentOf([]), sections: [row] };
    const [piece] = await cutDocument(document, { chunkTokens: 64, overlapTokens: 0 }, count);
    expect(piece?.place.lines).toEqual([7, 8]);
  });

  it("counts many texts in one call, and takes time linear in the length of one line", async () => {
    let calls = 0;
    const counting = async (texts: readonly string[]) => {
      calls++;
      return texts.map((text) => 2 + Math.ceil(text.length / 4));
    };
    const document = documentOf(["x".repeat(2 ** 20)]);
    await cutDocument(document, { chunkTokens: 256, overlapTokens: 16 }, counting);
    expect(calls).toBeLessThan(100);
  });
});

describe("atomsOf", () => {
  it("[RG30] leaves no gap, and tears no character of joined marks near its limit", () => {
    const text = `${"x".repeat(395)}${"👩‍👩‍👧‍👦".repeat(4)}${"y".repeat(500)}`;
    const atoms = atomsOf(text);
    expect(atoms.map(({ start, end }) => text.slice(start, end)).join("")).toBe(text);
    expect(atoms[0]?.end).toBe(395);
  });
});
