/** Faults of every kind, each with its end. */
import { spawnSync } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import type { ChaosFleet } from "./chaos-fleet.ts";
import { changeRole, POOL_FAULTS } from "./chaos-pool-faults.ts";
import { type Fault, killed, LONG_MS, stopped } from "./chaos-suffering.ts";
import type { Dice } from "./chaos-traffic.ts";
import type { ChaosWorker } from "./chaos-workers.ts";
import type { Restartable } from "./restartable.ts";

const DAY_MS = 86_400_000;
/** So many workers of a model suffer at a time: others are left for three attempts. */
const SUFFERING_SHARE_MAX = 0.5;

const WORKER_FAULTS: Readonly<Record<string, Fault<ChaosWorker>>> = {
  "worker killed": killed,
  "worker stopped and continued": async ({ node }, below) => {
    await stopped(node, 300 + below(LONG_MS));
  },
  "worker told to end": async ({ node }) => {
    await node.end("SIGTERM");
    await node.restart();
  },
  "all of a worker's own connections cut": async ({ node }, below) => {
    for (let times = 1 + below(4); times > 0; times--) {
      cutConnections(node.process);
      await sleep(below(300));
    }
  },
  "connections cut": async ({ network }, below) => {
    for (let times = 1 + below(4); times > 0; times--) {
      network.cut();
      await sleep(below(200));
    }
  },
  "answers cut in the middle": async ({ network }, below) => {
    for (let times = 1 + below(4); times > 0; times--) {
      network.cutAfter(1 + below(8000));
      await sleep(below(400));
    }
    network.heal();
  },
  "connections half closed": async ({ network }, below) => {
    network.halfClose();
    await sleep(below(200));
  },
  "network silent": async ({ network }, below) => {
    network.become({ type: "silent" });
    await sleep(300 + below(LONG_MS));
    network.heal();
  },
  "network slow": async ({ network }, below) => {
    network.become({ type: "slow", delayMs: 5 + below(200) });
    await sleep(300 + below(LONG_MS));
    network.heal();
  },
  "connections refused": async ({ network }, below) => {
    network.become({ type: "refusing" });
    network.cut();
    await sleep(300 + below(LONG_MS));
    network.heal();
  },
  "answers of 500": async ({ network }, below) => {
    network.become({ type: "answering", status: [500, 502, 503][below(3)] ?? 500 });
    await sleep(200 + below(1000));
    network.heal();
  },
  "worker's clock set": async ({ node }, below, fleet) => {
    fleet.setClock(node, (below(2000) - 1000) * DAY_MS);
    await sleep(100);
  },
};

const ROUTER_FAULTS: Readonly<Record<string, Fault<Restartable>>> = {
  "router killed": async (router) => {
    await router.end("SIGKILL");
    await router.restart();
  },
  "router told to end": async (router) => {
    await router.end("SIGTERM");
    await router.restart();
  },
  "router stopped and continued": async (router, below) => stopped(router, 100 + below(900)),
  "router's clock set": async (router, below, fleet) => {
    fleet.setClock(router, (below(2000) - 1000) * DAY_MS);
    await sleep(100);
  },
};

const REDIS_FAULTS: Readonly<Record<string, Fault<ChaosFleet["redis"]>>> = {
  "Redis killed, and empty again": async (redis, below) => {
    await redis.kill();
    await sleep(below(LONG_MS));
    await redis.start();
  },
  "Redis stopped and continued": async (redis, below) => {
    redis.signal("SIGSTOP");
    await sleep(below(LONG_MS));
    redis.signal("SIGCONT");
  },
  "connections to Redis cut": async (redis) => {
    const client = redis.client();
    await client.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
    client.disconnect();
  },
  "Redis emptied": async (redis) => {
    const client = redis.client();
    await client.flushall();
    client.disconnect();
  },
};

/** What ends a worker's process. */
const ENDS: ReadonlySet<string> = new Set([
  ...["worker killed", "worker told to end"],
  ...Object.entries(POOL_FAULTS).flatMap(([name, { isEnd }]) => (isEnd ? [name] : [])),
]);

/** Resets all TCP connections of a process, to Redis and to other workers; by root alone. */
function cutConnections({ pid }: { readonly pid: number | undefined }): void {
  const lines = spawnSync("ss", ["-Htnp", "state", "established"], { encoding: "utf8" }).stdout;
  for (const line of (lines ?? "").split("\n")) {
    if (!line.includes(`pid=${pid},`)) continue;
    const [, , from = "", to = ""] = line.trim().split(/\s+/);
    spawnSync("ss", ["-K", "src", from, "dst", to]);
  }
}

export interface PartFaults {
  faults: number;
  /** Faults behind which it does again what it is there for. */
  recovered: number;
}

export interface FaultDiceOptions {
  readonly below: Dice;
  /** Workers of pools are given other roles, too. */
  readonly roleChanges: boolean;
}

/** Begins faults, one of each kind before any comes again, each at a victim that is well. */
export class FaultDice {
  readonly counts: Record<string, number> = {};
  /** By the part of the fleet that was hit. */
  readonly parts: Record<string, PartFaults> = {};
  readonly #fleet: ChaosFleet;
  readonly #below: Dice;
  readonly #suffering = new Set<object>();
  readonly #running = new Set<Promise<void>>();
  readonly #failures: string[] = [];
  readonly #roleChanges: boolean;
  #bag: string[] = [];

  constructor(fleet: ChaosFleet, { below, roleChanges }: FaultDiceOptions) {
    this.#fleet = fleet;
    this.#below = below;
    this.#roleChanges = roleChanges;
  }

