/** Drafts of the bundled model: texts, stop strings, predictions, and what may be asked for. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type GenerateOptions, LLM, type LoadOptions } from "#engine";
import { cpuThreads, eachNth, sized } from "../support/full.ts";

const numbers = "List of numbers: 1, 2, 3, 4, 5, 6, 7,";
const rows = '{"name":"a","age":1}\n{"name":"b","age":2}\n{"name":"c",';

let plain: LLM;
let drafting: LLM;
/** Draft by its networks. */
let redrafter: LLM;
let medusa: LLM;
let eagle3: LLM;

function load(speculative: LoadOptions["speculative"]): Promise<LLM> {
  return LLM.load("models/pocket", {
    ...{ device: "cpu", dtype: "float32", threads: cpuThreads, engineThread: false },
    // All that is drafted is verified, however long steps take here.
    speculative: { ...speculative, adaptive: false },
  });
}

beforeAll(async () => {
  plain = await load({ kind: "off" });
  drafting = await load({ kind: "lookup" });
  redrafter = await load({ kind: "redrafter", lengthMax: 4, width: 4 });
  medusa = await load({ kind: "medusa", lengthMax: 4, width: 4 });
  eagle3 = await load({ kind: "eagle3", lengthMax: 4, width: 4 });
});

afterAll(async () => {
  await plain.close();
  await drafting.close();
  await redrafter.close();
  await medusa.close();
  await eagle3.close();
});

async function outputOf(llm: LLM, prompt: string, options: GenerateOptions) {
  const [result] = await llm.generate(prompt, {
    temperature: 0,
    maxTokens: sized(40, 100),
    ...options,
  });
  return (result?.completions ?? []).map(
    ({ text, tokenIds, logprobs, finishReason, stopReason }) => ({
      ...{ text, tokenIds, finishReason, stopReason },
      logprobs: logprobs?.length ?? null,
    }),
  );
}

describe("[SP1] a stop string inside of confirmed tokens", () => {
  test.each([numbers, rows])("ends the output where it ends without drafts: %s", async (prompt) => {
    const [whole] = await outputOf(plain, prompt, { maxTokens: 60 });
    const text = whole?.text ?? "";
    const places = Array.from({ length: text.length - 3 }, (_, at) => at);
    const before = drafting.stats().acceptedTokens;
    for (const at of eachNth(47, places)) {
      const stop = [text.slice(at, at + 3)];
      const ends = { stop, includeStopStrInOutput: at % 2 === 0 };
      const options = { ...ends, logprobs: 1, maxTokens: 60 };
      expect(await outputOf(drafting, prompt, options)).toEqual(
        await outputOf(plain, prompt, options),
      );
    }
    expect(drafting.stats().acceptedTokens).toBeGreaterThan(before);
  });
});

describe("[SP26] outputs of earlier requests", () => {
  const prompt = "The lighthouse keeper wrote in his book:";
  let llm: LLM;
  beforeAll(async () => {
    llm = await load({ kind: "lookup", earlierBytes: 2 ** 20 });
  });
  afterAll(() => llm.close());

  /** Steps of a run, whose output must be that of a plain one. */
  async function stepsOf(options: GenerateOptions): Promise<number> {
    const before = llm.stats().steps;
    const found = await outputOf(llm, prompt, options);
    const { speculative: _, ...alike } = options;
    expect(found).toEqual(await outputOf(plain, prompt, alike));
    return llm.stats().steps - before;
  }

  test("save steps of the same client, and of no other one", async () => {
    const first = await stepsOf({ cacheSalt: "one" });
    expect(await stepsOf({ cacheSalt: "one" })).toBeLessThan(first / 2);
    // Requests with another salt, or none, take the steps of the first one.
    for (const options of [{ cacheSalt: "two" }, { cacheSalt: "one " }, {}]) {
      expect(await stepsOf(options)).toBe(first);
    }
  });

  test("are not kept of requests without drafts, nor used for them", async () => {
    const options = { cacheSalt: "three" };
    const undrafted = await stepsOf({ ...options, speculative: false });
    const first = await stepsOf(options);
    expect(await stepsOf(options)).toBeLessThan(first);
    expect(await stepsOf({ ...options, speculative: false })).toBe(undrafted);
  });
});

