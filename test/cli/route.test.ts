/** `perigee route` as a process: what it says where Redis does not answer. */
import { spawn } from "node:child_process";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { freePort, NO_REDIS, TestRedis } from "../support/redis-server.ts";
import { until } from "../support/until.ts";
import { built, perigee } from "./perigee.ts";

/** Several attempts of each connection. */
const ATTEMPTS_MS = 1000;

function route(redis: string) {
  const words = ["dist/cli/main.js", "route", "--port", "0", "--redis", redis];
  const child = spawn(process.execPath, words, { stdio: ["ignore", "ignore", "pipe"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  let text = "";
  child.stderr.on("data", (chunk) => {
    text += chunk;
  });
  return { lines: () => text.split("\n").filter((line) => /Redis/.test(line)) };
}

test.runIf(built)("[CL46] a router says in one line that Redis is away", async () => {
  const { lines } = route(`redis://127.0.0.1:${await freePort()}`);
  await until("it says so", () => lines().length > 0);
  await sleep(ATTEMPTS_MS);
  expect(lines()).toEqual([expect.stringContaining("must answer, current state is ECONNREFUSED")]);
});

test.runIf(built && NO_REDIS === null)("[CL46] and in one line that it is back", async () => {
  const redis = await TestRedis.start();
  onTestFinished(() => redis.close());
  const { lines } = route(redis.url);
  await sleep(ATTEMPTS_MS);
  await redis.kill();
  await until("it says so", () => lines().length > 0);
  await redis.start();
  await until("it is back", () => lines().length > 1);
  await sleep(ATTEMPTS_MS);
  expect(lines()[1]).toContain("answers again");
  expect(lines()).toHaveLength(2);
});

async function answering(answer: RequestListener): Promise<string> {
  const server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return String((server.address() as AddressInfo).port);
}

test.runIf(built)(
  "an explanation of what is no router, or does not answer, is one line",
  async () => {
    const explain = async (port: string) => {
      const { code, stderr } = await perigee(["route", "--explain", "hello", "--port", port]);
      expect(code).not.toBe(0);
      return stderr;
    };
    const absent = await freePort();
    expect(await explain(String(absent))).toContain("current value is a refused connection");
    const other = await answering((_, response) => response.writeHead(404).end("{}"));
    expect(await explain(other)).toContain("must be a router's, current value is another server's");
    // The deadline holds for all of the answer.
    const endless = await answering((_, response) => response.writeHead(200).write("{"));
    expect(await explain(endless)).toContain("current value is no answer in 10000 ms");
  },
  60_000,
);
