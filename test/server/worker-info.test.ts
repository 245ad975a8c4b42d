/** What a server says of itself as a worker. */
import { expect, test } from "vitest";
import { readWorkerReport } from "#cluster";
import { reserveServer } from "#server";
import { json } from "../support/json.ts";
import { ToyModel } from "../support/toy-model.ts";
import { closeToyServers, serveToy } from "../support/toy-server.ts";

closeToyServers();

test("a server alone is its address, with an epoch of its own", async () => {
  const { get, server } = await serveToy({ eventBufferMax: 64 });
  const { info, state, load } = readWorkerReport(await json(get("/worker_info")));
  expect(info).toEqual({
    ...{ id: server.url, url: server.url, kind: "perigee", models: ["toy"] },
    ...{ fingerprint: "toy-weights", contextTokensMax: 4096 },
    kv: { blockTokens: 16, blocks: [1024], groupWindows: [null] },
    ...{ epoch: expect.stringMatching(/^[0-9a-f-]{36}$/), version: expect.any(String) },
    ...{ role: "both", roleEpoch: 0 },
  });
  expect(state).toBe("ready");
  expect(load).toEqual({
    ...{ runningRequests: 0, waitingRequests: 0, blocksUsed: 0, uncachedTokens: 0 },
  });
  const other = await serveToy({ eventBufferMax: 0 });
  const { info: second } = readWorkerReport(other.server.report());
  expect(second.epoch).not.toBe(info.epoch);
  expect(second.kv).toBeNull();
});

test("a worker has the name, the epoch and the address that it was given", async () => {
  await using reserved = await reserveServer({ port: 0, logLevel: "silent", answeringThreads: 0 });
  const worker = { id: "seven", epoch: "e", url: "http://10.0.0.7:8000" };
  await using server = await reserved.serve(new ToyModel(), { worker });
  expect(server.report()).toMatchObject(worker);
});

test("[CL56] it says nothing without a key", async () => {
  const { get } = await serveToy({}, { apiKey: ["key"] });
  expect((await get("/worker_info")).status).toBe(401);
  const headers = { authorization: "Bearer key" };
  expect((await get("/worker_info", { headers })).status).toBe(200);
});
