/** Workers and routers as processes, and a Redis that fails over by its sentinels. */
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, test } from "vitest";
import { valuesOf } from "../../chaos/chaos-books.ts";
import { type Heard, listen } from "../../chaos/chaos-request.ts";
import { built } from "../../cli/perigee.ts";
import { FleetProcess } from "../../support/fleet-process.ts";
import { eachNth } from "../../support/full.ts";
import { RedisSentinels } from "../../support/redis-sentinels.ts";
import { freePort, NO_REDIS } from "../../support/redis-server.ts";
import { until } from "../../support/until.ts";

const skipped = built ? NO_REDIS : "needs npm run build";
const STREAMS = 12;
/** Some seconds: longer than a failover. */
const TOKENS = 400;
const MOCK = ["worker", "--mock", "--served-model-name", "mock", "--port", "0"];

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function started(...words: string[]): Promise<FleetProcess> {
  const process = await FleetProcess.start(words);
  closing.push(() => process.end("SIGKILL"));
  return process;
}

/** Streams at once; `during` is called when all were sent. */
async function streams(
  urls: readonly string[],
  during: () => Promise<unknown> = async () => {},
): Promise<readonly Heard[]> {
  const sent = Array.from({ length: STREAMS }, (_, at) => {
    const fixed = { model: "mock", max_tokens: TOKENS, temperature: 1, ignore_eos: true };
    const body = {
      ...fixed,
      stream: true,
      stream_options: { include_usage: true },
      seed: at,
      prompt: `Tell me story number ${at}.`,
    };
    const patience = { deadlineMs: 60_000, leaveAfterMs: null };
    return listen(urls[at % urls.length] ?? "", { path: "/v1/completions", body }, patience);
  });
  await sleep(100);
  await during();
  return await Promise.all(sent);
}

async function workersOf({ url }: FleetProcess): Promise<number> {
  const answer = await fetch(`${url}/v1/models`).catch(() => null);
  if (answer?.status !== 200) return 0;
  return ((await answer.json()) as { data: { workers: number }[] }).data[0]?.workers ?? 0;
}

async function metric({ url }: FleetProcess, name: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return [...valuesOf(text, name).values()].reduce((sum, value) => sum + value, 0);
}

const aboutRedis = ({ log }: FleetProcess) => log.filter((line) => /Redis/.test(line));

describe.skipIf(skipped !== null)(`sentinels${skipped === null ? "" : ` (${skipped})`}`, () => {
  test.for(eachNth(3, ["the master dies", "the master is silent", "an operator changes places"]))(
    "[CL152] %s in the middle of streams: none is hurt, all goes on",
    { timeout: 180_000 },
    async (what) => {
      const calm = await started(...MOCK, "--speedup", "20");
      const right = await streams([calm.url]);
      const redis = await RedisSentinels.start();
      closing.push(() => redis.close());
      const member = ["--redis", redis.url];
      const worker = (...words: string[]) => started(...MOCK, ...member, ...words);
      const workers = [await worker(), await worker()];
      const routers = [
        await started("route", "--port", "0", ...member),
        await started("route", "--port", "0", ...member),
      ];
      const urls = routers.map(({ url }) => url);
      const all = async (count: number) =>
        (await Promise.all(routers.map(workersOf))).every((found) => found === count);
      await until("both join", () => all(2));

      let restore = () => {};
      const failover = async () => {
        if (what === "the master dies") await redis.loseMaster();
        else if (what === "the master is silent") restore = await redis.silenceMaster();
        else await redis.changePlaces();
      };
      expect(await streams(urls, failover)).toEqual(right);
      expect(await all(2)).toBe(true);

      // Membership goes on at the new master: a worker joins, and one leaves.
      const third = await worker();
      await until("the third one joins", () => all(3));
      await third.end("SIGTERM");
      await until("and leaves", () => all(2));
      // So do events: what is computed from now on is found by both.
      const prompt = Array.from({ length: 200 }, (_, at) => 100 + at);
      const body = JSON.stringify({ model: "mock", prompt, max_tokens: 4 });
      const headers = { "content-type": "application/json" };
      const cached = async (url: string) => {
        const answer = await fetch(`${url}/route/explain`, { method: "POST", headers, body });
        const { workers: found } = (await answer.json()) as {
          workers: { cached_tokens: number[] }[];
        };
        return Math.max(...found.map(({ cached_tokens: [device = 0] }) => device));
      };
      await fetch(`${urls[0]}/v1/completions`, { method: "POST", headers, body });
      for (const url of urls)
        await expect.poll(() => cached(url), { timeout: 15_000 }).toBeGreaterThan(0);
      for (const router of routers) {
        await expect.poll(() => metric(router, "open_reservations")).toBe(0);
        expect(await metric(router, "leaked_reservations")).toBe(0);
      }
      restore();
      await sleep(1000);
      expect(await streams(urls)).toEqual(right);

      for (const { log } of [...workers, ...routers]) {
        expect(log.join("\n")).not.toMatch(/se:cret|se%3Acret|Unhandled|"level":(50|60)/);
      }
      for (const process of [...workers, ...routers]) {
        expect(aboutRedis(process).length).toBeLessThan(12);
      }
    },
  );

  test("[CL152] sentinels that are away, or know another master, are one line", async () => {
    const redis = await RedisSentinels.start();
    closing.push(() => redis.close());
    const away = `redis+sentinel://127.0.0.1:${await freePort()}/fleet.one`;
    const texts = [
      [away, "no sentinel that answers"],
      [redis.url.replace("fleet.one", "other"), "a master that no sentinel knows"],
      [redis.url.replace("se%3Acret", "wrong"), "a refused password"],
    ] as const;
    for (const [url, text] of texts) {
      const router = await started("route", "--port", "0", "--redis", url);
      await until(text, () => aboutRedis(router).length > 0);
      await sleep(700);
      expect(aboutRedis(router)).toEqual([expect.stringContaining(`current state is ${text}`)]);
      const info = await (await fetch(`${router.url}/server_info`)).text();
      expect(info).toContain('"redis":"127.0.0.1:');
      expect(info).not.toMatch(/cret|wrong/);
    }
  }, 60_000);
});