  /** What went wrong with faults themselves: a process that did not start again. */
  get failures(): readonly string[] {
    return this.#failures;
  }

  /** Workers of the model that no fault has hit, or that are well again. */
  wellCount(model: string): number {
    const { workers } = this.#fleet;
    const able = workers.filter((one) => one.model === model && one.role !== "kv");
    return able.filter((one) => !this.#suffering.has(one)).length;
  }

  /** Begins the next fault, where its victim is well. */
  next(): void {
    const name = this.#draw();
    const begun = this.#begin(name);
    if (begun === null) return;
    this.counts[name] = (this.counts[name] ?? 0) + 1;
    const part = this.parts[begun.part] ?? { faults: 0, recovered: 0 };
    this.parts[begun.part] = part;
    part.faults++;
    const over = begun.running
      .then(async () => {
        await begun.recovers();
        part.recovered++;
      })
      .catch((error: unknown) => void this.#failures.push(`${name}: ${String(error)}`))
      .then(() => void this.#running.delete(over));
    this.#running.add(over);
  }

  /** Settles when all faults are over. */
  async over(): Promise<void> {
    await Promise.all(this.#running);
  }

  #draw(): string {
    if (this.#bag.length === 0) {
      const { workers, setRedisClock } = this.#fleet;
      this.#bag = [WORKER_FAULTS, ROUTER_FAULTS, REDIS_FAULTS].flatMap(Object.keys);
      const ofPools = Object.entries(POOL_FAULTS).filter(([, { isFor }]) => workers.some(isFor));
      for (let times = 0; times < 2; times++) this.#bag.push(...ofPools.map(([name]) => name));
      if (setRedisClock !== null) this.#bag.push(REDIS_CLOCK);
      if (this.#roleChanges) this.#bag.push(...[ROLE_CHANGE, ROLE_CHANGE, ROLE_CHANGE]);
    }
    const [name = ""] = this.#bag.splice(this.#below(this.#bag.length), 1);
    return name;
  }

  #begin(name: string): BegunFault | null {
    const { routers, redis } = this.#fleet;
    const own = WORKER_FAULTS[name] ?? POOL_FAULTS[name]?.fault;
    if (own !== undefined) return this.#beginAtWorker(name, own);
    if (name === ROLE_CHANGE) {
      const running = changeRole(this.#fleet, this.#below);
      return { part: "roles", running, recovers: async () => {} };
    }
    const routing = ROUTER_FAULTS[name];
    if (routing !== undefined) {
      // The first router lives: its memory is watched.
      const [, router] = routers;
      if (router === undefined) return null;
      return this.#suffer("router", router, routing, () => healthy(router, "/health/live"));
    }
    const fault = name === REDIS_CLOCK ? () => this.#setRedisClock() : REDIS_FAULTS[name];
    if (fault === undefined) return null;
    return this.#suffer("Redis", redis, fault, () => redisAnswers(redis));
  }

  #beginAtWorker(name: string, fault: Fault<ChaosWorker>): BegunFault | null {
    const { workers } = this.#fleet;
    const isFor = POOL_FAULTS[name]?.isFor ?? (() => true);
    const able = workers.filter((one) => isFor(one) && !(one.isLasting && ENDS.has(name)));
    const victim = able[this.#below(able.length)];
    if (victim === undefined) return null;
    // Those that compute nothing are not missed.
    if (victim.role !== "kv") {
      const alike = workers.filter(({ model, role }) => model === victim.model && role !== "kv");
      const suffering = alike.filter((worker) => this.#suffering.has(worker)).length;
      if (suffering + 1 > SUFFERING_SHARE_MAX * alike.length) return null;
    }
    const part = POOL_FAULTS[name]?.part ?? `worker (${victim.kind})`;
    return this.#suffer(part, victim, fault, () => healthy(victim.node, "/health"));
  }

  async #setRedisClock(): Promise<void> {
    this.#fleet.setRedisClock?.((this.#below(200) - 100) * DAY_MS);
    await sleep(100);
  }

  #suffer<Victim extends object>(
    part: string,
    victim: Victim,
    fault: Fault<Victim>,
    recovers: () => Promise<void>,
  ): BegunFault | null {
    if (this.#suffering.has(victim)) return null;
    this.#suffering.add(victim);
    const running = fault(victim, this.#below, this.#fleet);
    return { part, recovers, running: running.finally(() => this.#suffering.delete(victim)) };
  }
}

interface BegunFault {
  /** Of the fleet. */
  readonly part: string;
  /** Settles when the fault is over. */
  readonly running: Promise<void>;
  /** Settles when the part works again; rejects where it does not. */
  readonly recovers: () => Promise<void>;
}

const ROLE_CHANGE = "role changed";
const REDIS_CLOCK = "Redis's clock set";
/** Other faults may hit it meanwhile. */
const RECOVER_MS = 120_000;
const LOOK_MS = 200;

/** Waits until a process answers that it is well. */
async function healthy(node: Restartable, path: string): Promise<void> {
  await again(`${node.name} does not recover`, async () => {
    const signal = AbortSignal.timeout(RECOVER_MS);
    return (await fetch(node.process.url + path, { signal })).ok;
  });
}

async function redisAnswers(redis: ChaosFleet["redis"]): Promise<void> {
  await again("Redis does not recover", async () => {
    const client = redis.client();
    try {
      return (await client.ping()) === "PONG";
    } finally {
      client.disconnect();
    }
  });
}

async function again(what: string, look: () => Promise<boolean>): Promise<void> {
  const untilMs = performance.now() + RECOVER_MS;
  while (!(await look().catch(() => false))) {
    if (performance.now() > untilMs) throw new Error(what);
    await sleep(LOOK_MS);
  }
}
