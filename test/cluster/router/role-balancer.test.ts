/** The router's part in roles that follow the load: orders, refusals, lines, metrics. */
import { Registry } from "prom-client";
import { expect, test } from "vitest";
import type { PoolGroup, PoolPressure } from "#cluster";
import { RoleBalancer } from "../../../src/cluster/router/role-balancer.ts";

interface Fake {
  pressure: PoolPressure;
  waiting: number;
  readonly roles: Map<string, "prefill" | "decode">;
  refusal: Error | null;
}

function balancerOf(fake: Fake) {
  const lines: object[] = [];
  const said: string[] = [];
  const time = { nowMs: 0 };
  const members = () =>
    [...fake.roles].map(([id, role]) => ({ id, role, drainMs: 0, mayChange: true }));
  const group = { conductor: { pools: () => ({ pressure: fake.pressure, members: members() }) } };
  const workers = new Map(
    [...fake.roles.keys()].map((id) => [id, { state: "ready", info: { id, roleEpoch: 1 } }]),
  );
  const registry = new Registry();
  const balancer = new RoleBalancer({
    conductor: { poolGroups: [group as unknown as PoolGroup], queueMsOf: () => 0 },
    membership: { workers } as never,
    dispatcher: { fullness: (id) => (fake.roles.get(id) === "prefill" ? "prompts" : null) },
    admits: () => true,
    waiting: () => fake.waiting,
    workerWaitMs: 2000,
    orders: {
      give: async (orders) => {
        const errors = new Map<string, Error>();
        for (const [id, role] of orders) {
          if (fake.refusal !== null) errors.set(id, fake.refusal);
          else if (role !== "both") fake.roles.set(id, role);
        }
        return { roles: new Map(), errors };
      },
    },
    log: (line) => lines.push(line),
    say: (message) => said.push(message),
    ...{ registry, clock: { nowMs: () => time.nowMs } },
    settings: { sustainMs: 5000, cooldownMs: 10_000 },
  });
  const look = async (seconds: number) => {
    for (let second = 0; second < seconds; second++) {
      await balancer.look();
      time.nowMs += 1000;
    }
  };
  return { lines, said, registry, look };
}

function fakeOf(more: Partial<Fake> = {}): Fake {
  const roles = new Map<string, "prefill" | "decode">([
    ["p1", "prefill"],
    ["d1", "decode"],
    ["d2", "decode"],
  ]);
  return { pressure: { prefill: 2, decode: 0.1 }, waiting: 0, roles, refusal: null, ...more };
}

test("[CL244] a change is ordered once, logged, told and counted", async () => {
  const fake = fakeOf();
  const { lines, said, registry, look } = balancerOf(fake);
  await look(12);
  expect([...fake.roles.values()].filter((role) => role === "prefill")).toHaveLength(2);
  expect(lines).toHaveLength(1);
  expect(lines[0]).toMatchObject({
    ...{ event: "role-change", worker: "d1", from: "decode", role: "prefill" },
    ...{ reason: "prefill-overloaded", outcome: "changed" },
  });
  expect(said[0]).toContain("worker d1 was given the role prefill, it was decode");
  const text = await registry.metrics();
  expect(text).toContain('role_changes_total{role="prefill",outcome="changed"} 1');
  expect(text).toContain('pool_pressure{pool="prefill"} 2');
});

test("[CL244] one that is refused is told with its reason, and not asked for in the pause", async () => {
  const fake = fakeOf({ refusal: new Error("it must have a secret") });
  const { lines, said, look } = balancerOf(fake);
  await look(12);
  expect(lines).toHaveLength(1);
  expect(lines[0]).toMatchObject({ outcome: "refused", error: "it must have a secret" });
  expect(said).toEqual([expect.stringContaining("worker d1 keeps the role decode")]);
});

test("[CO49] requests that wait at the router are too much for the pool that is full", async () => {
  const fake = fakeOf({ pressure: { prefill: 0.1, decode: 0.1 } });
  const { lines, look } = balancerOf(fake);
  await look(12);
  expect(lines).toEqual([]);
  fake.waiting = 5;
  await look(12);
  expect(lines).toMatchObject([{ worker: "d1", role: "prefill" }]);
});
