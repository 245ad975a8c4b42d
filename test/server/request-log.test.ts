import { setTimeout as sleep } from "node:timers/promises";
import fastify, { type FastifyBaseLogger, LogController } from "fastify";
import { pino } from "pino";
import { expect, onTestFinished, test } from "vitest";
import { EngineError } from "#base";
import { httpFailure } from "../../src/server/http-errors.ts";
import { logFailure, logRequests } from "../../src/server/request-log.ts";

type Line = Readonly<Record<string, unknown>>;

/** A logger, and the lines that it wrote. */
function recorder() {
  const lines: Line[] = [];
  return { lines, log: pino({}, { write: (text) => lines.push(JSON.parse(text)) }) };
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
});

test("an answered request is logged with its status, a client that hung up as 499", async () => {
  const { lines, log } = recorder();
  const app = fastify({
    loggerInstance: log as FastifyBaseLogger, // pino's own type would make the app another type
    logController: new LogController({ disableRequestLogging: true }),
  });
  onTestFinished(() => app.close());
  logRequests(app);
  app.get("/fast", async () => "a");
  app.get("/slow", async () => sleep(10_000, "a", { ref: false }));
  const url = await app.listen({ port: 0, host: "127.0.0.1" });
  lines.length = 0;
  await (await fetch(`${url}/fast`)).text();
  const slow = fetch(`${url}/slow`, { signal: AbortSignal.timeout(50) });
  await expect(slow).rejects.toThrow();
  await expect
    .poll(() => lines)
    .toMatchObject([
      { method: "GET", url: "/fast", status: 200, level: 30 },
      { method: "GET", url: "/slow", status: 499, level: 30 },
    ]);
});
