/** The role of a worker while it runs. */
import { expect, test } from "vitest";
import { readWorkerReport } from "#cluster";
import { type ReservedServer, reserveServer, type ServerOptions } from "#server";
import { json } from "../support/json.ts";
import { ToyModel } from "../support/toy-model.ts";

/** A model whose keys and values travel. */
function givingModel(): ToyModel {
  const model = new ToyModel();
  const kvAddress = { host: "127.0.0.1", port: 9 };
  return Object.assign(model, { info: { ...model.info, kvAddress } });
}

const quiet = { port: 0, logLevel: "silent", answeringThreads: 0 } as const;

function start(options: ServerOptions = {}): Promise<ReservedServer> {
  return reserveServer({ ...quiet, ...options });
}

function post(url: string, body: unknown, key = ""): Promise<Response> {
  return fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
}

test("[CL211] a role changes, and requests of before are refused before they are computed", async () => {
  await using reserved = await start();
  const model = givingModel();
  await using server = await reserved.serve(model, {
    worker: { id: "seven", epoch: "e", url: "http://10.0.0.7:8000", role: "decode" },
  });
  const told: unknown[] = [];
  server.onRole(() => told.push(server.report().role));
  const role = `${server.url}/worker_role`;
  expect(server.report()).toMatchObject({ role: "decode", roleEpoch: 0 });
  expect(await json(await post(role, { role: "prefill", role_epoch: 0 }))).toEqual({
    ...{ id: "seven", epoch: "e", role: "prefill", role_epoch: 1 },
  });
  // The same again is no change.
  expect(await json(await post(role, { role: "prefill" }))).toMatchObject({ role_epoch: 1 });
  expect((await post(role, { role: "both", role_epoch: 0 })).status).toBe(409);
  expect(told).toEqual(["prefill"]);
  const { info } = readWorkerReport(await json(await fetch(`${server.url}/worker_info`)));
  expect(info).toMatchObject({ role: "prefill", roleEpoch: 1 });

  const ask = (epoch: unknown) =>
    post(`${server.url}/v1/completions`, {
      ...{ model: "toy", prompt: "hello", max_tokens: 2, perigee: { role_epoch: epoch } },
    });
  const stale = await ask(0);
  expect([stale.status, await json(stale)]).toEqual([
    409,
    { error: expect.objectContaining({ code: "role_changed", param: "perigee.role_epoch" }) },
  ]);
  // One that started anew knows less than its router: it does what it does now.
  for (const epoch of [1, 2, null]) expect((await ask(epoch)).status).toBe(200);
  for (const epoch of ["1", 1.5, -0.5, {}, [0], true]) {
    expect([400, 409]).toContain((await ask(epoch)).status);
  }
});

test("[CL211] who may not change a role, and what has none, is told why", async () => {
  await using reserved = await start({ apiKey: ["user", "secret"] });
  await using server = await reserved.serve(givingModel(), { fleetSecrets: ["secret"] });
  const role = `${server.url}/worker_role`;
  expect((await post(role, { role: "both" })).status).toBe(401);
  const other = await post(role, { role: "decode" }, "user");
  expect([other.status, await other.text()]).toEqual([403, expect.stringContaining("secret")]);
  expect((await post(role, { role: "decode" }, "secret")).status).toBe(200);

  await using open = await start({ host: "0.0.0.0" });
  await using reachable = await open.serve(givingModel());
  const at = `${reachable.url.replace("0.0.0.0", "127.0.0.1")}/worker_role`;
  const refused = await post(at, { role: "decode" });
  expect([refused.status, await refused.text()]).toEqual([
    403,
    expect.stringContaining("--cluster-secret-file"),
  ]);

  await using third = await start();
  await using alone = await third.serve(new ToyModel());
  const without = await post(`${alone.url}/worker_role`, { role: "prefill" });
  expect([without.status, await without.text()]).toEqual([
    400,
    expect.stringContaining("start it with kvTransfer (--kv-transfer)"),
  ]);
});

test("[CL211] bodies that say no role change none", async () => {
  await using reserved = await start();
  await using server = await reserved.serve(givingModel());
  const hostile = [
    ...'null|[]|{}|1|"both"|{"role":null}|{"role":""}|{"role":"BOTH"}'.split("|"),
    ...'{"role":["both"]}|{"role":"both","x":1}|{"role":"both","role_epoch":-1}'.split("|"),
    ...'{"role":"both","role_epoch":1e99}|{"role":"both","role_epoch":"0"}|{'.split("|"),
    `{"role":"${"x".repeat(100_000)}"}`,
  ];
  for (const body of hostile) {
    const answer = await post(`${server.url}/worker_role`, body);
    expect([answer.status, body.slice(0, 60)]).toEqual([400, body.slice(0, 60)]);
    expect((await answer.text()).length).toBeLessThan(2000);
  }
  expect(server.report()).toMatchObject({ role: "both", roleEpoch: 0 });
});
