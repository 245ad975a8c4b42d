/** A streamed answer that one worker begins and another one ends: the client sees one stream. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { LLM } from "#engine";
import { type RunningServer, startServer } from "#server";
import {
  type Body,
  byChoice,
  continued,
  type MarkedStream,
  relayed,
  streamed,
} from "../../support/migrating.ts";

/** Two workers: the second one has never seen the request. */
let models: LLM[];
let servers: RunningServer[];

beforeAll(async () => {
  const load = () => LLM.load("models/pocket", { dtype: "float32", engineThread: false });
  models = await Promise.all([load(), load()]);
  servers = await Promise.all(
    models.map((model) => startServer(model, { port: 0, logLevel: "silent" })),
  );
});

afterAll(async () => {
  await Promise.all((servers ?? []).map((server) => server.close()));
  await Promise.all((models ?? []).map((model) => model.close()));
});

const perigee = { markers: true, seed: 99, created: 1_760_000_000 };
const shared = { max_tokens: 20, stream: true, stream_options: { include_usage: true }, perigee };
const chat = { messages: [{ role: "user", content: "Hello, who are you?" }], ...shared };

/** Cuts an answer behind every delivery, and lets the other worker go on. */
async function moveEverywhere(path: string, body: Body, choices: number): Promise<MarkedStream> {
  const [first, second] = servers;
  if (first === undefined || second === undefined) throw new Error("No workers");
  const whole = await streamed(first.url, path, body);
  const wanted = relayed(whole);
  for (let taken = 1; taken <= whole.deliveries.length; taken++) {
    const rest = await streamed(second.url, path, continued(body, whole, taken, choices));
    const seen = relayed(whole, taken) + relayed(rest);
    expect(byChoice(seen), `moved behind delivery ${taken}`).toEqual(byChoice(wanted));
    if (choices === 1) expect(seen).toBe(wanted);
  }
  return whole;
}

test("[CL112] a chat goes on with the same bytes, wherever it is moved", async () => {
  await moveEverywhere("/v1/chat/completions", chat, 1);
});
