/** Several clients of one engine: each receives its own requests' items, and its end is theirs. */
import { setTimeout as sleep } from "node:timers/promises";
import { MessageChannel, type MessagePort } from "node:worker_threads";
import { expect, onTestFinished, test, vi } from "vitest";
import { LLM } from "#engine";
import {
  clientOf,
  FIRST_CLIENT,
  type FromEngine,
  firstKeyOf,
  type SequenceOutput,
  type StepOutput,
} from "../../src/engine/protocol/protocol.ts";
import { forEachRow } from "../../src/engine/protocol/token-rows.ts";
import { ServiceClients } from "../../src/engine/thread/service-clients.ts";

const model = "test/fixtures/models/llama";
const prompt = { promptTokenIds: [1, 2, 3, 4, 5] };
const long = { maxTokens: 100, ignoreEos: true, detokenize: false, temperature: 0 };

function outputOf(key: number, tokenId: number): SequenceOutput {
  const rest = { logprobs: null, finishReason: null, stopReason: null, beam: null, prompt: null };
  return { key, index: 0, tokenIds: [tokenId], heldBlockMs: 0, ...rest };
}

function stepOf(outputs: SequenceOutput[]): StepOutput {
  const report = { stepTokens: outputs.length, sequences: outputs.length, seconds: 0 };
  return { outputs, embeddings: [], failures: [], report: { ...report, planSeconds: 0 } };
}

const NO_STATS = {
  ...{ running: 0, waiting: 0, paused: 0, uncomputedTokens: 0 },
  ...{ freeBlocks: 0, heldBlocks: 0, cachedBlocks: 0, totalBlocks: 0 },
  ...{ steps: 0, preemptions: 0, promptTokens: 0, cachedPromptTokens: 0, computedPromptTokens: 0 },
  ...{ generatedTokens: 0, prefixQueriedTokens: 0, prefixHitTokens: 0, swapPreemptions: 0 },
  ...{ drafts: 0, draftedTokens: 0, acceptedTokens: 0, acceptedPerPosition: [] },
  ...{ forks: 0, loads: 0 },
};

/** Clients, what each was told, and who went. */
function scriptedClients(numbers: readonly number[]) {
  const told = new Map<number, FromEngine[]>([[FIRST_CLIENT, []]]);
  const gone: number[] = [];
  const clients = new ServiceClients((message) => told.get(FIRST_CLIENT)?.push(message), {
    onMessage: () => {},
    onGone: (client) => gone.push(client),
  });
  const ports = new Map<number, MessagePort>();
  for (const client of numbers) {
    const { port1, port2 } = new MessageChannel();
    const heard: FromEngine[] = [];
    told.set(client, heard);
    port2.on("message", (message: FromEngine) => heard.push(message));
    clients.connect(client, port1);
    ports.set(client, port2);
  }
  onTestFinished(() => clients.close());
  return { clients, told, gone, ports };
}

const tokensOf = (messages: readonly FromEngine[] = []) =>
  messages.flatMap((message) => {
    const tokens: number[] = [];
    if (message.type === "step") forEachRow(message.tokenRows, (_key, _at, id) => tokens.push(id));
    return tokens;
  });

test("keys of one client are never another's", () => {
  for (const client of [0, 1, 7, 4000]) {
    expect(clientOf(firstKeyOf(client))).toBe(client);
    expect(clientOf(firstKeyOf(client) + 2 ** 39)).toBe(client);
    expect(Number.isSafeInteger(firstKeyOf(client) + 2 ** 39)).toBe(true);
  }
});

test("a step's tokens go to the clients of their requests, and its books to the first client", async () => {
  const { clients, told } = scriptedClients([1, 2]);
  const [mine, first, second] = [firstKeyOf(0), firstKeyOf(1), firstKeyOf(2)];
  clients.postStep(
    stepOf([outputOf(first, 11), outputOf(second, 12), outputOf(first + 1, 13)]),
    NO_STATS,
  );
  clients.postStep(stepOf([outputOf(mine, 10), outputOf(second, 14)]), NO_STATS);
  await vi.waitFor(() => expect(tokensOf(told.get(2))).toEqual([12, 14]));
  expect(tokensOf(told.get(1))).toEqual([11, 13]);
  expect(told.get(1)).toHaveLength(1);
  expect(tokensOf(told.get(FIRST_CLIENT))).toEqual([10]);
  expect(told.get(FIRST_CLIENT)).toMatchObject([
    { report: { sequences: 3 } },
    { report: { sequences: 2 } },
  ]);
});

