import { request } from "node:http";
import { expect, test } from "vitest";
import { json } from "../support/json.ts";
import { closeToyServers, serveToy } from "../support/toy-server.ts";

closeToyServers();

test("a throw in a handler is a 500 without internals, and the server goes on", async () => {
  const { post, get, model } = await serveToy();
  model.embed = async () => {
    throw new TypeError("secret internals");
  };
  const answer = await post("/v1/embeddings", { input: "a" });
  expect(answer.status).toBe(500);
  const { error } = await json(answer);
  expect(error).toMatchObject({ type: "server_error", param: null, code: "internal_error" });
  expect(error?.message).not.toContain("secret");
  expect((await get("/health")).status).toBe(200);
});

test("an unknown path is a 404, a wrong method a 405 that names the right one", async () => {
  const { get } = await serveToy();
  const unknown = await get("/v2/chat");
  expect(unknown.status).toBe(404);
  expect((await json(unknown)).error?.code).toBe("not_found");
  const wrong = await get("/v1/completions");
  expect(wrong.status).toBe(405);
  expect(wrong.headers.get("allow")).toBe("POST");
  expect((await json(wrong)).error?.message).toBe("Cannot GET /v1/completions: use POST");
});

test("a client that sends a body that is too large is answered, though most of it was still to come", async () => {
  const { server } = await serveToy({}, { requestBytesMax: 1_000 });
  const body = Buffer.alloc(20_000_000, "x");
  for (let round = 0; round < 10; round++) {
    const status = await new Promise<number | string>((resolve) => {
      const headers = { "content-type": "application/json", "content-length": body.length };
      const sent = request(`${server.url}/v1/completions`, { method: "POST", headers });
      sent.once("error", (error) => resolve(error.message));
      sent.once("response", (response) => {
        response.resume();
        resolve(response.statusCode ?? 0);
      });
      sent.end(body);
    });
    expect(status).toBe(413);
  }
});

test("a body that is too large is a 413, another type a 415, broken JSON a 400", async () => {
  const { server } = await serveToy({}, { requestBytesMax: 100 });
  const send = (body: string, type = "application/json") =>
    fetch(`${server.url}/v1/completions`, {
      method: "POST",
      headers: { "content-type": type },
      body,
    });
  const tooLong = await send(JSON.stringify({ prompt: "x".repeat(100) }));
  expect(tooLong.status).toBe(413);
  expect((await json(tooLong)).error).toMatchObject({
    code: "body_too_large",
    message:
      "Cannot read body: must have at most 100 bytes (requestBytesMax), current value is 113; " +
      "send less at once",
  });
  expect((await send("prompt=a", "application/x-www-form-urlencoded")).status).toBe(415);
  expect((await send("a", "text/plain")).status).toBe(415);
  expect((await send("{")).status).toBe(400);
  expect((await send(`{"prompt": ${"[".repeat(40)}${"]".repeat(40)}}`)).status).toBe(400);
});

test.for([
  ["application/x-www-form-urlencoded", "current value is application/x-www-form-urlencoded"],
  ["a", "current value is a"],
  [null, "current value is missing"],
] as const)("a body of type %s is told which one to send", async ([type, current]) => {
  const { server } = await serveToy();
  const answer = await fetch(`${server.url}/v1/completions`, {
    method: "POST",
    headers: type === null ? {} : { "content-type": type },
    body: new TextEncoder().encode('{"prompt": "a"}'),
  });
  expect(answer.status).toBe(415);
  const { error } = await json(answer);
  expect(error?.message).toContain(current);
  expect(error?.message).toMatch(/send content-type: application\/json$/);
});

test("bodies are refused before they nest as deep as a stack", async () => {
  const { post } = await serveToy();
  const deep = (levels: number): unknown => (levels === 0 ? 1 : [deep(levels - 1)]);
  const answer = await post("/v1/completions", { prompt: "a", metadata: deep(200) });
  expect(answer.status).toBe(400);
  expect((await json(answer)).error?.code).toBe("nested_too_deeply");
  expect((await post("/v1/completions", { prompt: "a", metadata: deep(20) })).status).toBe(200);
});
