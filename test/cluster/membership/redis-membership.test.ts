/** Leases in a real Redis: deaths, clocks, and a Redis that goes away. */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { RedisAnnouncer, RedisLink, RedisMembership, type WorkerInfo } from "#cluster";
import { membershipContract } from "../../contracts/membership.ts";
import { NO_REDIS, TestRedis } from "../../support/redis-server.ts";
import { until } from "../../support/until.ts";
import { workerInfo } from "../../support/worker-info.ts";

const LEASE_MS = 600;
const READ_MS = 100;
const KEY = "perigee:worker:worker-1";

describe.skipIf(NO_REDIS !== null)(`in Redis${NO_REDIS === null ? "" : ` (${NO_REDIS})`}`, () => {
  let redis: TestRedis;
  const closing: (() => Promise<void>)[] = [];

  beforeAll(async () => {
    redis = await TestRedis.start();
  });
  afterEach(async () => {
    for (const close of closing.splice(0)) await close();
    const client = redis.client();
    await client.flushall();
    client.disconnect();
  });
  afterAll(() => redis.close());

  /** A worker's side; it dies with its link. */
  function announce(info: WorkerInfo, { url = redis.url, leaseMs = LEASE_MS } = {}) {
    const warnings: string[] = [];
    const warn = (message: string) => warnings.push(message);
    const link = new RedisLink({ url, warn });
    const announcer = new RedisAnnouncer(info, { link, leaseMs, warn });
    closing.push(() => announcer.leave());
    return { announcer, warnings, die: () => link.close() };
  }

  /** A router's side, with what it was told and warned of. */
  function watch(url = redis.url) {
    const warnings: string[] = [];
    const told: string[] = [];
    const warn = (message: string) => warnings.push(message);
    const link = new RedisLink({ url, warn });
    const membership = new RedisMembership({ link, warn, readIntervalMs: READ_MS });
    closing.push(() => membership.close());
    membership.listen({
      joined: ({ info }) => told.push(`joined ${info.id}`),
      changed: ({ info, state }) => told.push(`${info.id} is ${state}`),
      left: (id, reason) => told.push(`left ${id}: ${reason}`),
    });
    return { link, membership, warnings, told, has: () => membership.workers.has("worker-1") };
  }

  membershipContract(
    async () => {
      const { membership } = watch();
      return {
        membership,
        start: async (id) => {
          const { announcer, die } = announce(workerInfo({ id, epoch: randomUUID() }));
          return {
            id,
            drain: () => announcer.drain(),
            leave: () => announcer.leave(),
            die: async () => die(),
          };
        },
        close: () => membership.close(),
      };
    },
    { leaves: true },
  );

  test("[CL213] a role that changes is announced at once, and a lost word of it is no harm", async () => {
    const { membership } = watch();
    const info = {
      ...workerInfo({ id: "worker-1", epoch: "e" }),
      role: "decode",
      roleEpoch: 0,
    } as const;
    const { announcer } = announce(info);
    const role = () => membership.workers.get("worker-1")?.info.role;
    await expect.poll(role, { timeout: 5000 }).toBe("decode");
    announcer.roleChanged({ role: "prefill", roleEpoch: 1 });
    await expect.poll(role, { timeout: 5000 }).toBe("prefill");
    // Heard of the worker itself, before it is announced.
    membership.learnRole("worker-1", { epoch: "e", role: "both", roleEpoch: 2 });
    await new Promise((resolve) => setTimeout(resolve, LEASE_MS));
    expect(role()).toBe("both");
  });

  test("[CL42] a worker that dies has left when its lease ends, not before", async () => {
    const { die } = announce(workerInfo());
    const { has, told } = watch();
    await until("it joins", has);
    await sleep(2 * LEASE_MS);
    expect(has()).toBe(true);
    die();
    await until("it is gone", () => !has());
    expect(told).toEqual(["joined worker-1", "left worker-1: its lease ended"]);
  });

  test("[CL191] it is heard once Redis has told of workers, or that there are none", async () => {
    const own = await TestRedis.start();
    closing.push(() => own.close());
    await own.kill();
    const { membership, has } = watch(own.url);
    await sleep(2 * READ_MS);
    expect(membership.heardMs).toBeNull();
    await own.start();
    await until("it is heard", () => membership.heardMs !== null);
    expect(performance.now() - (membership.heardMs ?? 0)).toBeLessThan(1000);
    await own.kill();
    await until("it is not any more", () => membership.heardMs === null);
    await own.start();
    announce(workerInfo(), { url: own.url });
    await until("it joins", has);
    // What is known stays in use, and says more than nothing.
    const { heardMs } = membership;
    await own.kill();
    await sleep(3 * READ_MS);
    expect([has(), membership.heardMs]).toEqual([true, heardMs]);
  });

  test("[CL43] an entry that was not published is read all the same", async () => {
    const { die } = announce(workerInfo());
    const client = redis.client();
    while ((await client.get(KEY)) === null) await sleep(5);
    die();
    const text = await client.get(KEY);
    await client.del(KEY);
    const { has } = watch();
    await sleep(2 * READ_MS);
    expect(has()).toBe(false);
    await client.set(KEY, text ?? "", "PX", LEASE_MS);
    await client.sadd("perigee:workers", "worker-1");
    client.disconnect();
    await until("it is read", has);
    await until("its lease ends", () => !has());
  });

  test("[CL43] what is published is no truth: a channel full of lies changes nothing", async () => {
    const { told, has } = watch();
    announce(workerInfo());
    await until("it joins", has);
    const client = redis.client();
    for (let lie = 0; lie < 2000; lie++) await client.publish("perigee:workers", `liar-${lie}`);
    client.disconnect();
    expect(told).toEqual(["joined worker-1"]);
  });

  /** Keeps this thread from doing anything. */
  const hang = () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2 * LEASE_MS);

  test.each(["between its reads", "while it read"])(
    "[CL42] a router that hung itself %s takes no living worker for dead",
    async (when) => {
      const { die } = announce(workerInfo());
      const { link, has, told } = watch();
      await until("it joins", has);
      const client = redis.client();
      const record = JSON.parse((await client.get(KEY)) ?? "");
      die();
      if (when === "while it read") {
        const read = link.client.srandmember.bind(link.client) as (
          ...of: unknown[]
        ) => Promise<never>;
        const reads = vi.spyOn(link.client, "srandmember").mockImplementationOnce((...of) => {
          const answer = read(...of);
          hang();
          return answer;
        });
        await until("it reads", () => reads.mock.calls.length > 0);
      } else {
        hang();
      }
      // The first read after that finds no entry: the worker that writes it hung with this process.
      await sleep(50);
      const written = JSON.stringify({ ...record, beat: record.beat + 1 });
      await client.set(KEY, written, "PX", LEASE_MS);
      await sleep(3 * READ_MS);
      expect(told).toEqual(["joined worker-1"]);
      await until("its lease ends", () => !has());
      client.disconnect();
    },
  );

  test("[CL44] a clock of Redis that is set forward ends no lease of a living worker", async () => {
    // Long beside the pauses of a busy machine: each write must be read before it is deleted.
    const leaseMs = 2400;
    announce(workerInfo(), { leaseMs });
    const { has, told } = watch();
    await until("it joins", has);
    const client = redis.client();
    // A step forward makes entries expire: they vanish between two refreshes.
    for (let step = 0; step < 15; step++) {
      await client.del(KEY);
      await sleep(leaseMs / 10);
    }
    client.disconnect();
    expect(told).toEqual(["joined worker-1"]);
  });

  test("[CL44] a clock of Redis that is set back keeps no dead worker", async () => {
    const { die } = announce(workerInfo());
    const { has, told } = watch();
    await until("it joins", has);
    die();
    const client = redis.client();
    // A step back makes an entry stay, with as much more time to live.
    await client.pexpire(KEY, 3_600_000);
    await until("it is gone", () => !has());
    await sleep(2 * LEASE_MS);
    client.disconnect();
    expect(told).toEqual(["joined worker-1", "left worker-1: its lease ended"]);
  });

  test("[CL48] of two processes of one id the later one is the worker, and the other is told", async () => {
    const first = announce(workerInfo({ epoch: "first" }));
    const { membership, has } = watch();
    await until("the first joins", has);
    const second = announce(workerInfo({ epoch: "second" }));
    const epochOf = () => membership.workers.get("worker-1")?.info.epoch;
    await until("the second has the id", () => epochOf() === "second");
    await until("the first is told", () => first.warnings.length > 0);
    await sleep(2 * LEASE_MS);
    expect(epochOf()).toBe("second");
    expect(first.warnings).toEqual([
      "Cannot announce worker worker-1: its id must be unique, another process has it now; give " +
        "each worker its own --worker-id",
    ]);
    await second.announcer.leave();
    await until("the first is back", () => epochOf() === "first");
  });

  test("[CL49] entries of strangers are refused with a line each, and change no worker", async () => {
    const client = redis.client();
    const put = async (id: string, text: string) => {
      await client.sadd("perigee:workers", id);
      await client.set(`perigee:worker:${id}`, text, "PX", 60_000);
    };
    await put("text", "hello");
    await put("version", '{"format":99}');
    await put("other", JSON.stringify({ format: 1, info: workerInfo({ id: "x" }) }));
    await put("huge", "x".repeat(10_000_000));
    await client.sadd("perigee:workers", "list");
    await client.lpush("perigee:worker:list", "entry");
    const { has, membership, warnings } = watch();
    announce(workerInfo());
    await until("the worker joins", has);
    await sleep(5 * READ_MS);
    client.disconnect();
    expect([...membership.workers.keys()]).toEqual(["worker-1"]);
    expect(warnings.toSorted()).toEqual([
      "Cannot read a worker: its entry must be JSON",
      "Cannot read a worker: its entry must be JSON",
      "Cannot read worker other: its id must be the same, current value is x",
      "Cannot read worker version: its format must be 1, current value is 99",
    ]);
  });
});

