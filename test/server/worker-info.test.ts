/** What a server says of itself as a worker. */
import { connect } from "node:net";
import { expect, test } from "vitest";
import { readWorkerReport } from "#cluster";
import { reserveServer } from "#server";
import { json } from "../support/json.ts";
import { ToyModel } from "../support/toy-model.ts";
import { closeToyServers, serveToy } from "../support/toy-server.ts";
import { until } from "../support/until.ts";

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

test("[CL265] one that is followed goes on to say it, until it ends", async () => {
  const { get, server } = await serveToy();
  const { body, headers } = await get("/worker_info?follow=on");
  expect(headers.get("content-type")).toBe("application/x-ndjson");
  let text = "";
  const read = async (): Promise<void> => {
    for await (const piece of body ?? []) {
      text += Buffer.from(piece).toString();
      // The first line, and the next, which says that nothing has changed.
      if (text.endsWith("\n\n")) void server.close();
    }
  };
  await read();
  const [first = "", ...others] = text.split("\n");
  expect(readWorkerReport(JSON.parse(first)).info.id).toBe(server.url);
  expect(others[0]).toBe("");
});

test("[CL265] where too many follow, the answer has an end, and others go on", async () => {
  const { get } = await serveToy();
  const stop = new AbortController();
  const ask = () => get("/worker_info?follow=on", { signal: stop.signal });
  const answers = await Promise.all(Array.from({ length: 256 }, ask));
  const types = answers.map(({ headers }) => headers.get("content-type"));
  expect(new Set(types)).toEqual(new Set(["application/x-ndjson"]));
  expect(readWorkerReport(await json(get("/worker_info?follow=on"))).state).toBe("ready");
  stop.abort();
  await until("there is room", async () => {
    const answer = await get("/worker_info?follow=on");
    const isFollowed = answer.headers.get("content-type") === "application/x-ndjson";
    await answer.body?.cancel();
    return isFollowed;
  });
});

test("[CL265] questions behind each other on one connection are followed no longer than it", async () => {
  const { get, server } = await serveToy();
  const { hostname, port } = new URL(server.url);
  const socket = connect(Number(port), hostname);
  const question = `GET /worker_info?follow=on HTTP/1.1\r\nhost: ${hostname}\r\n\r\n`;
  socket.write(question.repeat(256));
  await until("all are followed", async () => {
    const answer = await get("/worker_info?follow=on");
    const hasEnd = answer.headers.get("content-type") !== "application/x-ndjson";
    await answer.body?.cancel();
    return hasEnd;
  });
  socket.destroy();
  await until("there is room", async () => {
    const answer = await get("/worker_info?follow=on");
    const isFollowed = answer.headers.get("content-type") === "application/x-ndjson";
    expect(isFollowed ? answer.headers.get("x-accel-buffering") : "no").toBe("no");
    await answer.body?.cancel();
    return isFollowed;
  });
});
