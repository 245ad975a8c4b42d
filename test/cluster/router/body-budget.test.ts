import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { parseRouterConfig } from "../../../src/cluster/router/config.ts";
import { RawClient } from "../../support/raw-client.ts";
import { clientsOf, closeRouters, routeTo } from "../../support/router-fleet.ts";
import { closeStrangeWorkers, strangeWorker } from "../../support/strange-worker.ts";

closeRouters();
closeStrangeWorkers();

const KIB = 1024;
const LIMITS = { requestBytesMax: 64 * KIB, bodiesBytesMax: 128 * KIB };
const PATH = "/v1/chat/completions";

const chat = (bytes: number) => ({
  model: "toy",
  messages: [{ role: "user", content: "x".repeat(bytes) }],
});

/** Long requests wait for `answer`, or fail once; short ones are answered at once. */
async function fleet(failing = false) {
  const held: (() => void)[] = [];
  let asked = 0;
  const one = () =>
    strangeWorker((request, response) => {
      let bytes = 0;
      request.on("data", (part: Buffer) => {
        bytes += part.length;
      });
      request.on("end", () => {
        const end = () => response.setHeader("content-type", "application/json").end("{}");
        if (bytes < KIB) return end();
        if (failing && asked++ === 0) response.writeHead(503).end("{}");
        else held.push(end);
      });
    });
  const router = await routeTo([await one(), await one()], LIMITS);
  const { get, post } = clientsOf(router);
  const metric = async (name: string) => {
    const text = await (await get("/metrics")).text();
    return Number(new RegExp(`^perigee_router_${name} (\\d+)$`, "m").exec(text)?.[1]);
  };
  const waits = (count: number) => expect.poll(() => held.length).toBe(count);
  const answer = () => {
    for (const end of held.splice(0)) end();
  };
  return { url: router.url, post, metric, waits, answer };
}

test("[CL150] a body beyond the room of all is refused, and short ones still find room", async () => {
  const { post, metric, waits, answer } = await fleet();
  const first = post(PATH, chat(60 * KIB));
  await waits(1);
  expect(await metric("body_bytes")).toBeGreaterThan(60 * KIB);
  // It would leave less to others than it takes.
  const second = await post(PATH, chat(40 * KIB));
  expect([second.status, second.headers.get("retry-after")]).toEqual([503, "1"]);
  expect(await second.json()).toMatchObject({
    error: {
      code: "overloaded",
      message: expect.stringContaining(`bodies of requests in work may have ${128 * KIB} bytes`),
    },
  });
  expect(second.headers.get("connection")).not.toBe("close");
  expect((await post(PATH, chat(100))).status).toBe(200);
  const third = post(PATH, chat(30 * KIB));
  await waits(2);
  answer();
  expect([(await first).status, (await third).status]).toEqual([200, 200]);
  await expect.poll(() => metric("body_bytes")).toBe(0);
  expect(await metric("bodies_refused_total")).toBe(1);
});

test("[CL150] bytes are held while a request waits for another worker, and count once", async () => {
  const { post, metric, waits, answer } = await fleet(true);
  const retried = post(PATH, chat(50 * KIB));
  await waits(1);
  expect(await metric("retries_total")).not.toBe(0);
  const bytes = await metric("body_bytes");
  expect(bytes).toBeGreaterThan(50 * KIB);
  expect(bytes).toBeLessThan(51 * KIB);
  answer();
  expect((await retried).status).toBe(200);
  await expect.poll(() => metric("body_bytes")).toBe(0);
});

const head = (rest: string) =>
  `POST ${PATH} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n${rest}\r\n\r\n`;

test("[CL150] bodies that never end, in known length and in chunks, count until they are cut", async () => {
  const { url, post, metric } = await fleet();
  const text = `{"model":"${"x".repeat(30 * KIB)}`;
  const announced = new RawClient(url).send(head("content-length: 60000") + text);
  const size = text.length.toString(16);
  const chunked = new RawClient(url).send(
    `${head("transfer-encoding: chunked")}${size}\r\n${text}\r\n`,
  );
  await expect.poll(() => metric("body_bytes")).toBe(2 * text.length);
  // What is announced and does not come takes no room.
  const empty = new RawClient(url).send(head("content-length: 60000"));
  await sleep(50);
  expect(await metric("body_bytes")).toBe(2 * text.length);
  expect((await post(PATH, chat(60 * KIB))).status).toBe(503);
  for (const client of [announced, chunked, empty]) client.hangUp();
  await expect.poll(() => metric("body_bytes")).toBe(0);
});

test("[CL150] requests behind each other on one connection that is cut give their room back", async () => {
  const { url, metric, waits } = await fleet();
  const client = new RawClient(url);
  for (let at = 0; at < 3; at++) client.post(PATH, chat(10 * KIB));
  await waits(3);
  expect(await metric("body_bytes")).toBeGreaterThan(30 * KIB);
  client.hangUp();
  await expect.poll(() => metric("body_bytes")).toBe(0);
});

test("[CL150] what is refused for other reasons holds nothing", async () => {
  const { url, post, metric } = await fleet();
  expect((await post(PATH, chat(70 * KIB))).status).toBe(413);
  const type = { "content-type": "text/plain" };
  const body = "x".repeat(20 * KIB);
  expect((await fetch(url + PATH, { method: "POST", headers: type, body })).status).toBe(415);
  expect((await fetch(`${url}/nowhere`, { method: "POST", body })).status).toBe(404);
  await expect.poll(() => metric("body_bytes")).toBe(0);
  expect(await metric("bodies_refused_total")).toBe(0);
});

test("[CL150] the room for bodies must have place for the longest", () => {
  const config = (bodiesBytesMax: number) => parseRouterConfig({ ...LIMITS, bodiesBytesMax });
  expect(config(128 * KIB).bodiesBytesMax).toBe(128 * KIB);
  expect(() => config(128 * KIB - 1)).toThrow("at least twice requestBytesMax");
});
