/** The router's part in roles that follow the load: orders, refusals, lines, metrics. */
import { Registry } from "prom-client";
import { expect, test } from "vitest";
import type { PoolGroup, PoolLoad, PoolNeeds } from "#cluster";
import {
  RoleBalancer,
  type RoleBalancerOptions,
} from "../../../src/cluster/router/role-balancer.ts";
import { readLoads, writeLoads } from "../../../src/cluster/router/told-loads.ts";

const LOAD: PoolLoad = {
  ...{ spanMs: 20_000, asked: 0.01, taken: 0.01, promptWork: 2, decoding: 10 },
  ...{ decodingTokens: 1000, growth: 0, lateMs: 0 },
};

interface Fake {
  /** As prompts keep workers busy, by `promptWork`. */
  load: PoolLoad;
  waiting: number;
  readonly roles: Map<string, "prefill" | "decode">;
  readonly pinned: string[];
  refusal: Error | null;
  readonly desk: RoleBalancerOptions["desk"];
}

/** A group whose pools need what is computed of prompts, and a tenth of what decodes. */
function groupOf({ roles }: Fake, load: () => PoolLoad): PoolGroup {
  const needs = (asked: PoolLoad | null): PoolNeeds | null =>
    asked && { prefill: asked.promptWork, decode: asked.decoding / 100, spanMs: 20_000 };
  const members = () => [...roles].map(([id, role]) => ({ id, role, drainMs: 0 }));
  const pools = { load, needs, members };
  // What a balancer reads of a group.
  return { name: "blocks a 16", conductor: { pools } } as unknown as PoolGroup;
}

function balancerOf(fake: Fake) {
  const lines: object[] = [];
  const said: string[] = [];
  const time = { nowMs: 0 };
  const info = (id: string) => ({ id, roleEpoch: 1, rolePinned: fake.pinned.includes(id) });
  const workers = new Map(
    [...fake.roles.keys()].map((id) => [id, { state: "ready", info: info(id) }]),
  );
  const registry = new Registry();
  const group = groupOf(fake, () => fake.load);
  const balancer = new RoleBalancer({
    conductor: { poolGroups: [group], queueMsOf: () => 0 },
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
          else if (role === "prefill" || role === "decode") fake.roles.set(id, role);
        }
        return { roles: new Map(), errors };
      },
    },
    log: (line) => lines.push(line),
    say: (message) => said.push(message),
    ...{ registry, clock: { nowMs: () => time.nowMs }, desk: fake.desk },
    settings: { lostMs: 3000, cooldownMs: 10_000 },
  });
  const look = async (seconds: number) => {
    for (let second = 0; second < seconds; second++) {
      await balancer.look();
      time.nowMs += 1000;
    }
  };
  return { lines, said, registry, look, balancer };
}

function fakeOf(more: Partial<Fake> = {}): Fake {
  const roles = new Map<string, "prefill" | "decode">([
    ["p1", "prefill"],
    ["d1", "decode"],
    ["d2", "decode"],
  ]);
  return { load: LOAD, waiting: 0, roles, pinned: [], refusal: null, desk: null, ...more };
}

test("[CL244] a change is ordered once, logged, told, counted and shown", async () => {
  const fake = fakeOf();
  const { lines, said, registry, look, balancer } = balancerOf(fake);
  await look(12);
  expect([...fake.roles.values()].filter((role) => role === "prefill")).toHaveLength(2);
  expect(lines).toHaveLength(1);
  expect(lines[0]).toMatchObject({
    ...{ event: "role-change", worker: "d1", from: "decode", role: "prefill" },
    ...{ reason: "prefill-overloaded", outcome: "changed" },
    ...{ needs: { prefill: 2, decode: 0.1 }, has: { prefill: 1, decode: 2 } },
  });
  expect(said).toEqual([
    "worker d1 was given the role prefill, it was decode: the load needs 2 workers for prompts " +
      "and 0.1 that decode, there were 1 and 2",
  ]);
  const text = await registry.metrics();
  expect(text).toContain('role_changes_total{role="prefill",outcome="changed"} 1');
  expect(text).toContain('pool_workers_needed{pool="prefill"} 2');
  expect(text).toContain("decides_roles 1");
  expect(balancer.shown).toMatchObject({ decides: true, changes: lines });
  expect(balancer.shown.groups[0]?.members).toHaveLength(3);
});

test("[CL244] one that is refused is told with its reason, and not asked for in the pause", async () => {
  const fake = fakeOf({ refusal: new Error("it must have a secret") });
  const { lines, said, look } = balancerOf(fake);
  await look(12);
  expect(lines).toHaveLength(1);
  expect(lines[0]).toMatchObject({ outcome: "refused", error: "it must have a secret" });
  expect(said).toEqual([expect.stringContaining("worker d1 keeps the role decode")]);
});

test("[CL245] a worker whose role is pinned is not changed; another one is", async () => {
  const fake = fakeOf({ pinned: ["d1"] });
  await balancerOf(fake).look(12);
  expect([...fake.roles]).toEqual([
    ["p1", "prefill"],
    ["d1", "decode"],
    ["d2", "prefill"],
  ]);
  const all = fakeOf({ pinned: ["d1", "d2"] });
  const { look, lines } = balancerOf(all);
  await look(60);
  expect(lines).toEqual([]);
});

test("[CO52] requests that wait at the router are too much for the pool that is full", async () => {
  const fake = fakeOf({ load: { ...LOAD, promptWork: 0.1 } });
  const { lines, look } = balancerOf(fake);
  await look(12);
  expect(lines).toEqual([]);
  fake.waiting = 5;
  await look(30);
  expect(lines).toMatchObject([{ worker: "d1", role: "prefill" }]);
});

test("[CL248] one router decides, by what all are asked; without the desk none does", async () => {
  const desk = { decides: true, others: [writeLoads(new Map([["blocks a 16", LOAD]]))] };
  const told: string[] = [];
  const tell = async (text: string) => {
    told.push(text);
    if (desk.others.length === 0) throw new Error("Redis is away");
    return desk;
  };
  const own = { ...LOAD, promptWork: 0.1 };
  const fake = fakeOf({ load: own, desk: { tell, close: async () => {} } });
  const { lines, look, registry } = balancerOf(fake);
  desk.decides = false;
  await look(30);
  expect(lines).toEqual([]);
  expect(await registry.metrics()).toContain("decides_roles 0");
  expect(readLoads(told[0] ?? "")).toEqual(new Map([["blocks a 16", own]]));
  const others = desk.others.splice(0);
  desk.decides = true;
  await look(30);
  expect(lines).toEqual([]);
  desk.others.push(...others);
  await look(30);
  expect(lines).toMatchObject([{ worker: "d1", needs: { prefill: 2.1 } }]);
});

test.each([
  ["no JSON", "{"],
  ["a list", "[1]"],
  ["numbers that are none", '{"g":{"spanMs":"1"}}'],
  ["one below nothing", JSON.stringify({ g: { ...LOAD, asked: -1 } })],
  ["one beyond all fleets", JSON.stringify({ g: { ...LOAD, decoding: 1e300 } })],
  ["one that is missing", JSON.stringify({ g: { ...LOAD, growth: undefined } })],
])("[CL248] what a router tells is left out where it is not as it must be: %s", (_, text) => {
  expect(readLoads(text).size).toBe(0);
});

test("[CL248] of very many groups the first ones are read", () => {
  const many = Object.fromEntries(Array.from({ length: 5000 }, (_, at) => [`g${at}`, LOAD]));
  expect(readLoads(JSON.stringify(many)).size).toBe(64);
});
