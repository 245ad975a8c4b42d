/** `perigee worker` as a process: it joins, drains at SIGTERM, and leaves when its work is done. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { RedisLink, RedisMembership } from "#cluster";
import { scratchFolder } from "../checkpoint/scratch-folder.ts";
import { NO_REDIS, TestRedis } from "../support/redis-server.ts";
import { until } from "../support/until.ts";
import { built } from "./perigee.ts";

const model = "test/fixtures/models/llama";
const skipped = built ? NO_REDIS : "needs npm run build";

describe.skipIf(skipped !== null)(`a process${skipped === null ? "" : ` (${skipped})`}`, () => {
  test("[CL55] leaves the fleet for new requests first, ends what runs, then leaves", async () => {
    const redis = await TestRedis.start();
    onTestFinished(() => redis.close());
    const secretFile = join(scratchFolder(), "secret");
    writeFileSync(secretFile, "# of this fleet\nthe-secret\nthe-next-one\n");
    chmodSync(secretFile, 0o600);
    const flags = ["--device", "reference", "--port", "0", "--worker-id", "seven"];
    const fleet = ["--redis", redis.url, "--cluster-secret-file", secretFile];
    const words = ["dist/cli/main.js", "worker", model, ...flags, ...fleet];
    const child = spawn(process.execPath, words, { stdio: ["ignore", "ignore", "pipe"] });
    onTestFinished(() => void child.kill("SIGKILL"));
    const told: string[] = [];
    const link = new RedisLink({ url: redis.url, warn: () => {} });
    const membership = new RedisMembership({ link, warn: () => {} });
    onTestFinished(() => membership.close());
    membership.listen({
      joined: ({ state }) => told.push(`joined ${state}`),
      changed: ({ state }) => told.push(state),
      left: (_id, reason) => told.push(reason),
    });
    await until("it joins", () => told.length === 1);
    const { url = "", epoch } = membership.workers.get("seven")?.info ?? {};

    const ask = (path: string, secret: string, body?: object) =>
      fetch(url + path, {
        method: body === undefined ? "GET" : "POST",
        headers: { "content-type": "application/json", authorization: `Bearer ${secret}` },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
    expect((await ask("/worker_info", "another")).status).toBe(401);
    for (const secret of ["the-secret", "the-next-one"]) {
      expect(await (await ask("/worker_info", secret)).json()).toMatchObject({ epoch });
    }

    const work = { prompt: [1, 2, 3], max_tokens: 60, ignore_eos: true, stream: true };
    const running = await ask("/v1/completions", "the-secret", work);
    const exited = once(child, "exit");
    child.kill("SIGTERM");
    await until("it drains", () => told.length === 2);
    const text = await running.text();
    expect(text.endsWith("data: [DONE]\n\n")).toBe(true);
    expect(await exited).toEqual([0, null]);
    await until("it has left", () => told.length === 3);
    expect(told).toEqual(["joined ready", "draining", "it left"]);
  });
});