describe("[SP27] --speculative auto", () => {
  let auto: LLM;
  beforeAll(async () => {
    auto = await load({ kind: "auto" });
  });
  afterAll(() => auto.close());

  test("loads lookup and the model's own network, and says which are loaded", async () => {
    expect(auto.info.speculative).toMatchObject({ kind: "redrafter", mixed: true });
    const speculative = { kind: "medusa" };
    await expect(outputOf(auto, numbers, { speculative })).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      param: "speculative.kind",
      message: expect.stringContaining("loaded: redrafter and lookup"),
    });
  });

  test.each([numbers, rows, "A story about a cat:"])("changes no token: %s", async (prompt) => {
    for (const options of [{}, { temperature: 0.8, seed: 4, n: 2, logprobs: 1 }]) {
      const before = auto.stats().acceptedTokens;
      expect(await outputOf(auto, prompt, options)).toEqual(await outputOf(plain, prompt, options));
      expect(auto.stats().acceptedTokens).toBeGreaterThan(before);
    }
  });
});

describe("[SP4] a prediction", () => {
  test("of the whole output makes it in a tenth of the steps", async () => {
    const [whole] = await outputOf(plain, "Write a story:", { maxTokens: 200 });
    const { steps } = drafting.stats();
    const prediction = whole?.text ?? "";
    expect(await outputOf(drafting, "Write a story:", { maxTokens: 200, prediction })).toEqual([
      whole,
    ]);
    expect(drafting.stats().steps - steps).toBeLessThanOrEqual(20);
  });

  test("that is wrong changes no token", async () => {
    const prediction = `${numbers} ${rows}`.repeat(20);
    expect(await outputOf(drafting, numbers, { prediction })).toEqual(
      await outputOf(plain, numbers, {}),
    );
  });

  test("is ignored where nothing is drafted", async () => {
    const [whole] = await outputOf(plain, numbers, {});
    expect(await outputOf(plain, numbers, { prediction: whole?.text ?? "" })).toEqual([whole]);
    expect(plain.stats()).toMatchObject({ drafts: 0, draftedTokens: 0, acceptedPerPosition: [] });
  });
});

const NETWORKS = [
  ["redrafter", () => redrafter],
  ["medusa", () => medusa],
  ["eagle3", () => eagle3],
] as const;

describe.each(eachNth(2, NETWORKS))("[SP9] the bundled model's own %s", (kind, network) => {
  const story = "A hash table stores pairs of keys and values. To find a value,";

  test("is found in its folder, and described", () => {
    expect(network().info.speculative).toMatchObject({
      ...{ kind, lengthMax: 4, width: 4 },
      drafter: { name: kind },
    });
    expect(network().info.speculative?.drafter?.parameters).toBeGreaterThan(1e6);
    expect(drafting.info.speculative?.drafter).toBe(null);
  });

  // Chains give the same bits. A tree's rows add up attention in another order: a draw among all
  // tokens that falls between the shares of two then takes the other one, in one of some thousand.
  const speculative = { width: 1 };
  test.each([
    ["greedy", {}],
    ["sampled", { temperature: 0.8, topP: 0.95, seed: 3 }],
    ["with penalties and log-probabilities", { frequencyPenalty: 0.3, logprobs: 2 }],
    ["three at a time", { temperature: 1, seed: 8, n: 3, speculative }],
  ] as const)("gives the same tokens in fewer steps, %s", async (_, options) => {
    const before = network().stats();
    const whole = await outputOf(plain, story, options);
    expect(await outputOf(network(), story, options)).toEqual(whole);
    const after = network().stats();
    expect(after.acceptedTokens - before.acceptedTokens).toBeGreaterThan(2);
    const longest = Math.max(...whole.map(({ tokenIds }) => tokenIds.length));
    // The longest of three may have been accepted little of.
    expect(after.steps - before.steps).toBeLessThanOrEqual(longest);
  });

  test("leaves predictions, and requests that name lookup, to lookup", async () => {
    const [whole] = await outputOf(plain, numbers, {});
    const { steps } = network().stats();
    const prediction = whole?.text ?? "";
    expect(await outputOf(network(), numbers, { prediction })).toEqual([whole]);
    // No draft of the network is as long as this needs.
    expect(network().stats().steps - steps).toBeLessThan((whole?.tokenIds.length ?? 0) / 5);
    const named = { speculative: { kind: "lookup", length: 20 } };
    expect(await outputOf(network(), numbers, named)).toEqual([whole]);
  });

  test("shorter and narrower drafts of one request beside others", async () => {
    const shapes = [{ length: 1 }, { length: 2, width: 1 }, { width: 2 }, { kind }];
    const [whole] = await outputOf(plain, story, {});
    const all = shapes.map((speculative) => outputOf(network(), story, { speculative }));
    for (const found of await Promise.all(all)) expect(found).toEqual([whole]);
  });
});

