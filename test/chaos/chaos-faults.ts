/** Faults of every kind, each with its end. */
import { spawnSync } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import type { ChaosFleet, ChaosWorker, PoolRole, Restartable } from "./chaos-fleet.ts";
import type { Dice } from "./chaos-traffic.ts";

const DAY_MS = 86_400_000;
/** Longer than the deadline between tokens and than a lease. */
const LONG_MS = 2500;
/** So many workers of a model suffer at a time: others are left for three attempts. */
const SUFFERING_SHARE_MAX = 0.5;

/** Settles when the fault is over. */
type Fault<Victim> = (victim: Victim, below: Dice, fleet: ChaosFleet) => Promise<void>;

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

/** Faults of pools, more often than others. */
const POOL_FAULTS: Readonly<Record<string, { role: PoolRole; fault: Fault<ChaosWorker> }>> = {
  "prefill worker killed": { role: "prefill", fault: killed },
  "decode worker killed": { role: "decode", fault: killed },
  "prefill worker stopped and continued": {
    role: "prefill",
    fault: async ({ node }, below) => stopped(node, 100 + below(2 * LONG_MS)),
  },
  "prefill worker killed and started again and again": {
    role: "prefill",
    fault: async (worker) => {
      await killed(worker);
      await killed(worker);
    },
  },
};
/** What ends a worker's process. */
const ENDS: ReadonlySet<string> = new Set([
  ...["worker killed", "worker told to end", "prefill worker killed", "decode worker killed"],
  "prefill worker killed and started again and again",
]);

async function killed({ node }: ChaosWorker): Promise<void> {
  await node.end("SIGKILL");
  await node.restart();
}

/** Resets all TCP connections of a process, to Redis and to other workers; by root alone. */
function cutConnections({ pid }: { readonly pid: number | undefined }): void {
  const lines = spawnSync("ss", ["-Htnp", "state", "established"], { encoding: "utf8" }).stdout;
  for (const line of (lines ?? "").split("\n")) {
    if (!line.includes(`pid=${pid},`)) continue;
    const [, , from = "", to = ""] = line.trim().split(/\s+/);
    spawnSync("ss", ["-K", "src", from, "dst", to]);
  }
}

async function stopped(node: Restartable, ms: number): Promise<void> {
  node.process.signal("SIGSTOP");
  await sleep(ms);
  node.process.signal("SIGCONT");
}

/** Begins faults, one of each kind before any comes again, each at a victim that is well. */
export class FaultDice {
  readonly counts: Record<string, number> = {};
  readonly #fleet: ChaosFleet;
  readonly #below: Dice;
  readonly #suffering = new Set<object>();
  readonly #running = new Set<Promise<void>>();
  readonly #failures: string[] = [];
  #bag: string[] = [];

  constructor(fleet: ChaosFleet, below: Dice) {
    this.#fleet = fleet;
    this.#below = below;
  }

  /** What went wrong with faults themselves: a process that did not start again. */
  get failures(): readonly string[] {
    return this.#failures;
  }

  /** Workers of the model that no fault has hit, or that are well again. */
  wellCount(model: string): number {
    const { workers } = this.#fleet;
    return workers.filter((one) => one.model === model && !this.#suffering.has(one)).length;
  }

  /** Begins the next fault, where its victim is well. */
  next(): void {
    const name = this.#draw();
    const running = this.#begin(name);
    if (running === null) return;
    this.counts[name] = (this.counts[name] ?? 0) + 1;
    const over = running
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
      this.#bag = [WORKER_FAULTS, ROUTER_FAULTS, REDIS_FAULTS].flatMap(Object.keys);
      const roles = new Set(this.#fleet.workers.map(({ role }) => role));
      const ofPools = Object.entries(POOL_FAULTS).filter(([, { role }]) => roles.has(role));
      for (let times = 0; times < 2; times++) this.#bag.push(...ofPools.map(([name]) => name));
      if (this.#fleet.setRedisClock !== null) this.#bag.push(REDIS_CLOCK);
    }
    const [name = ""] = this.#bag.splice(this.#below(this.#bag.length), 1);
    return name;
  }

  #begin(name: string): Promise<void> | null {
    const { workers, routers, redis } = this.#fleet;
    const own = WORKER_FAULTS[name] ?? POOL_FAULTS[name]?.fault;
    if (own !== undefined) {
      const role = POOL_FAULTS[name]?.role;
      const able = workers.filter(
        (one) => (role === undefined || one.role === role) && !(one.isLasting && ENDS.has(name)),
      );
      const victim = able[this.#below(able.length)];
      const alike = workers.filter(({ model }) => model === victim?.model);
      const suffering = alike.filter((worker) => this.#suffering.has(worker)).length;
      if (suffering + 1 > SUFFERING_SHARE_MAX * alike.length) return null;
      return this.#suffer(victim, own);
    }
    const routing = ROUTER_FAULTS[name];
    // The first router lives: its memory is watched.
    if (routing !== undefined) return this.#suffer(routers[1], routing);
    if (name === REDIS_CLOCK) return this.#suffer(redis, () => this.#setRedisClock());
    return this.#suffer(redis, REDIS_FAULTS[name]);
  }

  async #setRedisClock(): Promise<void> {
    this.#fleet.setRedisClock?.((this.#below(200) - 100) * DAY_MS);
    await sleep(100);
  }

  #suffer<Victim extends object>(
    victim: Victim | undefined,
    fault: Fault<Victim> | undefined,
  ): Promise<void> | null {
    if (victim === undefined || fault === undefined || this.#suffering.has(victim)) return null;
    this.#suffering.add(victim);
    return fault(victim, this.#below, this.#fleet).finally(() => this.#suffering.delete(victim));
  }
}

const REDIS_CLOCK = "Redis's clock set";
