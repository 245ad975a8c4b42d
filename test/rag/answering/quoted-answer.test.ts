import { describe, expect, it } from "vitest";
import type { Source } from "#rag";
import { bestQuotes, passageSentences } from "../../../src/rag/answering/extract.ts";
import { checkedAnswer } from "../../../src/rag/answering/quoted-answer.ts";
import { wordChunk } from "../../support/word-embedder.ts";

const texts = [
  "The Orlen bridge was built in 1931. Its architect was Tamsin Vorle, who lived in Sarvik.",
  "| flag | meaning |\n|---|---|\n| `--speed` | Most tokens a second, 64 by default. |\n\n" +
    "- Bridges need no flags:\n  they stand.\n- A queue is emptied first.",
  "```\n$ perigee bridge --architect Vorle\n```\nPrompts wait in a queue; the queue holds 4096.",
];
const sources: Source[] = texts.map((text, place) => {
  return { number: place + 1, score: 1 - place, chunk: wordChunk("a.md", text, { index: place }) };
});
const told = (written: string, question: string) => {
  const { cited, events, isRefusal } = checkedAnswer(written, question, {
    ...{ given: sources.length, sources },
  });
  const said = events.map((event) => (event.type === "text" ? event.text : "")).join("");
  expect(said).toBe(cited.text);
  return { text: cited.text, isRefusal, citations: cited.citations };
};

describe("passageSentences", () => {
  it("takes items, rows, lines of code and sentences apart, and joins wrapped lines", () => {
    const all = texts.flatMap(passageSentences).map(({ text, isCode }) => [text, isCode]);
    expect(all).toEqual([
      ["The Orlen bridge was built in 1931.", false],
      ["Its architect was Tamsin Vorle, who lived in Sarvik.", false],
      ["flag — meaning", false],
      ["`--speed` — Most tokens a second, 64 by default.", false],
      ["Bridges need no flags: they stand.", false],
      ["A queue is emptied first.", false],
      ["$ perigee bridge --architect Vorle", true],
      ["Prompts wait in a queue; the queue holds 4096.", false],
    ]);
  });

  it("ends in time for long texts", () => {
    const start = performance.now();
    passageSentences("|".repeat(40_000) + "\n- ".repeat(20_000) + "a:\n".repeat(20_000));
    expect(performance.now() - start).toBeLessThan(2000);
  });
});

describe("bestQuotes", () => {
  it.each([
    ["When was the Orlen bridge built?", "The Orlen bridge was built in 1931."],
    ["How many tokens a second are there by default?", "64 by default"],
    ["How many prompts does the queue hold?", "the queue holds 4096"],
  ])("answers %j by %j", (question, part) => {
    expect(bestQuotes(question, sources, 1)[0]?.text).toContain(part);
  });

  it("has none for a question without words", () => {
    expect(bestQuotes("Why is it so?", sources, 1)).toEqual([]);
  });
});

describe("checkedAnswer", () => {
  const question = "When was the Orlen bridge built?";

  it("[RG95] tells what the model wrote where the best sentences confirm it", () => {
    expect(told("1931 [1]", question)).toMatchObject({ text: "1931 [1]", isRefusal: false });
    expect(told("1931", question).text).toBe("1931 [1]");
  });

  it.each(["1932 [1]", "4096 [3]", "The passages do not say.", "Tamsin Vorle [2]", ""])(
    "[RG95] quotes the best sentence in place of %j",
    (written) => {
      const { text, citations, isRefusal } = told(written, question);
      expect(text).toBe("The Orlen bridge was built in 1931. [1]");
      expect(isRefusal).toBe(false);
      const claim = "The Orlen bridge was built in 1931.";
      const at = claim.length + 1;
      expect(citations).toEqual([{ number: 1, at, claim, support: "verbatim", by: "match" }]);
    },
  );

  it.each(["Paris [1]", "1931 [1]"])("[RG95] refuses where no sentence fits, not %j", (written) => {
    const answer = told(written, "What is the capital of France?");
    expect(answer).toEqual({ text: "The passages do not say.", isRefusal: true, citations: [] });
  });
});
