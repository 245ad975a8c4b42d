/** One request of many prompts, over the bundled model: streamed and not, by one rule. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { LLM } from "#engine";
import { type RunningServer, startServer } from "#server";
import { sized } from "../../support/full.ts";

const PROMPTS = sized(200, 1000);
/** With n = 2 more sequences than may wait: a rule that refuses counts two a prompt. */
const WAITING_MAX = sized(256, 1024);
const body = {
  prompt: Array.from({ length: PROMPTS }, (_, place) => `${place}`),
  ...{ max_tokens: 2, n: 2, temperature: 1, seed: 7, ignore_eos: true },
};

let llm: LLM;
let server: RunningServer;

beforeAll(async () => {
  llm = await LLM.load("models/pocket", {
    ...{ engineThread: false, scheduler: { waitingSequencesMax: WAITING_MAX } },
  });
  server = await startServer(llm, { port: 0, logLevel: "silent" });
});

afterAll(async () => {
  await server?.close();
  await llm?.[Symbol.asyncDispose]();
});

const ask = (stream: boolean) =>
  fetch(`${server.url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ ...body, stream }),
  });

interface Choice {
  readonly index: number;
  readonly text: string;
}

test(`${PROMPTS} prompts with two samples each are streamed as they are answered at once`, async () => {
  const whole = await ask(false);
  expect(whole.status).toBe(200);
  const { choices } = (await whole.json()) as { choices: Choice[] };
  expect(choices).toHaveLength(2 * PROMPTS);
  const before = process.memoryUsage().rss;
  const streamed = await ask(true);
  expect(streamed.status).toBe(200);
  const texts = new Array<string>(2 * PROMPTS).fill("");
  for (const line of (await streamed.text()).split("\n\n")) {
    if (!line.startsWith("data: {")) continue;
    const chunk = JSON.parse(line.slice("data: ".length)) as { choices: Choice[] };
    for (const { index, text } of chunk.choices) texts[index] += text;
  }
  expect(texts).toEqual(choices.map(({ text }) => text));
  // It took 4.3 GiB where every item added reactions to every stream that waited.
  expect(process.memoryUsage().rss - before).toBeLessThan(512 * 2 ** 20);
  await expect.poll(() => llm.stats()).toMatchObject({ running: 0, waiting: 0, heldBlocks: 0 });
}, 120_000);
