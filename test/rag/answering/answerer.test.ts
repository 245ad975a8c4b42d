import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { EngineError } from "#base";
import { LLM, type LlmOptions } from "#engine";
import type { Answer, AskEvent, AskFields } from "#rag";
import { Answerer, parseAskSettings } from "#rag/answering";
import { CacheWatch } from "../../../src/rag/answering/cache-watch.ts";
import { hashesAt, tokenStarts } from "../../../src/rag/answering/prompt-blocks.ts";
import { until } from "../../support/until.ts";
import { wordChunk } from "../../support/word-embedder.ts";

const facts = [
  "The Orlen bridge was built in 1931. Its architect was Tamsin Vorle.",
  "The Kesset bridge is 412 metres long. It was designed by Joren Hask.",
  "Sarvik has a population of 18,240. Its mayor is Ilka Brand.",
  "The Morrow museum opened in 1987 and has 36 rooms.",
];
const hitOf = (text: string, index: number, score = 1) => {
  return { chunk: wordChunk("facts.md", text, { index }), score };
};
const hits = facts.map((text, index) => hitOf(text, index));
const pick = (...places: readonly number[]) => places.flatMap((place) => hits[place] ?? []);
const long = Array.from({ length: 9 }, (_, place) =>
  hitOf(`Part ${place} of the list. ${`The value ${place} is here again. `.repeat(45)}`, place),
);

const loadOptions: LlmOptions = { onWarning: () => {} };
let llm: LLM;
let answerer: Answerer;

beforeAll(async () => {
  llm = await LLM.load(undefined, loadOptions);
});
afterAll(() => llm.close());
afterEach(() => answerer[Symbol.dispose]());

interface Asked {
  readonly question?: string;
  readonly hits?: typeof hits;
  readonly fields?: AskFields;
  readonly signal?: AbortSignal;
}

const requestOf = ({ question = "Who is the mayor?", fields = {}, signal, ...more }: Asked) => {
  const settings = parseAskSettings({ maxTokens: 24, ...fields });
  return { corpus: "c", hits, ...more, question, settings, ...(signal && { signal }) };
};

async function eventsOf(asked: Asked): Promise<AskEvent[]> {
  const events: AskEvent[] = [];
  for await (const event of answerer.answer(requestOf(asked))) events.push(event);
  return events;
}

async function answerOf(asked: Asked): Promise<Answer> {
  const last = (await eventsOf(asked)).at(-1);
  if (last?.type !== "answer") throw new Error("The last event is the answer");
  return last.answer;
}

const namesOf = ({ sources }: Answer) => sources.map(({ chunk }) => chunk.index).join(" ");