test("[SP16] the bundled model's EAGLE-3 is right of most tokens of a chat", async () => {
  const chat =
    "<|im_start|>user\nExtract the following fields as JSON: name, year.\nThe Orlen bridge is of " +
    "1931.<|im_end|>\n<|im_start|>assistant\n";
  const before = eagle3.stats();
  const speculative = { width: 1 };
  const [found] = await outputOf(eagle3, chat, { speculative });
  expect([found]).toEqual(await outputOf(plain, chat, {}));
  const after = eagle3.stats();
  const steps = after.steps - before.steps;
  expect(found?.tokenIds.length).toBeGreaterThan(8);
  expect(found?.tokenIds.length).toBeGreaterThan(2 * steps);
});

describe("a model without the drafter that is asked for", () => {
  test.each([
    ["none in its folder", "test/fixtures/models/llama", {}, "MODEL_NOT_FOUND", "has no drafter"],
    [
      "a folder that is not there",
      ...(["models/pocket", { model: "/nonexistent/drafter" }] as const),
      ...(["MODEL_NOT_FOUND", "/nonexistent/drafter"] as const),
    ],
    [
      "another model's",
      ...(["test/fixtures/models/llama", { model: "models/pocket/drafters/redrafter" }] as const),
      ...(["INVALID_ARGUMENT", "hidden_size must be 96"] as const),
    ],
    ["a model", "models/pocket", { model: "models/pocket" }, "UNSUPPORTED_MODEL", "model_type"],
    ["more beams than it has tokens", "models/pocket", { width: 17 }, "INVALID_ARGUMENT", "width"],
    [
      "another kind of drafter's",
      ...(["models/pocket", { model: "models/pocket/drafters/medusa" }] as const),
      ...(["UNSUPPORTED_MODEL", "model_type"] as const),
    ],
    [
      "a ReDrafter where an EAGLE-3 is wanted",
      ...([
        "models/pocket",
        { kind: "eagle3", model: "models/pocket/drafters/redrafter" },
      ] as const),
      ...(["UNSUPPORTED_MODEL", "model_type"] as const),
    ],
    [
      "more tokens than it has heads",
      ...(["models/pocket", { kind: "medusa", lengthMax: 5 }] as const),
      ...(["INVALID_ARGUMENT", "at most 4, the drafter's heads"] as const),
    ],
  ] as const)("%s", async (_, model, options, code, message) => {
    const loading = LLM.load(model, {
      ...{ device: "cpu", engineThread: false, onWarning: () => {} },
      speculative: { kind: "redrafter", ...options },
    });
    await expect(loading).rejects.toThrow(
      expect.objectContaining({ code, message: expect.stringContaining(message) }),
    );
  });

  test("a drafter for lookup is refused", async () => {
    await expect(
      load({ kind: "lookup", model: "models/pocket/drafters/redrafter" }),
    ).rejects.toThrow(
      expect.objectContaining({ code: "INVALID_ARGUMENT", param: "speculative.model" }),
    );
  });
});

describe("a request", () => {
  test("may turn drafts off", async () => {
    const { drafts } = drafting.stats();
    await outputOf(drafting, numbers, { speculative: false });
    expect(drafting.stats().drafts).toBe(drafts);
  });

  test("may have shorter ones", async () => {
    const before = drafting.stats();
    await outputOf(drafting, numbers, { speculative: { kind: "lookup", length: 1 } });
    const { drafts, draftedTokens } = drafting.stats();
    expect(drafts).toBeGreaterThan(before.drafts);
    expect(draftedTokens - before.draftedTokens).toBe(drafts - before.drafts);
  });

  test.each([
    ["a kind that is not loaded", () => plain, { kind: "lookup" }, "none is (speculative.kind)"],
    ["more than the model's", () => drafting, { length: 40 }, "must be at most 31"],
    ["an unknown kind", () => drafting, { kind: "guess" }, "loaded: lookup"],
    ["an unknown kind", () => redrafter, { kind: "guess" }, "loaded: redrafter and lookup"],
    ["more than the network's", () => redrafter, { length: 5 }, "must be at most 4"],
    ["more beams", () => redrafter, { width: 5 }, "must be at most 4"],
    ["an unknown field", () => drafting, { depth: 1 }, "depth"],
  ] as const)("cannot have %s", async (_, llm, speculative, message) => {
    const options = { speculative } as GenerateOptions;
    await expect(outputOf(llm(), numbers, options)).rejects.toThrow(
      expect.objectContaining({
        code: "INVALID_ARGUMENT",
        message: expect.stringContaining(message),
      }),
    );
  });
});
