/** Tokens wait for each other only where many are read, and then not for long. */
import { beforeEach, describe, expect, test } from "vitest";
import { systemClock } from "#base";
import { SamplingParams } from "#engine";
import type { Tokenizer } from "#tokenizer";
import { ActiveRequest } from "../../src/engine/caller/active-request.ts";
import { Pacer } from "../../src/engine/caller/pacer.ts";
import type {
  EngineRequest,
  PromptOutput,
  SequenceOutput,
} from "../../src/engine/protocol/protocol.ts";
import { loadTokenizer } from "../tokenizer/fixtures.ts";

/** A pacer whose time is over when the test says so. */
function scriptedPacer() {
  const timers: { ms: number; run: () => void }[] = [];
  const pacer = new Pacer({
    after: (ms, run) => {
      timers.push({ ms, run });
      return () => {};
    },
  });
  const tick = () => {
    for (const { run } of timers.splice(0)) run();
  };
  return { pacer, timers, tick };
}

const PROMPT: PromptOutput = {
  ...{ cachedTokens: 0, queueSeconds: 0, promptLogprobs: null, promptLogits: null },
};

function requestOf(key: number, params: Record<string, unknown> = {}): EngineRequest {
  return {
    ...{ key, requestId: String(key), promptTokenIds: Int32Array.of(1), seed: 0n, cacheSalt: null },
    params: SamplingParams.parse({ maxTokens: 100, ...params }),
    ...{ retention: null, priority: 0, badWordTokenIds: [], thinking: null, promptLogits: false },
    ...{ draftShape: null, predictedTokenIds: null },
  };
}

/** How tokens with nothing else to tell come: as outputs, or as the rows of a step. */
const WAYS = ["outputs", "rows"] as const;
let way: (typeof WAYS)[number] = "outputs";