describe("Answerer", () => {
  it("[RG91] yields sources, text and citations, and the whole answer at the end", async () => {
    answerer = new Answerer(llm);
    const events = await eventsOf({ question: "What is the population of Sarvik?" });
    expect(events[0]).toMatchObject({ type: "sources", sources: { length: 4 } });
    const last = events.at(-1);
    if (last?.type !== "answer") throw new Error("The last event is the answer");
    const { text, citations, usage, refusal, sources, finishReason } = last.answer;
    expect(text).toBe("18,240 [3]");
    expect(events.map((event) => (event.type === "text" ? event.text : "")).join("")).toBe(text);
    expect(events.flatMap((e) => (e.type === "citation" ? [e.citation] : []))).toEqual(citations);
    expect(citations).toMatchObject([{ number: 3, claim: "18,240", support: "verbatim" }]);
    expect(sources.map(({ number }) => number)).toEqual([1, 2, 3, 4]);
    expect([refusal, finishReason]).toEqual([null, "stop"]);
    expect(usage.promptTokens).toBeGreaterThan(90);
    expect(usage.completionTokens).toBeGreaterThan(3);
    expect(usage.firstTokenMs).toBeGreaterThan(0);
  });

  it("[RG89] asks no model where nothing fits", async () => {
    answerer = new Answerer(llm);
    const before = llm.stats();
    const answer = await answerOf({ hits: [] });
    expect(answer).toMatchObject({
      text: "The passages do not say.",
      ...{ refusal: "no_sources", sources: [], citations: [] },
      usage: { promptTokens: 0, completionTokens: 0, firstTokenMs: null },
    });
    expect(llm.stats().cache?.levels).toEqual(before.cache?.levels);
  });

  it("[RG89] says that the model found nothing, without citations", async () => {
    answerer = new Answerer(llm);
    const answer = await answerOf({ question: "What is the height of the Eiffel tower?" });
    expect(answer.text).toMatch(/^The passages? do(es)? not say/);
    expect(answer).toMatchObject({ refusal: "not_found", citations: [] });
  });

  it("[RG81] [RG82] continues what is cached, whatever the order of the search", async () => {
    answerer = new Answerer(llm);
    await llm.forgetCached();
    const first = await answerOf({ hits: pick(2, 0, 1) });
    expect([namesOf(first), first.usage.cachedTokens]).toEqual(["0 1 2", 0]);
    const second = await answerOf({ hits: pick(3, 1, 0), question: "How long is it?" });
    expect(namesOf(second)).toBe("0 1 3");
    const third = await answerOf({ hits: pick(1, 3, 0), question: "Who built it?" });
    expect(namesOf(third)).toBe("0 1 3");
    // All but the question's part, and what is left of its last block.
    expect(third.usage.promptTokens - third.usage.cachedTokens).toBeLessThan(40);
    const plain = await answerOf({ hits: pick(1, 3, 0), fields: { order: "similarity" } });
    expect(namesOf(plain)).toBe("1 3 0");
    const sorted = await answerOf({ hits: pick(1, 3, 0), fields: { order: "document" } });
    expect(namesOf(sorted)).toBe("0 1 3");
  });

  it("[RG85] shares neither blocks nor orders between salts", async () => {
    answerer = new Answerer(llm);
    await llm.forgetCached();
    const one = { fields: { cacheSalt: "one" } };
    await answerOf({ hits: pick(3, 1), ...one });
    const again = await answerOf({ hits: pick(0, 1, 3), ...one });
    expect(namesOf(again)).toBe("1 3 0");
    expect(again.usage.cachedTokens).toBeGreaterThan(20);
    const other = await answerOf({ hits: pick(0, 1, 3), fields: { cacheSalt: "two" } });
    expect([namesOf(other), other.usage.cachedTokens]).toEqual(["0 1 3", 0]);
  });

  it("[RG86] gives the model what fits, the best first", async () => {
    answerer = new Answerer(llm);
    const fields = { sourcesMax: 9, order: "similarity", maxTokens: 100 } as const;
    const { sources, usage } = await answerOf({ hits: long, fields });
    expect(usage.promptTokens).toBeLessThanOrEqual(2048 - 100);
    expect(usage.promptTokens).toBeGreaterThan(1400);
    expect(sources.map(({ chunk }) => chunk.index)).toEqual(
      Array.from({ length: sources.length }, (_, place) => place),
    );
  });

  it("[RG86] cuts the best passage where it alone is too long", async () => {
    answerer = new Answerer(llm);
    const whole = hitOf("The value is here again and again. ".repeat(800), 0);
    const { sources, usage } = await answerOf({ hits: [whole, ...pick(1)] });
    expect(sources[0]?.chunk.text).toBe(whole.chunk.text);
    expect(usage.promptTokens).toBeGreaterThan(1900);
  });

  it("[RG86] refuses a question that cannot fit", async () => {
    answerer = new Answerer(llm);
    const question = "Why is the sky so blue today? ".repeat(400);
    const thrown = await answerOf({ question }).catch((error: unknown) => error);
    expect(thrown).toBeInstanceOf(EngineError);
    expect(thrown).toMatchObject({ code: "PROMPT_TOO_LONG", param: "question" });
  });

  it("[RG92] a signal ends an answer, and its sequence", async () => {
    answerer = new Answerer(llm);
    const stop = new AbortController();
    const events: AskEvent[] = [];
    const asking = async () => {
      const asked = requestOf({ fields: { maxTokens: 400 }, signal: stop.signal });
      for await (const event of answerer.answer(asked)) {
        events.push(event);
        if (event.type === "sources") stop.abort(new Error("enough"));
      }
    };
    await expect(asking()).rejects.toThrow("enough");
    expect(events.map(({ type }) => type)).toEqual(["sources"]);
    await until("nothing runs", () => llm.stats().running === 0 && llm.stats().waiting === 0);
  });

  it("[RG92] leaving the loop ends the sequence", async () => {
    answerer = new Answerer(llm);
    for await (const event of answerer.answer(requestOf({ fields: { maxTokens: 400 } }))) {
      if (event.type === "text") break;
    }
    await until("nothing runs", () => llm.stats().running === 0);
  });

  it("[RG91] answers many questions at the same time", async () => {
    answerer = new Answerer(llm);
    const questions = [
      ["What is the population of Sarvik?", "18,240"],
      ["How long is the Kesset bridge?", "412 metres"],
      ["When was the Orlen bridge built?", "1931"],
    ] as const;
    const many = Array.from({ length: 12 }, (_, place) => questions[place % 3] ?? questions[0]);
    const answers = await Promise.all(many.map(([question]) => answerOf({ question })));
    expect(answers.map(({ text }) => text.replace(/ \[\d\]$/, ""))).toEqual(
      many.map(([, answer]) => answer),
    );
  });
});

