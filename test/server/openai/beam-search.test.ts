import { describe, expect, test } from "vitest";
import { readEvents } from "../../support/events.ts";
import { json } from "../../support/json.ts";
import { closeToyServers, serveToy } from "../../support/toy-server.ts";

closeToyServers();

const messages = [{ role: "user", content: "hello" }];
const completions = "/v1/completions";
const chat = "/v1/chat/completions";

/** What the engine is asked for. */
async function askedBy(fields: object) {
  const { post, model } = await serveToy({}, { defaultSampling: { temperature: 0.3, topK: 5 } });
  const answer = await post(completions, { prompt: "once", ...fields });
  expect(answer.status).toBe(200);
  return model.requests[0];
}

describe("which fields search beams", () => {
  test("use_beam_search alone searches as many beams as it returns, as at vLLM", async () => {
    expect(await askedBy({ use_beam_search: true, n: 3 })).toMatchObject({ n: 3, beamWidth: 3 });
  });

  test("beam_width searches more beams than are returned", async () => {
    const fields = { beam_width: 4, length_penalty: 0.5, early_stopping: "never", n: 2 };
    const wanted = { n: 2, beamWidth: 4, lengthPenalty: 0.5, earlyStopping: "never" };
    expect(await askedBy(fields)).toMatchObject(wanted);
    expect(await askedBy({ ...fields, use_beam_search: true })).toMatchObject(wanted);
  });

  test("a model's recommended sampling is not applied to beam search", async () => {
    const beams = await askedBy({ use_beam_search: true, n: 2 });
    expect([beams?.temperature, beams?.topK]).toEqual([undefined, undefined]);
    expect(await askedBy({})).toMatchObject({ temperature: 0.3, topK: 5, beamWidth: null });
  });

  test("neutral values of other engines' clients search nothing", async () => {
    const fields = { use_beam_search: false, beam_width: 1, length_penalty: 1 };
    expect(await askedBy({ ...fields, early_stopping: false })).toMatchObject({ beamWidth: null });
  });
});

describe("answers of a beam search", () => {
  const beams = { use_beam_search: true, beam_width: 4, n: 2, return_token_ids: true };

  test("choices are best first, with scores, and usage counts those returned", async () => {
    const { post } = await serveToy();
    const answer = await json(await post(completions, { prompt: "once", ...beams }));
    expect(answer).toMatchObject({
      choices: [
        { index: 0, text: "ONCE #0", score: -1, finish_reason: "stop" },
        { index: 1, text: "ONCE #1", score: -2, finish_reason: "stop" },
      ],
      usage: { prompt_tokens: 4, completion_tokens: 16 },
    });
  });

  test("a chat has them too", async () => {
    const { post } = await serveToy();
    const answer = await json(await post(chat, { messages, ...beams }));
    expect(answer).toMatchObject({
      choices: [
        { index: 0, message: { content: "HELLO #0" }, score: -1 },
        { index: 1, message: { content: "HELLO #1" }, score: -2 },
      ],
    });
  });

  test("a stream brings each choice whole, at the end", async () => {
    const { post } = await serveToy();
    const events = await readEvents(
      await post(completions, { prompt: "a", stream: true, ...beams }),
    );
    expect(events).toMatchObject([
      { choices: [{ index: 0, text: "A #0", finish_reason: "stop", score: -1 }] },
      { choices: [{ index: 1, text: "A #1", finish_reason: "stop", score: -2 }] },
    ]);
  });

  test("a chat's stream brings roles, then each choice whole", async () => {
    const { post } = await serveToy();
    const events = await readEvents(await post(chat, { messages, stream: true, ...beams }));
    expect(events.flatMap(({ choices }) => choices)).toMatchObject([
      { index: 0, delta: { role: "assistant" } },
      { index: 1, delta: { role: "assistant" } },
      { index: 0, delta: { content: "HELLO #0" } },
      { index: 0, delta: {}, finish_reason: "stop", score: -1 },
      { index: 1, delta: { content: "HELLO #1" } },
      { index: 1, delta: {}, finish_reason: "stop", score: -2 },
    ]);
  });

  test("answers without beams have no score", async () => {
    const { post } = await serveToy();
    const { choices } = await json(await post(completions, { prompt: "once" }));
    expect(choices?.[0]).not.toHaveProperty("score");
  });
});

test.for<[name: string, fields: object, param: string]>([
  ["more returned than searched", { beam_width: 2, n: 3 }, "n"],
  ["too many beams", { beam_width: 65 }, "beam_width"],
  ["a width without a search", { use_beam_search: false, beam_width: 4 }, "beam_width"],
  ["a penalty without a search", { length_penalty: 2 }, "length_penalty"],
  ["a rule of stopping without a search", { early_stopping: true }, "early_stopping"],
  ["an unknown rule of stopping", { beam_width: 2, early_stopping: "soon" }, "early_stopping"],
  ["stop strings", { beam_width: 2, stop: "x" }, "stop"],
  ["log-probabilities", { beam_width: 2, logprobs: 1 }, "logprobs"],
  ["penalties", { beam_width: 2, repetition_penalty: 1.2 }, "repetition_penalty"],
  ["structured output", { beam_width: 2, guided_regex: "a+" }, "structured_output"],
])("%s is a 400 that names the field", async ([, fields, param]) => {
  const { post } = await serveToy();
  const answer = await post(completions, { prompt: "once", ...fields });
  expect(answer.status).toBe(400);
  expect(await json(answer)).toMatchObject({ error: { type: "invalid_request_error", param } });
});

test("kv_cache_retention_config reaches the engine", async () => {
  const ranges = [{ token_start: 0, token_end: 2, priority: 90 }];
  const asked = await askedBy({
    kv_cache_retention_config: { token_range_retention_configs: ranges },
  });
  expect(asked?.retention).toMatchObject({ ranges: [{ start: 0, end: 2, priority: 90 }] });
  expect(await askedBy({})).not.toHaveProperty("retention");
});