function startRequest(
  pacer: Pacer,
  key: number,
  params: Record<string, unknown> = {},
  tokenizer: Tokenizer | null = null,
) {
  const request = requestOf(key, params);
  const active = new ActiveRequest({
    ...{ request, tokenizer, bytesPerBlock: 0, clock: systemClock, listeners: new Set(), pacer },
    unreadTokensMax: Number.POSITIVE_INFINITY,
    abort: () => {},
    setPaused: () => {},
    onEnd: () => {},
  });
  const got: number[][] = [];
  const failures: unknown[] = [];
  const texts: (string | null)[] = [];
  void (async () => {
    try {
      for await (const { tokenIds, text } of active.items) {
        got.push([...tokenIds]);
        texts.push(text);
      }
    } catch (error) {
      failures.push(error);
    }
  })();
  let first = true;
  const accept = (tokenId: number, finishReason: SequenceOutput["finishReason"] = null) => {
    const prompt = first ? PROMPT : null;
    first = false;
    if (way === "rows" && prompt === null && finishReason === null) {
      active.acceptToken(0, tokenId, 0);
      return;
    }
    const rest = { logprobs: null, stopReason: null, beam: null, heldBlockMs: 0 };
    active.accept({ key, index: 0, tokenIds: [tokenId], finishReason, prompt, ...rest });
  };
  return { active, accept, got, texts, failures };
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

describe.each(WAYS)("tokens as %s", (each) => {
  beforeEach(() => {
    way = each;
  });

  test("few streams bring every token when it comes", async () => {
    const { pacer, timers } = scriptedPacer();
    const requests = Array.from({ length: 8 }, (_, key) => startRequest(pacer, key));
    for (const token of [1, 2, 3]) {
      for (const { accept } of requests) accept(token);
      await settled();
    }
    for (const { got } of requests) expect(got).toEqual([[1], [2], [3]]);
    expect(timers).toHaveLength(0);
  });

  test("of many streams tokens wait for each other, a first one and an end never", async () => {
    const { pacer, timers, tick } = scriptedPacer();
    const requests = Array.from({ length: 64 }, (_, key) => startRequest(pacer, key));
    for (const token of [1, 2, 3]) {
      for (const { accept } of requests) accept(token);
      await settled();
    }
    for (const { got } of requests) expect(got).toEqual([[1]]);
    expect(timers.map(({ ms }) => ms)).toEqual([12.8]);
    tick();
    await settled();
    for (const { got } of requests) expect(got).toEqual([[1], [2, 3]]);
    for (const { accept } of requests) accept(4);
    for (const { accept } of requests) accept(5, "length");
    await settled();
    for (const { got } of requests) expect(got).toEqual([[1], [2, 3], [4, 5]]);
    expect(pacer.intervalMs).toBe(0);
    tick();
    await settled();
    expect(requests[0]?.got).toHaveLength(3);
  });

  test("what waits is handed on before a failure, and lost with a caller that leaves", async () => {
    const { pacer } = scriptedPacer();
    const requests = Array.from({ length: 16 }, (_, key) => startRequest(pacer, key));
    for (const token of [1, 2]) for (const { accept } of requests) accept(token);
    const [failing, leaving] = requests;
    failing?.active.fail(new Error("a step failed"));
    leaving?.active.cancel();
    await settled();
    expect(failing).toMatchObject({ got: [[1], [2]], failures: [{ message: "a step failed" }] });
    expect(leaving?.failures).toEqual([]);
    expect(pacer.intervalMs).toBeCloseTo(2.8);
  });

  test("an interval of tokens that the request asked for is kept to", async () => {
    const { pacer, tick } = scriptedPacer();
    const requests = Array.from({ length: 16 }, (_, key) =>
      startRequest(pacer, key, { streamInterval: 4 }),
    );
    const accept = (token: number) => {
      for (const request of requests) request.accept(token);
    };
    for (const token of [1, 2, 3]) accept(token);
    tick();
    await settled();
    expect(requests[0]?.got).toEqual([[1]]);
    for (const token of [4, 5]) accept(token);
    tick();
    await settled();
    expect(requests[0]?.got).toEqual([[1], [2, 3, 4, 5]]);
  });

  test("text is the same however many tokens are decoded at once", async () => {
    const { pacer, tick } = scriptedPacer();
    const tokenizer = loadTokenizer("gpt2-byte-bpe");
    const ids = tokenizer.encodeNow("Zwölf Boxkämpfer jagen 日本語 👍🏽 quer über den Deich");
    const requests = Array.from({ length: 16 }, (_, key) =>
      startRequest(pacer, key, key % 2 === 0 ? {} : { stop: ["quer"] }, tokenizer),
    );
    for (const [at, id] of ids.entries()) {
      const isLast = at === ids.length - 1;
      for (const { accept } of requests) accept(id, isLast ? "length" : null);
      if (at % 5 === 0) tick();
    }
    await settled();
    const text = tokenizer.decode(ids);
    const [free, stopped] = requests.map(({ texts }) => texts.join(""));
    expect(free).toBe(text);
    expect(stopped).toBe(text.slice(0, text.indexOf("quer")));
  });
});

test("no silence is longer than 50 ms because of others", () => {
  const { pacer } = scriptedPacer();
  pacer.enter(10_000);
  expect(pacer.intervalMs).toBe(50);
});

test("streams whose readers stall delay no others", async () => {
  const { pacer } = scriptedPacer();
  const stalled = Array.from({ length: 64 }, (_, key) => {
    const request: EngineRequest = requestOf(key);
    return new ActiveRequest({
      ...{
        request,
        tokenizer: null,
        bytesPerBlock: 0,
        clock: systemClock,
        listeners: new Set(),
        pacer,
      },
      unreadTokensMax: 2,
      abort: () => {},
      setPaused: () => {},
      onEnd: () => {},
    });
  });
  expect(pacer.intervalMs).toBeCloseTo(12.8);
  const rest = { logprobs: null, stopReason: null, beam: null, heldBlockMs: 0 };
  const output = { index: 0, finishReason: null, ...rest };
  const [first] = stalled;
  for (const active of stalled) {
    const { key } = active.request;
    active.accept({ key, tokenIds: [1, 2, 3], prompt: PROMPT, ...output });
  }
  expect(pacer.intervalMs).toBe(0);
  for (let key = 100; key < 109; key++) startRequest(pacer, key);
  expect(pacer.intervalMs).toBeCloseTo(1.8);
  await first?.items.next();
  expect(pacer.intervalMs).toBeCloseTo(2);
  for (const active of stalled) active.cancel();
  expect(pacer.intervalMs).toBeCloseTo(1.8);
});
