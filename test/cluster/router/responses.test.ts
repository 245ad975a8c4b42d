import OpenAI from "openai";
import { describe, expect, test } from "vitest";
import { serverTag, tagOfResponse } from "#server";
import { lineReader } from "../../../src/cluster/router/stream-reader.ts";
import { responseEvents } from "../../support/response-events.ts";
import { closeRouters, routeTo, routeToys } from "../../support/router-fleet.ts";
import { closeStrangeWorkers, strangeWorker } from "../../support/strange-worker.ts";
import { closeToyServers, serveToy, type ToyServer } from "../../support/toy-server.ts";

closeRouters();
closeToyServers();
closeStrangeWorkers();

const toy = { model: "toy" };

/** The worker of a fleet that has a response. */
async function keeperOf(workers: readonly ToyServer[], id: string): Promise<ToyServer> {
  for (const worker of workers) {
    const info = (await (await worker.get("/worker_info")).json()) as WorkerName;
    if (serverTag(info.id, info.epoch) === tagOfResponse(id)) return worker;
  }
  throw new Error(`No worker has ${id}`);
}

interface WorkerName {
  readonly id: string;
  readonly epoch: string;
}

describe("a chain of responses", () => {
  test("[CL250] goes to the worker that keeps it, whatever the policy would choose", async () => {
    const { client, workers } = await routeToys([{}, {}, {}], { policy: "round-robin" });
    const keepers = new Set<ToyServer>();
    for (let chain = 0; chain < 3; chain++) {
      let response = await client.responses.create({ ...toy, input: "first" });
      const keeper = await keeperOf(workers, response.id);
      keepers.add(keeper);
      for (let turn = 0; turn < 4; turn++) {
        const next = { ...toy, input: `turn ${turn}`, previous_response_id: response.id };
        response = await client.responses.create(next);
        expect(await keeperOf(workers, response.id)).toBe(keeper);
      }
      expect(response.usage?.input_tokens_details.cached_tokens).toBeGreaterThan(0);
      expect((await client.responses.retrieve(response.id)).id).toBe(response.id);
      const items = await client.responses.inputItems.list(response.id);
      expect(items.data).toMatchObject([{ content: [{ text: "turn 3" }] }]);
      const [output] = response.output;
      const input = [{ type: "item_reference" as const, id: output?.id ?? "" }];
      const named = await client.responses.create({ ...toy, input });
      expect(await keeperOf(workers, named.id)).toBe(keeper);
      await client.responses.delete(response.id);
      await expect(client.responses.retrieve(response.id)).rejects.toMatchObject({ status: 404 });
    }
    expect(keepers.size).toBe(3);
  });

  test("[CL251] whose worker is gone is not found, and says so", async () => {
    const { client } = await routeToys([{}]);
    const other = await serveToy();
    const { id } = await other.client.responses.create({ ...toy, input: "elsewhere" });
    const next = { ...toy, input: "b", previous_response_id: id };
    const missing = { status: 404, code: "response_not_found" };
    await expect(client.responses.create(next)).rejects.toMatchObject(missing);
    await expect(client.responses.retrieve(id)).rejects.toMatchObject(missing);
    await expect(client.responses.retrieve("resp_other")).rejects.toMatchObject(missing);
    await expect(client.responses.delete(id)).rejects.toMatchObject(missing);
    const input = [{ type: "item_reference" as const, id: `msg_${id.slice("resp_".length)}_0` }];
    await expect(client.responses.create({ ...toy, input })).rejects.toMatchObject(missing);
    const error = await client.responses.create(next).catch((thrown) => thrown);
    expect(error).toMatchObject({ param: null });
    expect(error.message).toContain("send the items of the conversation as input");
  });

  test("[CL251] whose worker does not answer just now says so, and asks no other one", async () => {
    const { client, workers } = await routeToys([{}, {}], { policy: "round-robin" });
    const { id } = await client.responses.create({ ...toy, input: "first" });
    const keeper = await keeperOf(workers, id);
    await keeper.server.close();
    const next = { ...toy, input: "b", previous_response_id: id };
    for (const stream of [false, true]) {
      const error = await client.responses.create({ ...next, stream }).catch((thrown) => thrown);
      expect([502, 503, 504]).toContain(error.status);
      expect(error.param).toBe("previous_response_id");
      expect(error.message).toContain(id);
      expect(error.message).toContain("send the items of the conversation as input");
    }
    const other = workers.find((worker) => worker !== keeper);
    expect(other?.model.requests).toHaveLength(0);
    // Others are served as before.
    expect((await client.responses.create({ ...toy, input: "new" })).status).toBe("completed");
  });

  test("[CL251] whose worker was started again at its address is not found", async () => {
    const first = await serveToy();
    const { url } = await routeTo([first.server.url]);
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 });
    const { id } = await client.responses.create({ ...toy, input: "first" });
    const port = Number(new URL(first.server.url).port);
    await first.server.close();
    const again = await serveToy({ eventStreamId: "another start" }, { port });
    const next = { ...toy, input: "b", previous_response_id: id };
    await expect
      .poll(async () => (await client.responses.create(next).catch((error) => error)).status, {
        timeout: 20_000,
      })
      .toBe(404);
    expect(again.model.requests).toHaveLength(0);
    expect((await client.responses.create({ ...toy, input: "new" })).status).toBe("completed");
  });

  test("[CL251] cannot go on with another worker's model", async () => {
    const workers = [await serveToy({}, { servedModelName: ["a"] }), await serveToy()];
    const { url } = await routeTo(workers.map(({ server }) => server.url));
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 });
    const { id } = await client.responses.create({ model: "a", input: "first" });
    const error = await client.responses
      .create({ ...toy, input: "b", previous_response_id: id })
      .catch((thrown) => thrown);
    expect(error).toMatchObject({ status: 400, param: "previous_response_id" });
    expect(workers[1]?.model.requests).toHaveLength(0);
  });

  test("[CL252] is one client's: another key of the router finds nothing of it", async () => {
    const { router, workers } = await routeToys([{}], { apiKey: ["first", "second"] });
    const [first, second] = ["first", "second"].map(
      (apiKey) => new OpenAI({ baseURL: `${router.url}/v1`, apiKey, maxRetries: 0 }),
    );
    if (first === undefined || second === undefined) throw new Error("Two clients");
    const { id } = await first.responses.create({ ...toy, input: "secret" });
    const missing = { status: 404 };
    await expect(second.responses.retrieve(id)).rejects.toMatchObject(missing);
    const next = { ...toy, input: "b", previous_response_id: id };
    await expect(second.responses.create(next)).rejects.toMatchObject(missing);
    const headers = { "x-perigee-owner": "made up" };
    await expect(second.responses.retrieve(id, {}, { headers })).rejects.toMatchObject(missing);
    expect((await first.responses.create(next)).status).toBe("completed");
    // Nor does the worker itself give it to who comes without the router.
    expect((await workers[0]?.get(`/v1/responses/${id}`))?.status).toBe(404);
  });
});

