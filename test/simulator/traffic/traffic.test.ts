import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { bundledModel } from "#engine";
import {
  agents,
  chats,
  costPreset,
  idealHitRate,
  messagesOf,
  namedTokens,
  parseTrace,
  playTraffic,
  promptOf,
  SIM_VOCABULARY,
  SimClock,
  SimWorker,
  sharedPrompts,
  summaryOf,
  type Traffic,
  TrafficWords,
  tokensIn,
  traceRequests,
  workingSetTokens,
} from "#simulator";
import { Tokenizer } from "#tokenizer";

const readJson = (name: string) => JSON.parse(readFileSync(join(bundledModel, name), "utf8"));
const tokenizerJson = readJson("tokenizer.json");
const words = TrafficWords.of(tokenizerJson);
if (words === null) throw new Error("The bundled tokenizer must have words");
const tokenizer = new Tokenizer({
  ...{ tokenizerJson, tokenizerConfig: readJson("tokenizer_config.json"), chatTemplate: null },
});

const SMALL_AGENTS = { tasks: 6, calls: 8, perSecond: 1 };
const SMALL_CHATS = { chats: 30 };

const trace = () =>
  parseTrace(
    [
      { timestamp: 0, input_length: 1100, output_length: 9, hash_ids: [70, 71, 72] },
      { timestamp: 0, input_length: 1024, output_length: 1, hash_ids: [70, 73] },
      { timestamp: 3000, input_length: 30, output_length: 2, hash_ids: [74] },
    ].map((row) => JSON.stringify(row)),
    { path: "made up", blockTokens: 512 },
  );

describe("the rule of tokens", () => {
  test("[CL106] makes these tokens, for ever", () => {
    expect([...namedTokens([0, 1], 6, words)]).toEqual(GOLDEN.words);
    expect([...namedTokens([5, 1], 3, SIM_VOCABULARY)]).toEqual(GOLDEN.plain);
  });

  test("a longer run begins with a shorter one, and other names have other tokens", () => {
    const long = namedTokens([3, 1], 101, words);
    for (const count of [1, 4, 5, 99]) {
      expect(namedTokens([3, 1], count, words)).toEqual(long.subarray(0, count));
    }
    expect(namedTokens([3, 2], 101, words)).not.toEqual(long);
    expect(namedTokens([4, 1], 101, words)).not.toEqual(long);
  });

  test("[CL106] text of the tokens is encoded to them again, by the bundled tokenizer", () => {
    for (let name = 0; name < 8; name++) {
      const tokens = namedTokens([name, 1], 500, words);
      expect([...tokenizer.encodeNow(words.textOf(tokens))]).toEqual([...tokens]);
    }
  });

  test("a tokenizer without words of its own kind gives none", () => {
    expect(TrafficWords.of({ model: { vocab: { a: 0, b: 1 } } })).toBeNull();
    expect(TrafficWords.of(null)).toBeNull();
  });
});

describe("a trace", () => {
  test("has its lengths, its shared blocks, and times within its clock's steps", async () => {
    const { requests } = traceRequests(await trace(), { name: "t", seed: 4 });
    expect(requests.map(({ promptTokens }) => promptTokens)).toEqual([1100, 1024, 30]);
    const [a, b, c] = requests.map((request) => promptOf(request, words));
    expect(b?.subarray(0, 512)).toEqual(a?.subarray(0, 512));
    expect(b?.subarray(512, 1024)).not.toEqual(a?.subarray(512, 1024));
    expect(c).toHaveLength(30);
    const times = requests.map(({ atMs }) => atMs);
    expect(times).toEqual(times.toSorted((x, y) => x - y));
    expect(times[1]).toBeLessThan(3000);
    expect(times[2]).toBeGreaterThanOrEqual(3000);
    const early = traceRequests(await trace(), { name: "t", untilMs: 3000 });
    expect(early.requests).toHaveLength(2);
  });
});

const makers: Readonly<Record<string, (seed: number) => Traffic>> = {
  agents: (seed) => agents({ ...SMALL_AGENTS, seed }),
  chats: (seed) => chats({ ...SMALL_CHATS, seed }),
  sharedPrompts: (seed) => sharedPrompts({ seed, rates: [{ perSecond: 5, seconds: 20 }] }),
};

describe.for(Object.keys(makers))("%s", (kind) => {
  const make = makers[kind] ?? (() => ({ name: "", requests: [] }));

  test("[CL107] are the same for one seed, others for another", () => {
    expect(make(1)).toEqual(make(1));
    expect(make(2)).not.toEqual(make(1));
  });

  test("[CL107] come in order, with ids of their own, and follow requests that are there", () => {
    const { requests } = make(1);
    const times = requests.map(({ atMs }) => atMs);
    expect(times).toEqual(times.toSorted((a, b) => a - b));
    const seen = new Set<string>();
    for (const { id, after, promptTokens, pieces, outputTokens } of requests) {
      expect(seen.has(id)).toBe(false);
      if (after !== null) expect(seen.has(after)).toBe(true);
      seen.add(id);
      expect(tokensIn(pieces)).toBe(promptTokens);
      expect(Math.min(promptTokens, outputTokens)).toBeGreaterThan(0);
      expect(Number.isInteger(promptTokens + outputTokens)).toBe(true);
    }
    expect(seen.size).toBeGreaterThan(20);
  });
});

