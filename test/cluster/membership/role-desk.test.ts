/** The desk at which one of several routers decides about roles. */
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { RedisLink, RoleDesk } from "#cluster";
import { NO_REDIS, TestRedis } from "../../support/redis-server.ts";
import { until } from "../../support/until.ts";

const LEASE_MS = 400;

describe.skipIf(NO_REDIS !== null)(`in Redis${NO_REDIS === null ? "" : ` (${NO_REDIS})`}`, () => {
  let redis: TestRedis;
  const links: RedisLink[] = [];
  beforeAll(async () => {
    redis = await TestRedis.start();
  });
  afterEach(async () => {
    for (const link of links.splice(0)) link.close();
    const client = redis.client();
    await client.flushall();
    client.disconnect();
  });
  afterAll(() => redis.close());

  async function deskOf(router: string): Promise<RoleDesk> {
    const link = new RedisLink({ url: redis.url, warn: () => {} });
    links.push(link);
    await until("it is connected", () => link.isReady);
    return new RoleDesk({ link, router, leaseMs: LEASE_MS });
  }

  test("[CL248] the first one decides while it tells; others are heard, and take over", async () => {
    const [one, two] = [await deskOf("one"), await deskOf("two")];
    expect(await one.tell("1")).toEqual({ decides: true, others: [] });
    expect(await two.tell("2")).toEqual({ decides: false, others: ["1"] });
    expect(await one.tell("1 again")).toEqual({ decides: true, others: ["2"] });
    await sleep(2 * LEASE_MS);
    // What it told is too old by now, and so is its turn.
    expect(await two.tell("2")).toEqual({ decides: true, others: [] });
    expect(await one.tell("1")).toEqual({ decides: false, others: ["2"] });
  });

  test("[CL248] one that leaves hands over at once, and only what is its own", async () => {
    const [one, two] = [await deskOf("one"), await deskOf("two")];
    await one.tell("1");
    await two.tell("2");
    await two.close();
    expect(await one.tell("1")).toEqual({ decides: true, others: [] });
    await one.close();
    expect(await two.tell("2")).toEqual({ decides: true, others: [] });
  });

  test("[CL248] entries of others are bounded, and strange ones are left out", async () => {
    const one = await deskOf("one");
    const client = redis.client();
    const [seconds] = await client.time();
    await client.hset("perigee:roles:loads", {
      strange: "what",
      long: `${seconds}000 ${"a".repeat(70_000)}`,
    });
    for (let at = 0; at < 200; at++) {
      await client.hset("perigee:roles:loads", `r${at}`, `${seconds}999 ${at}`);
    }
    client.disconnect();
    const { decides, others } = await one.tell("1");
    expect(decides).toBe(true);
    expect(others.length).toBeLessThanOrEqual(64);
    expect(others.every((text) => text.length < 10)).toBe(true);
  });

  test("[CL248] without Redis no router decides", async () => {
    const link = new RedisLink({ url: "redis://127.0.0.1:1", warn: () => {} });
    links.push(link);
    const desk = new RoleDesk({ link, router: "one" });
    await expect(desk.tell("1")).rejects.toThrow();
    await desk.close();
  });
});