describe("a stream of a response", () => {
  test("is relayed as it is, to its end", async () => {
    const { post, workers } = await routeToys([{}]);
    const events = await responseEvents(
      await post("/v1/responses", { ...toy, input: "hi", stream: true }),
    );
    expect(events.at(0)?.type).toBe("response.created");
    expect(events.at(-1)?.type).toBe("response.completed");
    expect(workers[0]?.model.requests.at(-1)?.seed).toBeUndefined();
  });

  test("goes to another worker where one fails before it begins", async () => {
    const broken = await strangeWorker((_incoming, response) => {
      response.writeHead(503).end('{"error":{"message":"not now"}}');
    });
    const { server } = await serveToy();
    const { url } = await routeTo([broken, server.url], { policy: "round-robin" });
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 });
    for (let run = 0; run < 3; run++) {
      const response = await client.responses.stream({ ...toy, input: "hi" }).finalResponse();
      expect(response.output_text).toBe("HI");
    }
  });

  test("that breaks off ends with an error, which the client throws", async () => {
    const { client, workers } = await routeToys([{ msPerToken: 5, reply: () => "a".repeat(900) }]);
    const stream = await client.responses.create({ ...toy, input: "hi", stream: true });
    const reading = (async () => {
      for await (const { type } of stream) {
        if (type === "response.output_text.delta") workers[0]?.model.die("power");
        if (type === "response.output_text.delta") void workers[0]?.server.close();
        if (type === "response.failed") throw new Error("the response failed");
      }
    })();
    await expect(reading).rejects.toThrow();
    await expect.poll(() => workers[0]?.model.runningCount).toBe(0);
  });

  test("is complete at its last event, without [DONE]", () => {
    const reader = lineReader("responses");
    reader.read(Buffer.from('event: response.created\ndata: {"type":"response.created"}\n\n'));
    expect(reader.isComplete).toBe(false);
    const said = 'data: {"delta":"event: response.completed"}\n\n';
    reader.read(Buffer.from(`event: response.output_text.delta\n${said}`));
    expect(reader.isComplete).toBe(false);
    expect(reader.plainForm).toBeNull();
    reader.read(Buffer.from("event: response.incomplete\ndata: {}\n\n"));
    expect(reader.isComplete).toBe(true);
  });
});

test("files are searched by one server alone", async () => {
  const { post } = await routeToys([{}]);
  const tools = [{ type: "file_search", vector_store_ids: ["vs_1"] }];
  const answer = await post("/v1/responses", { ...toy, input: "hi", tools });
  expect(answer.status).toBe(400);
  expect(await answer.text()).toContain("one server");
});