describe("CacheWatch", () => {
  it("[RG83] knows the blocks of a prompt by the names that the cache gives them", async () => {
    answerer = new Answerer(llm);
    using watch = new CacheWatch(llm);
    const { codec } = llm;
    if (codec === null) throw new Error("The bundled model has a tokenizer");
    for (const cacheSalt of [null, "tenant"]) {
      const ids = await codec.encode(`A prompt of some blocks. ${facts.join(" ")} ${cacheSalt}`);
      const names = { algorithm: llm.kvEvents.hashAlgorithm, blockTokens: 16, cacheSalt };
      const ends = [15, 16, 40, ids.length - 1, null];
      const hashes = hashesAt(ids, ends, names);
      expect(hashes.map((hash) => hash !== null)).toEqual([false, true, true, true, false]);
      const known = () => hashes.map((hash) => hash !== null && watch.has(hash));
      await until("events came", () => watch.size > 0 || cacheSalt === null);
      const salt = cacheSalt === null ? {} : { cacheSalt };
      await llm.generate([{ promptTokenIds: ids }], { maxTokens: 1, ...salt });
      await until("the blocks are known", () => known().join() === "false,true,true,true,false");
      await llm.forgetCached();
      await until("the blocks are gone", () => known().join() === "false,false,false,false,false");
      await llm.generate([{ promptTokenIds: ids }], { maxTokens: 1 });
    }
  });

  it("[RG83] begins with what is there, where events were lost", async () => {
    answerer = new Answerer(llm);
    const small = await LLM.load(undefined, { ...loadOptions, kvCache: { eventBufferMax: 2 } });
    const { codec, kvEvents } = small;
    const ids = (await codec?.encode(facts.join(" "))) ?? [];
    await small.generate([{ promptTokenIds: ids }], { maxTokens: 1 });
    for (const more of ["Some", "Other", "Words"]) await small.generate(more, { maxTokens: 1 });
    await until("events were lost", () => kvEvents.firstId > 0);
    using watch = new CacheWatch(small);
    const names = { algorithm: kvEvents.hashAlgorithm, blockTokens: 16, cacheSalt: null };
    const [hash = null] = hashesAt(ids, [ids.length - 1], names);
    await until("events came", () => watch.size > 0);
    expect(hash !== null && watch.has(hash)).toBe(true);
    expect(watch.has(1n)).toBe(false);
    await small.close();
  });
});

describe("tokenStarts", () => {
  it("[RG84] finds parts of a prompt in its tokens, in order", async () => {
    answerer = new Answerer(llm);
    const { codec } = llm;
    if (codec === null) throw new Error("The bundled model has a tokenizer");
    const parts = ["[1] Añ ünïcode párt.", "[2] Another part.", "Question: Why?"];
    const ids = await codec.encode(`System.\n\n${parts.join("\n\n")}`);
    const starts = tokenStarts(ids, [...parts, "Absent"], codec);
    expect(starts.at(-1)).toBeNull();
    for (const [place, part] of parts.entries()) {
      const text = codec.decode(ids.slice(starts[place] ?? 0));
      expect(text.trimStart().startsWith(part)).toBe(true);
    }
  });
});