describe.skipIf(NO_REDIS !== null)("a Redis of its own", () => {
  const closing: (() => Promise<unknown>)[] = [];
  afterEach(async () => {
    for (const close of closing.splice(0)) await close();
  });

  async function fleet(redis: TestRedis) {
    closing.push(() => redis.close());
    const warnings: string[] = [];
    const told: string[] = [];
    const warn = (message: string) => warnings.push(message);
    const link = new RedisLink({ url: redis.url, warn });
    const membership = new RedisMembership({ link, warn, readIntervalMs: READ_MS });
    membership.listen({
      joined: ({ info }) => told.push(`joined ${info.id}`),
      changed: ({ info }) => told.push(`changed ${info.id}`),
      left: (id) => told.push(`left ${id}`),
    });
    const workers = ["a", "b"].map((id) => {
      const own = new RedisLink({ url: redis.url, warn: () => {} });
      const info = workerInfo({ id, epoch: randomUUID() });
      const announcer = new RedisAnnouncer(info, { link: own, leaseMs: LEASE_MS, warn: () => {} });
      closing.unshift(() => announcer.leave());
      return { announcer, die: () => own.close() };
    });
    closing.unshift(() => membership.close());
    return { warnings, told, membership, workers };
  }

  // Leases are short here, and a busy machine may miss one.
  const again = { retry: 2 };

  test(
    "[CL45] workers stay while it is away, and one lease longer when it is back empty",
    again,
    async () => {
      const redis = await TestRedis.start();
      const { warnings, told, membership, workers } = await fleet(redis);
      await until("both join", () => membership.workers.size === 2);
      await redis.kill();
      await sleep(3 * LEASE_MS);
      expect(membership.workers.size).toBe(2);
      workers[1]?.die();
      await redis.start();
      await until("the dead one is gone", () => membership.workers.size === 1);
      await sleep(2 * LEASE_MS);
      expect([...membership.workers.keys()]).toEqual(["a"]);
      expect(told.filter((line) => line.endsWith(" a"))).toEqual(["joined a"]);
      expect(warnings).toEqual([
        expect.stringMatching(
          /^Cannot use Redis at 127\.0\.0\.1:\d+: it must answer, current state is \w+; what is known stays, trying again$/,
        ),
        expect.stringMatching(/^Redis at 127\.0\.0\.1:\d+ answers again$/),
      ]);
    },
  );

  test("[CL45] workers stay while it is silent", async () => {
    const redis = await TestRedis.start();
    const { warnings, told, membership } = await fleet(redis);
    await until("both join", () => membership.workers.size === 2);
    const before = told.length;
    redis.signal("SIGSTOP");
    await until("its silence is said", () => warnings.length > 0);
    redis.signal("SIGCONT");
    await until("it answers", () => warnings.length > 1);
    await sleep(2 * LEASE_MS);
    expect(told).toHaveLength(before);
    expect(warnings[0]).toContain("current state is silent");
  });

  test("[CL46] it may come later than routers and workers", async () => {
    const redis = await TestRedis.start();
    await redis.kill();
    const { warnings, membership } = await fleet(redis);
    await until("its absence is said", () => warnings.length > 0);
    expect(membership.workers.size).toBe(0);
    await redis.start();
    await until("both join", () => membership.workers.size === 2);
    expect(warnings).toHaveLength(2);
  });

  test("[CL46] a refused password is said once, without the password", async () => {
    const redis = await TestRedis.start("right-password");
    closing.push(() => redis.close());
    for (const access of ["", ":wrong-password@"]) {
      const warnings: string[] = [];
      const warn = (message: string) => warnings.push(message);
      const link = new RedisLink({ url: `redis://${access}127.0.0.1:${redis.port}`, warn });
      const membership = new RedisMembership({ link, warn, readIntervalMs: READ_MS });
      closing.unshift(() => membership.close());
      await until("it is said", () => warnings.length > 0);
      await sleep(1000);
      expect(warnings).toHaveLength(1);
      expect(warnings[0]).toContain("current state is a refused password");
      expect(warnings[0]).not.toContain("wrong-password");
      expect(membership.workers.size).toBe(0);
    }
  });
});

test.each(["", "10.0.0.1:6379", "http://10.0.0.1", "redis://", "redis:/:secret@x y"])(
  "[CL46] %j is no Redis, and is not repeated",
  (url) => {
    const open = () => new RedisLink({ url, warn: () => {} });
    expect(open).toThrow(/^Cannot use Redis: redis must be an address such as/);
    expect(open).not.toThrow(/secret/);
  },
);
