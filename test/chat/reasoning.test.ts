import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { AnswerReader, callFormat, type OutputPart, PlainParser, reasoningFormat } from "#chat";

const marks = { start: "<think>", end: "</think>" };
const bytes = new TextEncoder();

/** Every character is a token, and the end mark is one, too. */
const END_ID = 0;
const tokenBytes = (id: number): Uint8Array =>
  bytes.encode(id === END_ID ? marks.end : String.fromCodePoint(id));

function idsOf(text: string): number[] {
  const parts = text.split(marks.end);
  return parts.flatMap((part, place) => {
    const ids = [...part].map((char) => char.codePointAt(0) ?? 0);
    return place === 0 ? ids : [END_ID, ...ids];
  });
}

interface Read {
  readonly reasoning: string;
  readonly content: string;
  readonly calls: number;
  readonly tokens: number;
}

interface Reading {
  readonly opened?: boolean;
  readonly endTokenId?: number | null;
  readonly pieces?: (ids: readonly number[]) => readonly (readonly number[])[];
}

function read(text: string, { opened = false, endTokenId = END_ID, pieces }: Reading = {}): Read {
  const answer = callFormat("hermes").createParser({
    tools: new Map([["f", null]]),
    newId: () => "id",
  });
  const reader = new AnswerReader({ answer, reasoning: { marks, opened, endTokenId, tokenBytes } });
  const ids = idsOf(text);
  const lists = pieces?.(ids) ?? [ids];
  const parts: OutputPart[] = [];
  for (const [place, list] of lists.entries()) {
    const shown = list.map((id) => new TextDecoder().decode(tokenBytes(id))).join("");
    parts.push(...reader.push(shown, list, place === lists.length - 1));
  }
  const textOf = (kind: "reasoning" | "content"): string =>
    parts.map((part) => (part.kind === kind ? part.text : "")).join("");
  return {
    reasoning: textOf("reasoning"),
    content: textOf("content"),
    calls: parts.filter(({ kind }) => kind === "call").length,
    tokens: reader.reasoningTokens,
  };
}

const call = '<tool_call>{"name": "f"}</tool_call>';

describe("thinking and answer", () => {
  test.for([
    ["thinking, then an answer", "<think>\nhm\n</think>\n\nYes.", false, "hm", "Yes.", 0],
    ["no thinking", " Yes. ", false, "", " Yes. ", 0],
    ["a mark inside of an answer", "a <think>b</think>", false, "", "a <think>b</think>", 0],
    ["empty thinking", "<think>\n\n</think>\n\nYes.", false, "", "Yes.", 0],
    ["thinking that the prompt opened", "hm</think>Yes.", true, "hm", "Yes.", 0],
    ["an opening mark that is repeated", "<think>hm</think>Yes.", true, "hm", "Yes.", 0],
    ["thinking without an end", "<think>hm ", false, "hm", "", 0],
    ["an end without a beginning", "hm</think>Yes.", false, "", "hm</think>Yes.", 0],
    ["nested marks", "<think>a<think>b</think>c</think>", false, "a<think>b", "c</think>", 0],
    ["half a mark", "<thin", false, "", "<thin", 0],
    ["half an end mark", "<think>a</thi", false, "a</thi", "", 0],
    ["a call in the thinking", `<think>${call}</think>Yes.`, false, call, "Yes.", 0],
    ["a call in the answer", `<think>hm</think>\n${call}`, false, "hm", "", 1],
  ] as const)("%s", ([, text, opened, reasoning, content, calls]) => {
    expect(read(text, { opened })).toMatchObject({ reasoning, content, calls });
    const single = (ids: readonly number[]) => ids.map((id) => [id]);
    expect(read(text, { opened, pieces: single })).toEqual(read(text, { opened }));
  });

  test("how the text is cut does not matter", () => {
    const fragments = ["<think>", "</think>", " \n", "hm", "<", "</thi", call, "<think"];
    const texts = fc.array(fc.constantFrom(...fragments), { maxLength: 8 });
    const cuts = fc.array(fc.nat(100), { maxLength: 20 });
    fc.assert(
      fc.property(texts, cuts, fc.boolean(), (parts, places, opened) => {
        const text = parts.join("");
        const pieces = (ids: readonly number[]) => {
          const bounds = [0, ...places.filter((place) => place < ids.length), ids.length];
          bounds.sort((a, b) => a - b);
          return bounds.slice(1).map((end, i) => ids.slice(bounds[i], end));
        };
        expect(read(text, { opened, pieces })).toEqual(read(text, { opened }));
      }),
      { seed: 7, numRuns: 3000 },
    );
  });
});

describe("thinking tokens", () => {
  test("are those up to the end mark, with or without a token of its own", () => {
    const text = "<think>hm</think>Yes.";
    const count = "<think>hm".length + 1;
    expect(read(text).tokens).toBe(count);
    expect(read(text, { endTokenId: null }).tokens).toBe(count);
  });

  test("are all of them where thinking does not end, and none without thinking", () => {
    expect(read("<think>hm").tokens).toBe(9);
    expect(read("Yes.").tokens).toBe(0);
    expect(read("hm", { opened: true }).tokens).toBe(2);
  });
});

describe("a format of reasoning", () => {
  test("auto goes by the template, then by the vocabulary", () => {
    const none = { template: "{{ messages }}", hasToken: () => false };
    expect(reasoningFormat("auto", none)).toBeNull();
    const shown = { ...none, template: "{{ content.split('[/THINK]') }}" };
    expect(reasoningFormat("auto", shown)).toMatchObject({ start: "[THINK]", begins: false });
    expect(reasoningFormat("auto", { ...none, hasToken: () => true })).toMatchObject(marks);
    expect(reasoningFormat("deepseek_r1", none)).toEqual({ ...marks, begins: true });
  });

  test("without one the answer is read alone", () => {
    const reader = new AnswerReader({ answer: new PlainParser(), reasoning: null });
    expect(reader.push("<think>a</think>", [1], true)).toEqual([
      { kind: "content", text: "<think>a</think>" },
    ]);
    expect(reader.reasoningTokens).toBe(0);
  });
});
