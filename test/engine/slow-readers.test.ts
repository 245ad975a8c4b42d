/** Streams that are read slowly, or not at all, over the bundled model. */
import { expect, onTestFinished, test } from "vitest";
import { type GenerateOptions, LLM, type LlmOptions, type StreamItem } from "#engine";

const PROMPT = "A hash table stores";
const UNREAD_MAX = 16;
/** Those of the step that brings the one too many, and of one that is under way. */
const UNREAD_MORE = 2;

async function load(options: LlmOptions = {}): Promise<LLM> {
  const llm = await LLM.load("models/pocket", {
    ...{ dtype: "float32", engineThread: false, unreadTokensMax: UNREAD_MAX },
    ...options,
  });
  onTestFinished(() => llm[Symbol.asyncDispose]());
  return llm;
}

const long: GenerateOptions = { temperature: 0, maxTokens: 60, ignoreEos: true };

/** A stream of which the first item is read, and no more until a test does so. */
async function stall(llm: LLM, options: GenerateOptions = {}, prompt = PROMPT) {
  const stream = llm.stream(prompt, { ...long, ...options });
  const first = await stream.next();
  return { stream, first: first.done === true ? [] : [first.value] };
}

async function readOn(stream: AsyncIterableIterator<StreamItem>): Promise<StreamItem[]> {
  const items: StreamItem[] = [];
  for await (const item of stream) items.push(item);
  return items;
}

const idsOf = (items: readonly StreamItem[], index = 0) =>
  items.filter((item) => item.index === index).flatMap(({ tokenIds }) => tokenIds);

test("the engine pauses a stream that is not read, and resumes it when it is", async () => {
  const llm = await load();
  const [whole] = await llm.generate(PROMPT, long);
  const before = llm.stats().generatedTokens;
  const { stream, first } = await stall(llm);
  await expect.poll(() => llm.stats()).toMatchObject({ paused: 1, running: 1 });
  const ahead = llm.stats().generatedTokens - before - 1;
  expect(ahead).toBeLessThanOrEqual(UNREAD_MAX + UNREAD_MORE);
  await llm.generate("Others go on", long);
  expect(llm.stats().generatedTokens - before - 1 - 60).toBe(ahead);
  expect(llm.stats()).toMatchObject({ paused: 1, running: 1 });
  const items = [...first, ...(await readOn(stream))];
  expect(idsOf(items)).toEqual(whole?.completions[0]?.tokenIds);
  await expect.poll(() => llm.stats()).toMatchObject({ paused: 0, running: 0, heldBlocks: 0 });
});

test("log-probabilities take memory: with 20 of them fewer tokens wait", async () => {
  const llm = await load({ unreadTokensMax: 64 });
  const { stream } = await stall(llm, { logprobs: 20 });
  await expect.poll(() => llm.stats().paused).toBe(1);
  expect(llm.stats().generatedTokens).toBeLessThanOrEqual(1 + 10 + UNREAD_MORE);
  await stream.return?.();
});

test("all samples of a request pause together, each at its share", async () => {
  const llm = await load();
  const [whole] = await llm.generate(PROMPT, { ...long, n: 3, temperature: 1, seed: 5 });
  const before = llm.stats().generatedTokens;
  const { stream, first } = await stall(llm, { n: 3, temperature: 1, seed: 5 });
  await expect.poll(() => llm.stats()).toMatchObject({ paused: 3, running: 3 });
  const ahead = llm.stats().generatedTokens - before;
  expect(ahead).toBeGreaterThan(UNREAD_MAX);
  expect(ahead).toBeLessThanOrEqual(1 + 3 * (UNREAD_MAX + UNREAD_MORE));
  const items = [...first, ...(await readOn(stream))];
  for (const { index, tokenIds } of whole?.completions ?? []) {
    expect(idsOf(items, index)).toEqual(tokenIds);
  }
});

test("items that wait for their interval do not count as unread", async () => {
  const llm = await load();
  const items = await readOn(llm.stream(PROMPT, { ...long, streamInterval: 50 }));
  expect(idsOf(items)).toHaveLength(60);
});

test("forgotten streams are preempted for other requests, and can be read later", async () => {
  const llm = await load({ scheduler: { runningSequencesMax: 2, waitingSequencesMax: 2 } });
  const forgotten = [];
  for (let place = 0; place < 6; place++) {
    forgotten.push(await stall(llm, {}, `Stream number ${place}`));
    await expect.poll(() => llm.stats().paused).toBe(place + 1);
  }
  expect(llm.stats()).toMatchObject({ running: 2, waiting: 4, paused: 6 });
  const results = await llm.generate(["One", "Two", "Three"], long);
  expect(results.map(({ completions }) => completions[0]?.tokenIds.length)).toEqual([60, 60, 60]);
  const [last] = forgotten.splice(-1);
  const items = last === undefined ? [] : [...last.first, ...(await readOn(last.stream))];
  const [whole] = await llm.generate("Stream number 5", long);
  expect(idsOf(items)).toEqual(whole?.completions[0]?.tokenIds);
  for (const { stream } of forgotten) await stream.return?.();
  await expect.poll(() => llm.stats()).toMatchObject({ paused: 0, waiting: 0, heldBlocks: 0 });
});

test("a paused stream ends by its signal, and by being left", async () => {
  const llm = await load();
  const stop = new AbortController();
  const { stream } = await stall(llm, { signal: stop.signal });
  const left = await stall(llm);
  await expect.poll(() => llm.stats().paused).toBe(2);
  stop.abort(new Error("enough"));
  await left.stream.return?.();
  await expect.poll(() => llm.stats()).toMatchObject({ paused: 0, running: 0, heldBlocks: 0 });
  await expect(readOn(stream)).rejects.toThrow("enough");
});
