import { describe, expect, it } from "vitest";
import {
  checkedRewrite,
  leansOnEarlier,
  standaloneByRules,
  subjectOf,
} from "../../../src/rag/answering/follow-up.ts";

const subjects: readonly (readonly [string, string | null])[] = [
  ["What is the population of Sarvik?", "Sarvik"],
  ["When was the Orlen bridge built?", "the Orlen bridge"],
  ["Who designed the Kesset bridge?", "the Kesset bridge"],
  ["How is a block evicted?", "a block"],
  ["What does the retention priority do?", "the retention priority"],
  ["What does `--max-tokens` mean?", "`--max-tokens`"],
  ["Which flag sets poolBytes?", "poolBytes"],
  ["Why?", null],
];

const rewritten: readonly (readonly [string, string, string])[] = [
  ["When was the Orlen bridge built?", "Who designed it?", "Who designed the Orlen bridge?"],
  ["What is the population of Sarvik?", "And who is its mayor?", "Who is Sarvik's mayor?"],
  ["What is the population of Sarvik?", "What about Morrow?", "What is the population of Morrow?"],
  ["Where does Tamsin Vorle live?", "When was she born?", "When was Tamsin Vorle born?"],
  ["Where does Tamsin Vorle live?", "What is her job?", "What is Tamsin Vorle's job?"],
  ["How is a block evicted?", "Why?", "How is a block evicted: Why?"],
  ["How is a block evicted?", "What does that mean?", "What does that mean?"],
  ["How is a block evicted?", "And how is it stored?", "How is a block stored?"],
  // These stand alone.
  ["How is a block evicted?", "What is a beam?", "What is a beam?"],
  ["How is a block evicted?", "Does a step end when it fails?", "Does a step end when it fails?"],
];

describe("standaloneByRules", () => {
  it.each(subjects)("[RG90] finds the subject of %j: %j", (question, subject) => {
    expect(subjectOf(question)).toBe(subject);
  });

  it.each(rewritten)("[RG90] after %j, %j is %j", (question, next, expected) => {
    expect(standaloneByRules(next, [{ question, answer: "So." }])).toBe(expected);
  });

  it("[RG90] changes nothing where nothing was said before", () => {
    expect(standaloneByRules("Who designed it?", [])).toBe("Who designed it?");
    expect(leansOnEarlier("Who designed it?")).toBe(true);
  });
});

describe("checkedRewrite", () => {
  const turns = [{ question: "When was the Orlen bridge built?", answer: "1931 [1]" }];
  const check = (written: string) => checkedRewrite(written, "Who designed it?", turns);

  it("[RG90] takes a question in words of the conversation", () => {
    expect(check(' "Who designed the Orlen bridge?"\n')).toBe("Who designed the Orlen bridge?");
    expect(check("Question: Who designed the Orlen bridge?")).toBe(
      "Who designed the Orlen bridge?",
    );
  });

  it.each([
    "",
    "Tamsin Vorle, a famous architect from Kesset.",
    "Who designed the Orlen bridge?\nIt was Tamsin.",
    "the bridge ".repeat(60),
  ])("[RG90] refuses what is no such question: %j", (written) => {
    expect(check(written)).toBeNull();
  });
});