test("every client is told that the engine died, also one that connects later", async () => {
  const { clients, told } = scriptedClients([1]);
  const error = { code: "ENGINE_DEAD", message: "Cannot continue", param: null } as const;
  clients.post({ type: "dead", error });
  const { port1, port2 } = new MessageChannel();
  const late: FromEngine[] = [];
  port2.on("message", (message: FromEngine) => late.push(message));
  clients.connect(2, port1);
  await vi.waitFor(() => expect(late).toEqual([{ type: "dead", error }]));
  await vi.waitFor(() => expect(told.get(1)).toEqual([{ type: "dead", error }]));
  expect(told.get(FIRST_CLIENT)).toEqual([{ type: "dead", error }]);
});

test("a client whose port closes is removed, once, and receives nothing more", async () => {
  const { clients, gone, ports, told } = scriptedClients([1, 2]);
  ports.get(1)?.close();
  await vi.waitFor(() => expect(gone).toEqual([1]));
  clients.postStep(stepOf([outputOf(firstKeyOf(1), 5), outputOf(firstKeyOf(2), 6)]), NO_STATS);
  await vi.waitFor(() => expect(tokensOf(told.get(2))).toEqual([6]));
  clients.close();
  await sleep(10);
  expect(gone).toEqual([1]);
});

test.each([false, true])("two clients get the tokens of one (engine's thread: %s)", async (own) => {
  await using llm = await LLM.load(model, { device: "reference", engineThread: own });
  const alone = await llm.generate(prompt, { ...long, maxTokens: 12 });
  await using joined = await LLM.join(llm.connect());
  expect(joined.info).toEqual(llm.info);
  const both = await Promise.all([
    llm.generate(prompt, { ...long, maxTokens: 12 }),
    joined.generate(prompt, { ...long, maxTokens: 12 }),
    joined.embed([prompt]),
  ]);
  for (const [result] of both.slice(0, 2)) {
    expect(result).toMatchObject({
      completions: [{ tokenIds: alone[0]?.completions[0]?.tokenIds }],
    });
  }
  expect(await llm.embed([prompt])).toEqual(both[2]);
});

test("the requests of a client that went end within a step, and others go on", async () => {
  await using llm = await LLM.load(model, { device: "reference", engineThread: true });
  const joined = await LLM.join(llm.connect());
  const left = joined.stream(prompt, { ...long, n: 4, temperature: 1 });
  await left.next();
  const staying = llm.stream(prompt, long);
  await staying.next();
  await joined[Symbol.asyncDispose]();
  await expect(joined.generate(prompt, long)).rejects.toMatchObject({ code: "ENGINE_DEAD" });
  await staying.next();
  await vi.waitFor(() => expect(llm.stats().running).toBe(1));
  await staying.return?.();
  await vi.waitFor(() => expect(llm.stats()).toMatchObject({ running: 0, heldBlocks: 0 }));
});

test("a joined model ends with the one that was loaded", async () => {
  const llm = await LLM.load(model, { device: "reference", engineThread: true });
  await using joined = await LLM.join(llm.connect());
  const stream = joined.stream(prompt, long);
  await stream.next();
  await llm.close();
  const rest = async () => {
    for await (const _ of stream);
  };
  await expect(rest()).rejects.toMatchObject({ code: "ENGINE_DEAD" });
  expect(joined.health().state).toBe("dead");
  expect(() => llm.connect()).toThrow("the engine has stopped");
});

test("what a joined model warns of is said where the model was loaded, once", async () => {
  const warnings: string[] = [];
  await using llm = await LLM.load(model, {
    device: "reference",
    engineThread: true,
    onWarning: (message) => warnings.push(message),
  });
  const before = warnings.length;
  // The start of the prompt goes first, so that keeping the rest is of no use: worth a warning.
  const retention = {
    ranges: [
      { start: 0, end: 2, priority: 5 },
      { start: 2, end: null, priority: 90 },
    ],
  };
  for (const _ of [1, 2]) {
    await using joined = await LLM.join(llm.connect());
    await joined.generate(prompt, { ...long, maxTokens: 1, retention });
  }
  await vi.waitFor(() => expect(warnings.slice(before)).toHaveLength(1));
  expect(warnings.at(-1)).toContain("priority");
});
