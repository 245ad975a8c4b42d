/** What is posted to the engine's thread, and when. */
import { existsSync } from "node:fs";
import { MessageChannel, Worker } from "node:worker_threads";
import { expect, onTestFinished, test, vi } from "vitest";
import { LLM, SamplingParams } from "#engine";
import { linkOver, openThread } from "../../src/engine/caller/link.ts";
import type { EngineRequest, FromEngine, ToEngine } from "../../src/engine/protocol/protocol.ts";

const built = existsSync("dist/engine/thread/engine-thread.js");
const model = "test/fixtures/models/llama";

type AddMessage = Extract<ToEngine, { readonly type: "add" }>;

function addOf(key: number, extraArgs: Record<string, unknown> | null = null): AddMessage {
  const request: EngineRequest = {
    ...{ key, requestId: String(key), promptTokenIds: Int32Array.of(1), seed: 0n, cacheSalt: null },
    params: { ...SamplingParams.parse({}), extraArgs },
    ...{ retention: null, priority: 0, badWordTokenIds: [], thinking: null, promptLogits: false },
    ...{ draftShape: null, predictedTokenIds: null },
  };
  return { type: "add", request };
}

/** A link to a thread that gets nothing: what it would get, a list for each time it is posted to. */
function openLink(refuses: (messages: readonly ToEngine[]) => boolean = () => false) {
  const posted: ToEngine[][] = [];
  const told: FromEngine[] = [];
  const spy = vi.spyOn(Worker.prototype, "postMessage").mockImplementation((value) => {
    if (refuses(value)) throw new Error("it could not be cloned");
    posted.push(value);
  });
  const link = openThread((message) => told.push(message));
  onTestFinished(async () => {
    spy.mockRestore();
    await link.close();
  });
  return { link, posted, told };
}

const kindsOf = (posted: readonly ToEngine[][]) =>
  posted.map((messages) => messages.map(({ type }) => type));

test.runIf(built)("requests made together go together, all else at once and in order", async () => {
  const { link, posted } = openLink();
  link.post({ type: "kvSnapshot", key: 1 });
  expect(kindsOf(posted)).toEqual([["kvSnapshot"]]);
  link.post(addOf(2));
  link.post({ type: "embed", request: { key: 3, promptTokenIds: Int32Array.of(1) } });
  expect(posted).toHaveLength(1);
  await Promise.resolve();
  expect(kindsOf(posted.slice(1))).toEqual([["add", "embed"]]);
  link.post(addOf(4));
  link.post({ type: "abort", key: 4 });
  expect(kindsOf(posted.slice(2))).toEqual([["add"], ["abort"]]);
  await Promise.resolve();
  expect(posted).toHaveLength(4);
});

test.runIf(built)(
  "of requests made together those that do not cross are refused alone",
  async () => {
    const isOdd = (message: ToEngine) => message.type === "add" && message.request.key % 2 === 1;
    const { link, posted, told } = openLink((messages) => messages.some(isOdd));
    for (const key of [1, 2, 3, 4]) link.post(addOf(key));
    await vi.waitFor(() => expect(told).toHaveLength(2));
    expect(kindsOf(posted)).toEqual([["add"], ["add"]]);
    expect(told).toMatchObject([
      { type: "refused", key: 1, error: { code: "INVALID_ARGUMENT" } },
      { type: "refused", key: 3, error: { code: "INVALID_ARGUMENT" } },
    ]);
  },
);

test("a prompt crosses without a copy, also beside a request that cannot cross", async () => {
  const { port1, port2 } = new MessageChannel();
  const told: FromEngine[] = [];
  const arrived: EngineRequest[] = [];
  port2.on("message", (messages: readonly ToEngine[]) => {
    for (const message of messages) if (message.type === "add") arrived.push(message.request);
  });
  const link = linkOver(port1)((message) => told.push(message));
  onTestFinished(() => link.close());
  const [first, odd, last] = [addOf(1), addOf(2, { odd: () => "a call" }), addOf(3)];
  for (const message of [first, odd, last]) link.post(message);
  await vi.waitFor(() => expect(arrived).toHaveLength(2));
  const ids = Int32Array.of(1);
  expect(arrived).toMatchObject([
    { key: 1, promptTokenIds: ids },
    { key: 3, promptTokenIds: ids },
  ]);
  expect(first.request.promptTokenIds).toHaveLength(0);
  expect(odd.request.promptTokenIds).toEqual(ids);
  expect(told).toMatchObject([{ type: "refused", key: 2 }]);
});

test.runIf(built)("prompts of one call begin in one step", async () => {
  await using llm = await LLM.load(model, { device: "reference", dtype: "float32" });
  const stepTokens: number[] = [];
  llm.listen({ onStep: (step) => stepTokens.push(step.stepTokens) });
  const prompts = [3, 4, 5].map((length) => ({ promptTokenIds: Array<number>(length).fill(7) }));
  await llm.generate(prompts, { maxTokens: 2, detokenize: false });
  expect(stepTokens[0]).toBe(12);
});

test.runIf(built)(
  "an extra argument that cannot cross stays here, and all requests are served",
  async () => {
    await using llm = await LLM.load(model, { device: "reference" });
    const prompt = { promptTokenIds: [1, 2, 3] };
    const options = { maxTokens: 2, detokenize: false, temperature: 0 };
    const [plain, odd] = await Promise.all([
      llm.generate(prompt, options),
      llm.generate(prompt, { ...options, extraArgs: { odd: () => "a call" } }),
    ]);
    expect(plain[0]?.completions[0]?.tokenIds).toHaveLength(2);
    expect(odd[0]?.completions).toEqual(plain[0]?.completions);
  },
);
