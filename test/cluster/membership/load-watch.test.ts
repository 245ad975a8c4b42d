/** What workers say of their load: one question, and lines from then on; and workers that lie. */
import { createServer, type ServerResponse } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, expect, test } from "vitest";
import { LoadWatch, type Member, type WorkerLoad } from "#cluster";
import { WorkerHttp } from "#cluster/http";
import { startServer } from "#server";
import { ToyModel } from "../../support/toy-model.ts";
import { until } from "../../support/until.ts";
import { workerInfo } from "../../support/worker-info.ts";

const INTERVAL_MS = 40;
const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

const load = (runningRequests: number): WorkerLoad => ({
  ...{ runningRequests, waitingRequests: 0, blocksUsed: 0, uncachedTokens: 0 },
});

/** What is told of a worker at `url`; `told` has the running requests of each report. */
function follow(url: string, epoch = "1", intervalMs = INTERVAL_MS) {
  const info = { ...workerInfo(), id: url, url, epoch, kind: "perigee" } as const;
  const member: Member = { info, state: "ready" };
  const told: number[] = [];
  const heard: Member[] = [];
  const membership = {
    ...{ workers: new Map([[url, member]]), heardMs: 0, listen: () => () => {} },
    ...{ learnRole: () => {}, heard: (news: Member) => void heard.push(news) },
    close: async () => {},
  };
  const http = new WorkerHttp();
  closing.push(() => http.close());
  const watch = new LoadWatch(membership, {
    ...{ secret: "of-the-fleet", http, intervalMs },
    onLoad: (_, { runningRequests }) => void told.push(runningRequests),
  });
  closing.push(() => watch.close());
  const line = (running: number) =>
    JSON.stringify({ ...info, state: "ready", load: load(running) });
  return { told, heard, line, workers: membership.workers };
}

/** A server that answers each question with `answer`; `asked` has the paths and tokens. */
async function serve(answer: (response: ServerResponse) => void) {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(`${request.url} ${request.headers.authorization}`);
    answer(response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("It listens at a port");
  closing.push(() => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  });
  return { url: `http://127.0.0.1:${address.port}`, asked };
}

test("[CL265] one question is enough: an empty line says that all is as before", async () => {
  let answer: ServerResponse | null = null;
  const { url, asked } = await serve((response) => {
    answer = response;
  });
  const { told, line, workers } = follow(url);
  await until("it is asked", () => answer !== null);
  const write = async (text: string) => {
    answer?.write(text);
    await sleep(INTERVAL_MS);
  };
  await write(`${line(1)}\n`);
  await write("\n");
  const [head, tail] = [line(2).slice(0, 40), line(2).slice(40)];
  await write(head);
  await write(`${tail}\n`);
  await until("all is told", () => told.at(-1) === 2);
  expect(told).toEqual([1, 1, 2]);
  expect(asked).toEqual(["/worker_info?follow=on Bearer of-the-fleet"]);
  workers.clear();
  await until("it is let go", () => answer?.destroyed === true);
});

test("[CL265] a worker that is older is asked again and again", async () => {
  const { url, asked } = await serve((response) => response.end(line(3)));
  const { told, line } = follow(url);
  await until("it is told", () => told.length > 2);
  expect(asked.length).toBeGreaterThan(2);
  expect(told.every((running) => running === 3)).toBe(true);
});

test("[CL265] a worker of ours tells its load once a second", async () => {
  const server = await startServer(new ToyModel({}), { port: 0, logLevel: "silent" });
  closing.push(() => server.close());
  const { told, heard } = follow(server.url, server.report().epoch);
  await until("it is told", () => told.length > 1);
  expect(heard[0]).toMatchObject({ state: "ready", info: { id: server.url } });
  await server.close();
});

test("[CL265] lines that come too often are passed over, but for the last one", async () => {
  let running = 0;
  const { url } = await serve((response) => {
    const timer = setInterval(() => response.write(`${line(running++)}\n`.repeat(3)), 1);
    response.once("close", () => clearInterval(timer));
  });
  const { told, line } = follow(url, "1", 200);
  await sleep(1200);
  expect(told.length).toBeGreaterThan(2);
  expect(told.length).toBeLessThan(13);
});

test.each([
  ["a line without end", () => "x".repeat(2 ** 16)],
  ["empty lines without end", () => "\n".repeat(2 ** 16)],
  ["reports without end", (line: string) => `${line}\n`.repeat(200)],
])("[CL265] %s costs a bounded number of bytes, then the worker is asked anew", async (_, made) => {
  const sent: number[] = [];
  const { url, asked } = await serve((response) => {
    const at = sent.push(0) - 1;
    const write = (): void => {
      const text = made(line(at));
      sent[at] = (sent[at] ?? 0) + text.length;
      if (!response.destroyed) response.write(text, () => setImmediate(write));
    };
    write();
  });
  const { line } = follow(url, "1", 400);
  await until("it is asked anew", () => asked.length > 1);
  // What the systems between hold comes on top.
  expect(sent[0]).toBeLessThan(16 * 2 ** 20);
});

test.each([
  ["no JSON", () => "nonsense"],
  ["no worker", () => '{"kind":"vllm"}'],
  ["half a worker", () => '{"kind":"perigee","id":7}'],
  ["another epoch", (line: string) => line.replace('"epoch":"1"', '"epoch":"2"')],
])("[CL265] %s tells nothing, and what is right behind it does", async (_, wrong) => {
  const { url, asked } = await serve((response) => {
    response.write(`${wrong(line(1))}\n`);
    setTimeout(() => response.write("\n"), INTERVAL_MS);
    setTimeout(() => response.write(`${line(2)}\n`), 3 * INTERVAL_MS);
  });
  const { told, line } = follow(url);
  await until("it is told", () => told.length > 0);
  expect(told[0]).toBe(2);
  expect(asked).toHaveLength(1);
});

test("[CL265] one that falls silent, or refuses, is asked anew", async () => {
  let count = 0;
  const { url, asked } = await serve((response) => {
    count++;
    if (count === 1) response.writeHead(503).end();
    else if (count > 2) response.write(`${line(7)}\n`);
  });
  const { told, line } = follow(url);
  await until("it is told", () => told.length > 0);
  expect(asked.length).toBeGreaterThan(2);
});

test("[CL265] a worker that is at another address now is asked there", async () => {
  const old = await serve((response) => void response.write("\n"));
  const next = await serve(() => {});
  const { workers } = follow(old.url);
  await until("it is asked", () => old.asked.length === 1);
  const member = workers.get(old.url);
  if (member !== undefined) {
    workers.set(old.url, { ...member, info: { ...member.info, url: next.url } });
  }
  await until("it is asked at the other address", () => next.asked.length === 1);
  expect(old.asked).toHaveLength(1);
});