describe("conversations", () => {
  test.for([
    ["chats", chats({ chats: 8, seed: 5 })],
    ["agents", agents({ ...SMALL_AGENTS, seed: 5 })],
  ] as const)(
    "[CL108] of %s go on from the answers of a mock worker, which computes nothing twice",
    ([, traffic]) => {
      const clock = new SimClock();
      const worker = new SimWorker({ id: "w", clock, model: costPreset("h200-8b") });
      const byId = new Map(traffic.requests.map((request) => [request.id, request]));
      const endedMs = new Map<string, number>();
      let followed = 0;
      playTraffic(traffic, {
        ...{ clock, vocabulary: SIM_VOCABULARY },
        send: (request, { after, session, thinkMs, pieces }, ended) =>
          worker.submit(request, {
            end: ({ submittedMs, endMs, cachedTokens }) => {
              endedMs.set(request.id, endMs);
              ended();
              if (after === null) return;
              expect(submittedMs).toBeCloseTo((endedMs.get(after) ?? 0) + thinkMs, 6);
              const before = byId.get(after);
              // A context that was summed up begins anew, and a helper has its own.
              const goesOn = pieces.some(({ answerOf }) => answerOf === after);
              if (before === undefined || before.session !== session || !goesOn) return;
              // The answer's last token was never computed; its last block may be partly filled.
              const known = before.promptTokens + before.outputTokens - 1;
              expect(cachedTokens).toBeGreaterThanOrEqual(known - 16);
              followed++;
            },
          }),
      });
      clock.run();
      expect(endedMs.size).toBe(traffic.requests.length);
      expect(followed).toBeGreaterThan(10);
      expect(worker.stats()).toMatchObject({ running: 0, waiting: 0, heldBlocks: 0 });
    },
  );

  test("as messages take what was heard in place of what was planned", () => {
    const { requests } = chats(SMALL_CHATS);
    const request = requests.find(({ pieces }) => pieces.length >= 6);
    if (request === undefined) throw new Error("No chat of three turns");
    const planned = messagesOf(request, words);
    expect(planned.map(({ role }) => role).slice(0, 4)).toEqual([
      ...["system", "user", "assistant", "user"],
    ]);
    const { answerOf = "" } = request.pieces.filter(({ name }) => name === null)[1] ?? {};
    const heard = messagesOf(request, words, new Map([[answerOf, " indeed"]]));
    expect(heard[2]).toEqual(planned[2]);
    expect(heard[4]).toEqual({ role: "assistant", content: " indeed" });
    expect(planned.map(({ content }) => content).join("")).toBe(
      words.textOf(promptOf(request, words)),
    );
  });
});

describe("what the kinds are like", () => {
  test("an endless cache has what was said before: prompts and answers, by whole blocks", async () => {
    const { requests } = traceRequests(await trace(), { name: "t" });
    const [first] = requests;
    if (first === undefined) throw new Error("No request");
    const ideal = (all: Traffic["requests"]) =>
      idealHitRate({ name: "t", requests: all }, 16, (request) => promptOf(request, words));
    expect(ideal(requests)).toBeCloseTo(512 / (1100 + 1024 + 30), 9);
    expect(ideal([first, first])).toBeCloseTo(1088 / 2200, 9);
    // The answer of 9 tokens, 8 of them computed, fills the block that 1100 tokens begin.
    const answer = { role: "assistant", name: null, tokens: 9 } as const;
    const next = {
      ...first,
      id: "next",
      after: first.id,
      pieces: [...first.pieces, answer],
      promptTokens: 1109,
    };
    expect(ideal([first, next])).toBeCloseTo(1104 / (1100 + 1109), 9);
  });

  test("agents: about a hundred in for one out, and more than 90 % of it said before", () => {
    const traffic = agents({ tasks: 10, perSecond: 1 });
    const { inputPerOutput } = summaryOf(traffic);
    expect(inputPerOutput).toBeGreaterThan(60);
    expect(inputPerOutput).toBeLessThan(180);
    expect(idealOf(traffic)).toBeGreaterThan(0.9);
    expect(traffic.requests.some(({ id }) => id.includes("-sub-"))).toBe(true);
    const most = Math.max(...traffic.requests.map(({ promptTokens }) => promptTokens));
    expect(most).toBeLessThanOrEqual(100_000);
  });

  test("shared prompts: the rates of the ladder, and a working set that is known", () => {
    const rates = [
      { perSecond: 2, seconds: 100 },
      { perSecond: 20, seconds: 100 },
    ];
    const { requests } = sharedPrompts({ rates });
    const first = requests.filter(({ atMs }) => atMs < 100_000).length;
    expect(Math.abs(first - 200)).toBeLessThan(60);
    expect(Math.abs(requests.length - first - 2000)).toBeLessThan(180);
    expect(workingSetTokens()).toBe(150 * (6000 + 5 * 2200));
    expect(new Set(requests.map(({ pieces }) => pieces[0]?.name?.[0])).size).toBe(150);
  });
});

/** Of one endless cache. */
function idealOf(traffic: Traffic): number {
  return idealHitRate(traffic, 16, (request) => promptOf(request, SIM_VOCABULARY));
}

/** Made by the rule in docs/traffic.md; a change of them changes all traffic. */
const GOLDEN = { words: [1227, 1070, 3688, 2178, 2546, 2251], plain: [3417, 3543, 1868] };
