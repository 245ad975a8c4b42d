import { expect, test } from "vitest";
import { json } from "../support/json.ts";
import { closeToyServers, serveToy } from "../support/toy-server.ts";

closeToyServers();

test("health is an empty 200 while all is well", async () => {
  const { get } = await serveToy();
  for (const path of ["/health", "/ping", "/health/live", "/health/ready"]) {
    const answer = await get(path);
    expect(answer.status).toBe(200);
    expect(await answer.text()).toBe("");
  }
});

test("a draining model is a 503", async () => {
  const { get, model } = await serveToy();
  await model.drain();
  for (const path of ["/health", "/health/ready"]) {
    const answer = await get(path);
    expect(answer.status).toBe(503);
    expect((await json(answer)).error?.code).toBe("shutting_down");
  }
  expect((await get("/health/live")).status).toBe(200);
});

test("health says 503 while the engine is stuck, and 200 when it goes on", async () => {
  const { get, model } = await serveToy({}, { stuckAfterMs: 60_000 });
  const statuses = async () =>
    Promise.all(
      ["/health", "/health/live", "/health/ready", "/ping"].map(async (path) => {
        const answer = await get(path);
        return [answer.status, answer.status === 200 ? null : (await json(answer)).error?.code];
      }),
    );
  Object.assign(model, { turnMs: () => 59_000 });
  expect(await statuses()).toEqual(Array(4).fill([200, null]));
  Object.assign(model, { turnMs: () => 180_000 });
  expect(await statuses()).toEqual(Array(4).fill([503, "engine_stuck"]));
  expect(await json(get("/server_info"))).toMatchObject({ engine_turn_ms: 180_000 });
  Object.assign(model, { turnMs: () => 0 });
  expect(await statuses()).toEqual(Array(4).fill([200, null]));
});

test("version, server_info and the front page say what runs", async () => {
  const { get } = await serveToy();
  const { version } = await json(get("/version"));
  expect(version).toMatch(/^\d+\.\d+\.\d+/);
  expect(await json(get("/server_info"))).toMatchObject({
    version,
    model: "toy",
    model_details: { name: "toy", contextTokensMax: 4096 },
    health: { state: "ready" },
    stats: { heldBlocks: 0 },
    options: { requestBytesMax: null },
  });
  expect(await json(get("/"))).toMatchObject({ name: "perigee", model: "toy" });
});

test("what routers for SGLang ask of a worker", async () => {
  const { get } = await serveToy();
  for (const path of ["/model_info", "/get_model_info"]) {
    expect(await json(get(path))).toMatchObject({
      ...{ model_path: "toy", served_model_name: "toy", is_generation: true },
      ...{ max_model_len: 4096, preferred_sampling_params: null },
    });
  }
  expect(await json(get("/get_server_info"))).toMatchObject({
    ...{ model: "toy", model_path: "toy", served_model_name: "toy", tp_size: 1, dp_size: 1 },
  });
  expect(await json(get("/get_load"))).toEqual([
    { dp_rank: 0, num_reqs: 0, num_waiting_reqs: 0, num_tokens: 0 },
  ]);
});

test("loads as SGLang's routers read them", async () => {
  const { get } = await serveToy();
  for (const path of ["/loads", "/v1/loads"]) {
    expect(await json(get(path))).toMatchObject({
      dp_rank_count: 1,
      loads: [{ dp_rank: 0, num_running_reqs: 0, num_waiting_reqs: 0, token_usage: 0 }],
      aggregate: { total_reqs: 0 },
    });
  }
});

test("[CL57] a cache is reset by those who have a key alone, and never without keys", async () => {
  const open = await serveToy();
  const refused = await open.post("/reset_prefix_cache", {});
  expect(refused.status).toBe(403);
  expect((await json(refused)).error?.message).toMatch(/start it with apiKey \(--api-key-file\)$/);
  const { post, model } = await serveToy({}, { apiKey: ["key"] });
  const key = { authorization: "Bearer key" };
  const cachedTokens = async () => {
    const [result] = await model.generate("A prompt that is said twice", { maxTokens: 1 });
    return result?.cachedTokens ?? -1;
  };
  await cachedTokens();
  expect(await cachedTokens()).toBeGreaterThan(0);
  expect((await post("/reset_prefix_cache", {})).status).toBe(401);
  expect(await cachedTokens()).toBeGreaterThan(0);
  for (const path of ["/reset_prefix_cache", "/flush_cache"]) {
    expect((await post(path, {}, key)).status).toBe(200);
    expect(await cachedTokens()).toBe(0);
  }
  Object.assign(model, { forgetCached: undefined });
  expect((await post("/reset_prefix_cache", {}, key)).status).toBe(501);
});
