/** Two routers, Redis and workers behind networks that fail, each a process of its own. */
import { spawnSync } from "node:child_process";
import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { FaultProxy } from "../support/fault-proxy.ts";
import { FleetProcess } from "../support/fleet-process.ts";
import { freePort, TestRedis } from "../support/redis-server.ts";
import {
  type ChaosSizes,
  type ChaosWorker,
  type WorkerPlan,
  workerPlans,
} from "./chaos-workers.ts";
import { Restartable } from "./restartable.ts";

/** Short, so that what fails is left soon; long enough for a busy machine. */
const ROUTER_FLAGS = [
  ...["--port", "0", "--connect-timeout-ms", "1000", "--token-timeout-ms", "1500"],
  ...["--breaker-open-ms", "500", "--shutdown-timeout-ms", "1000", "--log-level", "info"],
];
const FIRST_TOKEN_MS = 4000;
const ANSWER_MS = 8000;
/** More share the cores with each other: all takes longer. */
const FEW_WORKERS = 6;
const LEASE_MS = 5000;

export interface ChaosFleetOptions extends ChaosSizes {
  readonly onLine: (who: string, line: string) => void;
}

export class ChaosFleet {
  readonly redis: TestRedis;
  readonly workers: readonly ChaosWorker[];
  /** The first is never killed: its memory is watched. */
  readonly routers: readonly Restartable[];
  readonly #folder: string;
  readonly #clocks: Clocks;

  private constructor(parts: {
    redis: TestRedis;
    workers: ChaosWorker[];
    routers: Restartable[];
    clocks: Clocks;
    folder: string;
  }) {
    this.redis = parts.redis;
    this.workers = parts.workers;
    this.routers = parts.routers;
    this.#clocks = parts.clocks;
    this.#folder = parts.folder;
  }

  static async start({ onLine, ...sizes }: ChaosFleetOptions): Promise<ChaosFleet> {
    const folder = mkdtempSync(join(tmpdir(), "perigee-chaos-"));
    const clocks = new Clocks(folder);
    const redis = await TestRedis.start(null, clocks.redisEnv);
    const start = async (name: string, words: readonly string[], hasStages = false) => {
      const options = { env: clocks.nodeEnv, onLine: (line: string) => onLine(name, line) };
      return await Restartable.start({
        ...{ name, hasStages, start: () => FleetProcess.start(words, options) },
      });
    };
    const worker = async (plan: WorkerPlan, place: number): Promise<ChaosWorker> => {
      const port = await freePort();
      const network = await FaultProxy.start(port);
      const name = `worker-${place}`;
      const words = [
        ...["worker", ...plan.words, "--port", `${port}`, "--worker-id", name],
        ...["--advertise", network.url, "--redis", redis.url, "--lease-ms", `${LEASE_MS}`],
        ...["--shutdown-timeout-ms", "2000", "--log-level", "warn"],
      ];
      return { ...plan, node: await start(name, words, plan.stages > 1), network };
    };
    const plans = workerPlans(sizes, folder);
    const times = plans.length > FEW_WORKERS ? 2 : 1;
    const words = [
      ...["route", ...ROUTER_FLAGS, "--redis", redis.url],
      ...["--first-token-timeout-ms", `${times * FIRST_TOKEN_MS}`],
      ...["--answer-timeout-ms", `${times * ANSWER_MS}`],
    ];
    const [workers, routers] = await Promise.all([
      Promise.all(plans.map(worker)),
      Promise.all([0, 1].map((place) => start(`router-${place}`, words))),
    ]);
    return new ChaosFleet({ redis, workers, routers, clocks, folder });
  }

  get nodes(): readonly Restartable[] {
    return [...this.routers, ...this.workers.map(({ node }) => node)];
  }

  /** Sets the clock of a worker or router: so far ahead of the true time. */
  setClock({ process }: Restartable, aheadMs: number): void {
    this.#clocks.setNode(aheadMs);
    process.signal("SIGUSR2");
  }

  /** Null: Redis has no clock that can be set here. */
  get setRedisClock(): ((aheadMs: number) => void) | null {
    return this.#clocks.hasRedis ? (aheadMs) => this.#clocks.setRedis(aheadMs) : null;
  }

  async close(): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.end("SIGKILL")));
    await Promise.all(this.workers.map(({ network }) => network.close()));
    await this.redis.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** Clocks that tests set: of Node by a hook, of Redis by a library, where there is a compiler. */
class Clocks {
  readonly hasRedis: boolean;
  readonly #node: string;
  readonly #redis: string;
  readonly #library: string;

  constructor(folder: string) {
    this.#node = join(folder, "node-clock");
    this.#redis = join(folder, "redis-clock");
    this.#library = join(folder, "stepped-clock.so");
    this.setNode(0);
    writeFileSync(this.#redis, Buffer.alloc(INT64_BYTES));
    const source = resolve("test/support/stepped-clock.c");
    const words = ["-shared", "-fPIC", "-O1", "-o", this.#library, source];
    this.hasRedis = process.platform === "linux" && spawnSync("cc", words).status === 0;
  }

  get nodeEnv(): Readonly<Record<string, string>> {
    const hook = resolve("test/support/stepped-clock.mjs");
    return { PERIGEE_TEST_CLOCK: this.#node, NODE_OPTIONS: `--trace-warnings --import=${hook}` };
  }

  get redisEnv(): Readonly<Record<string, string>> {
    if (!this.hasRedis) return {};
    return { LD_PRELOAD: this.#library, PERIGEE_TEST_CLOCK: this.#redis };
  }

  setNode(aheadMs: number): void {
    writeFileSync(this.#node, String(aheadMs));
  }

  /** In place: Redis has the file mapped. */
  setRedis(aheadMs: number): void {
    const file = openSync(this.#redis, "r+");
    writeSync(file, BigInt64Array.of(BigInt(aheadMs)), 0, INT64_BYTES, 0);
    closeSync(file);
  }
}

const INT64_BYTES = 8;
