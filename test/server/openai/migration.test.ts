/** A streamed answer that one worker begins and another one ends: the client sees one stream. */
import { existsSync, readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { LLM, type LoadOptions } from "#engine";
import { type RunningServer, startServer } from "#server";
import { eachNth, sized } from "../../support/full.ts";
import {
  type Body,
  byChoice,
  continued,
  type MarkedStream,
  relayed,
  streamed,
  withoutIds,
} from "../../support/migrating.ts";

/** Two workers: the second one has never seen the request. */
let models: LLM[];
let servers: RunningServer[];

/** Drafts change how many tokens an event has. */
const exact: LoadOptions = { dtype: "float32", speculative: { kind: "off" } };

beforeAll(async () => {
  const load = () => LLM.load("models/pocket", { ...exact, engineThread: false });
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
const shared = {
  max_tokens: sized(12, 20),
  stream: true,
  stream_options: { include_usage: true },
  perigee,
};
const chat = { messages: [{ role: "user", content: "Hello, who are you?" }], ...shared };

/** Cuts an answer behind every delivery, and lets the other worker go on. */
async function moveEverywhere(path: string, body: Body, choices: number): Promise<MarkedStream> {
  const [first, second] = servers;
  if (first === undefined || second === undefined) throw new Error("No workers");
  const whole = await streamed(first.url, path, body);
  // A prompt that begins at the second worker may be found there.
  const isOne = choices === 1 || !Array.isArray(body.prompt);
  const strip = (text: string) => (isOne ? text : text.replaceAll(/"cached_tokens":\d+/g, ""));
  const wanted = strip(relayed(whole));
  const cuts = whole.deliveries.map((_, place) => place + 1);
  for (const taken of eachNth(choices === 1 && cuts.length < 20 ? 2 : 5, cuts)) {
    const rest = await streamed(second.url, path, continued(body, whole, taken, choices));
    const seen = strip(relayed(whole, taken) + relayed(rest));
    expect(byChoice(seen), `moved behind delivery ${taken}`).toEqual(byChoice(wanted));
    if (choices === 1) expect(withoutIds(seen)).toBe(withoutIds(wanted));
  }
  return whole;
}

const CHATS: readonly (readonly [string, Body, number])[] = [
  ["plain", {}, 1],
  ["with a seed of its own and a stop string", { seed: 5, stop: ["e t", "you "] }, 1],
  [
    "with log-probabilities and ids",
    { logprobs: true, top_logprobs: 2, return_token_ids: true },
    1,
  ],
  ["without text where only ids are shown", { logprobs: true, stop: ["zzzz"] }, 1],
  [
    "with usage in every chunk",
    { stream_options: { include_usage: true, continuous_usage_stats: true } },
    1,
  ],
  ["without usage", { stream_options: null }, 1],
  ["with prompt log-probabilities and echo", { prompt_logprobs: 1, echo: true }, 1],
  ["with a JSON schema", { response_format: jsonFormat(), max_tokens: 32 }, 1],
  ["of three choices", { n: 3 }, 3],
  ["of two choices with a JSON schema", { n: 2, response_format: jsonFormat(), max_tokens: 24 }, 2],
  ["with calls that are forced", { ...forcedCalls(), max_tokens: 40 }, 1],
  ["with one forced call", { ...forcedCalls(), parallel_tool_calls: false, max_tokens: 28 }, 1],
  ["with calls that are not", { ...forcedCalls(), tool_choice: "auto" }, 1],
  ["with penalties", { frequency_penalty: 1, presence_penalty: 0.5, repetition_penalty: 1.2 }, 1],
];

test.for(CHATS)("[CL112] a chat %s goes on, wherever it is moved", async ([, more, choices]) => {
  await moveEverywhere("/v1/chat/completions", { ...chat, ...more }, choices);
});

/** Threads run what was built: `npm run build` comes first. */
const isBuilt = existsSync("dist/server/answering/answering-thread.js");

test.runIf(isBuilt)("[CL112] a worker with threads for engine and answers goes on", async () => {
  await using model = await LLM.load("models/pocket", exact);
  const server = await startServer(model, { port: 0, logLevel: "silent", answeringThreads: 2 });
  try {
    const body = { ...chat, n: 2, stop: ["zz"], logprobs: true };
    const whole = await streamed(servers[0]?.url ?? "", "/v1/chat/completions", body);
    const cuts = [1, 2, 9, whole.deliveries.length - 1];
    const moves = cuts.map(async (taken) => {
      const rest = await streamed(
        ...([server.url, "/v1/chat/completions", continued(body, whole, taken, 2)] as const),
      );
      expect(byChoice(relayed(whole, taken) + relayed(rest))).toEqual(byChoice(relayed(whole)));
    });
    await Promise.all(moves);
  } finally {
    await server.close();
  }
});

test("[CL112] a worker that drafts goes on with the same text, tokens and counts", async () => {
  const speculative = { kind: "lookup", adaptive: false } as const;
  const drafting = { ...exact, speculative, engineThread: false };
  await using model = await LLM.load("models/pocket", drafting);
  const server = await startServer(model, { port: 0, logLevel: "silent" });
  try {
    const messages = [{ role: "user", content: "Say: one two, one two, one two, one two, one" }];
    const body = { ...chat, messages, temperature: 0, max_tokens: 24, ignore_eos: true };
    const whole = await streamed(servers[0]?.url ?? "", "/v1/chat/completions", body);
    for (const taken of [1, 7, 15]) {
      const more = continued(body, whole, taken, 1);
      const rest = await streamed(server.url, "/v1/chat/completions", more);
      const ids = rest.deliveries.map((delivery) => delivery.ids).join(",");
      const wanted = whole.deliveries.slice(taken).map((delivery) => delivery.ids);
      expect(ids).toBe(wanted.join(","));
      expect(said(relayed(whole, taken) + relayed(rest))).toBe(said(relayed(whole)));
      expect(rest.rest).toContain('"completion_tokens":24');
    }
  } finally {
    await server.close();
  }
});

function said(events: string): string {
  const found = events.matchAll(/"delta":\{(?:"role":"assistant",)?"content":("(?:[^"\\]|\\.)*")/g);
  return [...found].map(([, text = '""']) => JSON.parse(text)).join("");
}

const completion = { prompt: "A cache is", ...shared };

const COMPLETIONS: readonly (readonly [string, Body, number])[] = [
  ["plain", {}, 1],
  ["with log-probabilities", { logprobs: 2 }, 1],
  ["with echo and log-probabilities", { logprobs: 1, echo: true }, 1],
  ["with ids", { return_token_ids: true, return_tokens_as_token_ids: true, logprobs: 0 }, 1],
  ["with half characters", { allowed_token_ids: [40, 41, 165, 170, 180, 190, 200, 210, 230] }, 1],
  ["of two prompts of two choices", { prompt: ["A cache is", "A mutex is"], n: 2 }, 4],
  ["of equal prompts", { prompt: ["A", "A"], echo: true }, 2],
  ["of ids", { prompt: [50, 60, 70] }, 1],
];

test.for(COMPLETIONS)("[CL112] a completion %s goes on", async ([, more, choices]) => {
  await moveEverywhere("/v1/completions", { ...completion, ...more }, choices);
});

test("[CL112] equal prompts draw differently, and the same at every worker", async () => {
  const body = { ...completion, prompt: ["A", "A"], n: 2, temperature: 1 };
  const [first, second] = await Promise.all(
    servers.map(({ url }) => streamed(url, "/v1/completions", body)),
  );
  const texts = [...byChoice(relayed(first ?? none())).entries()].filter(([index]) => index >= 0);
  expect(new Set(texts.map(([, chunks]) => textOf(chunks))).size).toBe(4);
  expect(byChoice(relayed(second ?? none()))).toEqual(byChoice(relayed(first ?? none())));
});

test("[CL112] when all choices have ended, the usage alone is left to say", async () => {
  const body = { ...chat, n: 2, max_tokens: 4 };
  const whole = await moveEverywhere("/v1/chat/completions", body, 2);
  const end = continued(body, whole, whole.deliveries.length, 2);
  const rest = await streamed(servers[1]?.url ?? "", "/v1/chat/completions", end);
  expect(rest.deliveries).toEqual([]);
  expect(rest.rest).toBe(whole.rest);
  expect(rest.rest).toContain('"completion_tokens":8');
});

test("[CL112] a prompt of ids is neither rendered nor encoded, and answered the same", async () => {
  const [server] = servers;
  const tokenized = await fetch(`${server?.url}/tokenize`, {
    ...{ method: "POST", headers: { "content-type": "application/json" } },
    body: JSON.stringify({ messages: chat.messages, add_generation_prompt: true }),
  });
  const { tokens } = (await tokenized.json()) as { readonly tokens: readonly number[] };
  const whole = await streamed(server?.url ?? "", "/v1/chat/completions", chat);
  expect(whole.promptTokens).toBe(tokens.length);
  const ids = { ...chat, messages: [{ role: "user", content: "?" }] };
  const answer = await streamed(server?.url ?? "", "/v1/chat/completions", {
    ...ids,
    perigee: { ...perigee, prompt_token_ids: tokens },
  });
  // Only what was found in the cache differs.
  const strip = (text: string) => text.replaceAll(/"cached_tokens":\d+/g, "");
  expect(strip(relayed(answer))).toBe(strip(relayed(whole)));
});

test("[CL114] markers tell every token, and stand behind all that it leads to", async () => {
  const body = { ...chat, return_token_ids: true, stop: ["zzzz"] };
  const { deliveries, promptTokens, rest } = await streamed(
    ...([servers[0]?.url ?? "", "/v1/chat/completions", body] as const),
  );
  const told = deliveries.flatMap(({ ids }) => ids.split(",")).map(Number);
  const shown = deliveries.flatMap(({ events }) =>
    [...events.matchAll(/"token_ids":\[([\d,]*)\]/g)].flatMap(([, ids = ""]) =>
      ids.split(",").map(Number),
    ),
  );
  expect(told).toEqual(shown);
  expect(deliveries.map(({ ended }) => ended)).toEqual(
    deliveries.map((_, place) => place === deliveries.length - 1),
  );
  expect(rest).toContain(`"prompt_tokens":${promptTokens}`);
  expect(rest).toContain(`"completion_tokens":${told.length}`);
});

test("[CL114] without the field a stream has no marker", async () => {
  const { perigee: _, ...plain } = chat;
  const { deliveries, rest } = await streamed(servers[0]?.url ?? "", "/v1/chat/completions", plain);
  expect(deliveries).toEqual([]);
  expect(rest).not.toMatch(/^:/m);
});

const REFUSED: readonly (readonly [string, Body, string])[] = [
  ["no stream", { stream: false, stream_options: null }, "needs stream to be true"],
  ["an entry too many", { perigee: moved("5", "6") }, "each of 1 choices, has 2"],
  ["an entry too few", { n: 2 }, "each of 2 choices, has 1"],
  ["a beam search", { use_beam_search: true, beam_width: 2, temperature: 0 }, "beam search"],
  ["ids outside of the vocabulary", { perigee: moved("5,4096") }, "from 0 to 4095"],
  ["a word", { perigee: moved("five") }, "must be token ids"],
  ["a comma too many", { perigee: moved("5,") }, "must be token ids"],
  ["a list", { perigee: { continue: [{ token_ids: [5] }] } }, "token_ids"],
  ["an unknown field", { perigee: { continues: [] } }, "perigee.continues"],
  ["an end token before its end", { perigee: moved("5,3,5") }, "token 2 of 3 does"],
  ["a stop string", { stop: "o", perigee: moved(spelled("two")) }, "stop string in their text"],
  ["more tokens than are wanted", { max_tokens: 2, perigee: moved("40,41") }, "token 2 of 2"],
  ["what its grammar refuses", { guided_regex: "[a-c]{2}", perigee: moved("5,6") }, "token 5"],
  ["more than fits", { max_tokens: null, perigee: moved("40,".repeat(2_100) + 40) }, "must fit"],
];

test.for(REFUSED)("[CL113] refused: %s", async ([, more, message]) => {
  const response = await fetch(`${servers[0]?.url}/v1/chat/completions`, {
    ...{ method: "POST", headers: { "content-type": "application/json" } },
    body: JSON.stringify({ ...chat, perigee: moved("5"), ...more }),
  });
  expect(response.status).toBe(400);
  expect(await response.text()).toContain(message);
});

test("[CL113] refused: log-probabilities of a prompt that a choice still has to show", async () => {
  const body = { ...completion, n: 2, echo: true, logprobs: 1, perigee: moved("40", "") };
  const refused = streamed(servers[0]?.url ?? "", "/v1/completions", body);
  await expect(refused).rejects.toThrow("no choice may lack tokens");
});

function moved(...ids: readonly string[]): Body {
  return { ...{ markers: true, continue: ids.map((token_ids) => ({ token_ids })) } };
}

/** Bytes as tokens: the tokenizer has one for each, in the order of the printable ones. */
function spelled(text: string): string {
  const { model } = JSON.parse(readFileSync("models/pocket/tokenizer.json", "utf8"));
  return [...text].map((character) => model.vocab[character]).join(",");
}

function none(): MarkedStream {
  throw new Error("No stream");
}

function textOf(chunks: readonly string[]): string {
  return chunks.map((chunk) => JSON.parse(chunk.slice(6)).choices[0].text).join("");
}

function jsonFormat(): Body {
  const properties = { name: { type: "string", maxLength: 8 }, size: { type: "integer" } };
  const schema = { type: "object", properties, required: ["name"], additionalProperties: false };
  return { type: "json_schema", json_schema: { name: "n", schema } };
}

function forcedCalls(): Body {
  const properties = { city: { type: "string", maxLength: 12 }, days: { type: "integer" } };
  const parameters = {
    type: "object",
    properties,
    required: ["city"],
    additionalProperties: false,
  };
  const tools = ["weather", "time"].map((name) => ({
    ...{ type: "function", function: { name, parameters } },
  }));
  return { tools, tool_choice: "required" };
}
