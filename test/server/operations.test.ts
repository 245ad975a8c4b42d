import { expect, test } from "vitest";
import { json } from "../support/json.ts";
import { closeToyServers, serveToy } from "../support/toy-server.ts";

closeToyServers();

test("health is an empty 200 while all is well", async () => {
  const { get } = await serveToy();
  for (const path of ["/health", "/ping"]) {
    const answer = await get(path);
    expect(answer.status).toBe(200);
    expect(await answer.text()).toBe("");
  }
});

test("a draining model is a 503", async () => {
  const { get, model } = await serveToy();
  await model.drain();
  const answer = await get("/health");
  expect(answer.status).toBe(503);
  expect((await json(answer)).error?.code).toBe("shutting_down");
});

test("version, server_info and the front page say what runs", async () => {
  const { get } = await serveToy();
  const { version } = await json(get("/version"));
  expect(version).toMatch(/^\d+\.\d+\.\d+/);
  expect(await json(get("/server_info"))).toMatchObject({
    version,
    model: { name: "toy", contextTokensMax: 4096 },
    health: { state: "ready" },
    stats: { heldBlocks: 0 },
    options: { requestBytesMax: 16 * 2 ** 20 },
  });
  expect(await json(get("/"))).toMatchObject({ name: "perigee", model: "toy" });
});
