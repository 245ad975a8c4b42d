import { expect, test } from "vitest";
import { json } from "../support/json.ts";
import { closeToyServers, serveToy } from "../support/toy-server.ts";

closeToyServers();

test("with API keys, work needs one of them and health does not", async () => {
  const { post, get, client } = await serveToy({}, { apiKey: ["first", "second"] });
  const body = { prompt: "a" };
  for (const headers of [{}, { authorization: "Bearer third" }, { authorization: "first" }]) {
    const answer = await post("/v1/completions", body, headers as Record<string, string>);
    expect(answer.status).toBe(401);
    expect(await json(answer)).toMatchObject({
      error: { type: "authentication_error", code: "invalid_api_key" },
    });
  }
  const second = { authorization: "Bearer second" };
  expect((await post("/v1/completions", body, second)).status).toBe(200);
  expect((await client.models.list()).data).toHaveLength(1);
  for (const path of ["/health", "/ping", "/metrics", "/version", "/"]) {
    expect((await get(path)).status).toBe(200);
  }
  expect((await get("/server_info")).status).toBe(401);
  expect((await post("/tokenize", { prompt: "a" })).status).toBe(401);
});

test("server_info never shows a key", async () => {
  const { get } = await serveToy({}, { apiKey: ["very-secret"] });
  const answer = await get("/server_info", { headers: { authorization: "Bearer very-secret" } });
  expect(answer.status).toBe(200);
  expect(await answer.text()).not.toContain("very-secret");
});

test("allowed origins get CORS headers on answers, streams and preflights", async () => {
  const { get, post } = await serveToy({}, { corsOrigins: ["https://app.example"] });
  const origin = "https://app.example";
  const preflight = await get("/v1/completions", {
    method: "OPTIONS",
    headers: {
      origin,
      "access-control-request-method": "POST",
      "access-control-request-headers": "authorization",
    },
  });
  expect(preflight.status).toBe(204);
  expect(preflight.headers.get("access-control-allow-headers")).toBe("authorization");
  const streamed = await post("/v1/completions", { prompt: "a", stream: true }, { origin });
  await streamed.text();
  expect(streamed.headers.get("access-control-allow-origin")).toBe(origin);
  const other = await get("/health", { headers: { origin: "https://evil.example" } });
  expect(other.headers.get("access-control-allow-origin")).toBeNull();
});
