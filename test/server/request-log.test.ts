import { setTimeout as sleep } from "node:timers/promises";
import fastify, { type FastifyBaseLogger, type FastifyInstance, LogController } from "fastify";
import { pino } from "pino";
import { expect, onTestFinished, test } from "vitest";
import { EngineError } from "#base";
import type { EndedRequest } from "../../src/server/ended-request.ts";
import { HttpError, httpFailure } from "../../src/server/http-errors.ts";
import { UsageCounter } from "../../src/server/openai/usage.ts";
import { logFailure, logRequests, noteCall } from "../../src/server/request-log.ts";

type Line = Readonly<Record<string, unknown>>;

/** A logger, and the lines that it wrote. */
function recorder() {
  const lines: Line[] = [];
  return { lines, log: pino({}, { write: (text) => lines.push(JSON.parse(text)) }) };
}

/** An application that logs its requests, and where it listens until the test is over. */
async function listening(
  log: pino.Logger,
  routes: (app: FastifyInstance) => void,
  onEnd?: (request: EndedRequest) => void,
): Promise<string> {
  const app: FastifyInstance = fastify({
    loggerInstance: log as FastifyBaseLogger, // pino's own type would make the app another type
    logController: new LogController({ disableRequestLogging: true }),
    forceCloseConnections: true, // else it may wait for a kept connection of fetch, for a minute
  });
  onTestFinished(() => app.close());
  logRequests(app, onEnd);
  routes(app);
  return app.listen({ port: 0, host: "127.0.0.1" });
}

function lineOf(error: unknown): Line | undefined {
  const { lines, log } = recorder();
  logFailure(log, error, httpFailure(error));
  return lines[0];
}

test("a refusal that belongs to a shutdown is a warning without a stack", () => {
  const line = lineOf(new EngineError("SHUTTING_DOWN", "Cannot accept request: try elsewhere"));
  expect(line).toMatchObject({
    level: 40,
    code: "SHUTTING_DOWN",
    msg: "Cannot accept request: try elsewhere",
  });
  expect(JSON.stringify(line)).not.toContain("at ");
});

test("what should not happen is an error with its stack", () => {
  const line = lineOf(new TypeError("x is not a function"));
  expect(line).toMatchObject({ level: 50, err: { stack: expect.stringContaining("at ") } });
});

test("what the client did wrong is not logged", () => {
  expect(lineOf(new EngineError("INVALID_ARGUMENT", "Cannot use n"))).toBeUndefined();
  expect(lineOf(new EngineError("ABORTED", "Cannot complete request"))).toBeUndefined();
  expect(lineOf(new HttpError(501, "unsupported", "Cannot pull models"))).toBeUndefined();
});

test("a generating request is logged with the id of its answer and its token counts", async () => {
  const { lines, log } = recorder();
  const ended: EndedRequest[] = [];
  const usage = new UsageCounter();
  usage.add(0, { promptTokenIds: [1, 2, 3], cachedTokens: 2, promptLogprobs: null }, 5);
  const routes = (app: FastifyInstance) =>
    app.post("/v1/completions", async (request) => {
      noteCall(request, { id: "abc", usage });
      return "a";
    });
  const url = await listening(log, routes, (request) => ended.push(request));
  lines.length = 0;
  await (await fetch(`${url}/v1/completions`, { method: "POST" })).text();
  const counts = { promptTokens: 3, cachedTokens: 2, completionTokens: 5 };
  await expect.poll(() => lines).toMatchObject([{ answerId: "abc", status: 200, ...counts }]);
  expect(ended).toEqual([{ method: "POST", route: "/v1/completions", status: 200 }]);
});

test("a probe that succeeds is logged at debug, the first of those that fail at info", async () => {
  const lines: Line[] = [];
  const write = (text: string) => lines.push(JSON.parse(text));
  const statuses = [200, 503, 503, 200, 503];
  const routes = (app: FastifyInstance) =>
    app.get("/health", async (_request, reply) => reply.code(statuses.shift() ?? 500).send());
  const url = await listening(pino({ level: "debug" }, { write }), routes);
  for (const place of [...statuses.keys()]) {
    await (await fetch(`${url}/health`)).text();
    await expect.poll(() => lines.filter(({ msg }) => msg === "request").length).toBe(place + 1);
  }
  expect(lines.filter(({ msg }) => msg === "request")).toMatchObject([
    { url: "/health", status: 200, level: 20 },
    { url: "/health", status: 503, level: 30 },
    { url: "/health", status: 503, level: 20 },
    { url: "/health", status: 200, level: 20 },
    { url: "/health", status: 503, level: 30 },
  ]);
});

test("a router's comparison of tokenizers is logged at debug", async () => {
  const { lines, log } = recorder();
  const routes = (app: FastifyInstance) => {
    app.post("/tokenize", async () => ({ tokens: [1] }));
    app.post("/fast", async () => "a");
  };
  const url = await listening(log, routes);
  lines.length = 0;
  for (const path of ["/tokenize", "/fast"]) {
    await (await fetch(url + path, { method: "POST" })).text();
  }
  await expect.poll(() => lines.map((line) => line.url)).toEqual(["/fast"]);
});

test("an answered request is logged with its status, a client that hung up as 499", async () => {
  const { lines, log } = recorder();
  const url = await listening(log, (app) => {
    app.get("/fast", async () => "a");
    app.get("/slow", async () => sleep(10_000, "a", { ref: false }));
  });
  lines.length = 0;
  await (await fetch(`${url}/fast`)).text();
  const slow = fetch(`${url}/slow`, { signal: AbortSignal.timeout(50) });
  await expect(slow).rejects.toThrow();
  await expect
    .poll(() => lines, { timeout: 10_000 })
    .toMatchObject([
      { method: "GET", url: "/fast", status: 200, level: 30 },
      { method: "GET", url: "/slow", status: 499, level: 30 },
    ]);
});
