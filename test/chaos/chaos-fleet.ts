/** Two routers, Redis and workers behind networks that fail, each a process of its own. */
import { spawnSync } from "node:child_process";
import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { FaultProxy } from "../support/fault-proxy.ts";
import { FleetProcess } from "../support/fleet-process.ts";
import { freePort, TestRedis } from "../support/redis-server.ts";

/** Short, so that what fails is left soon; long enough for a busy machine. */
const ROUTER_FLAGS = [
  ...["--port", "0", "--connect-timeout-ms", "1000", "--token-timeout-ms", "1500"],
  ...["--first-token-timeout-ms", "4000", "--answer-timeout-ms", "8000"],
  ...["--breaker-open-ms", "500", "--shutdown-timeout-ms", "1000", "--log-level", "info"],
];
const LEASE_MS = 5000;
const MOCK = ["--mock", "--served-model-name", "mock", "--mock-blocks", "4000,0,0"];
const EXACT = ["--device", "cpu", "--dtype", "float32"];
const REAL = [...EXACT, "--speculative", "off"];
/** Little memory on each level, so that blocks move between all of them; drafts as by default. */
const POOLED = [
  ...[...EXACT, "--threads", "1", "--kv-pool-bytes", `${64 * 2 ** 20}`],
  ...["--host-cache-bytes", `${32 * 2 ** 20}`],
];
const DISK_BYTES = 64 * 2 ** 20;

export interface ChaosFleetOptions {
  readonly mocks: number;
  /** Workers with the bundled model. */
  readonly reals: number;
  /** Workers with the bundled model that give keys and values to each other, by role. */
  readonly pools: Readonly<Record<PoolRole, number>>;
  readonly onLine: (who: string, line: string) => void;
}

export type PoolRole = "prefill" | "decode" | "both";
const POOL_ROLES: readonly PoolRole[] = ["prefill", "decode", "both"];

/** A worker or router, started again where it was. */
export class Restartable {
  readonly name: string;
  readonly #start: () => Promise<FleetProcess>;
  #process: FleetProcess;
  /** Whether it was told to end or to stop: what it says or does not say is no failure. */
  isDisturbed = false;
  /** Counts its ends. */
  ends = 0;

  private constructor(name: string, process: FleetProcess, start: () => Promise<FleetProcess>) {
    this.name = name;
    this.#process = process;
    this.#start = start;
  }

  static async start(name: string, start: () => Promise<FleetProcess>): Promise<Restartable> {
    return new Restartable(name, await start(), start);
  }

  get process(): FleetProcess {
    return this.#process;
  }

  async end(signal: NodeJS.Signals): Promise<void> {
    this.isDisturbed = true;
    this.ends++;
    await this.#process.end(signal);
  }

  async restart(): Promise<void> {
    this.#process = await this.#start();
    this.isDisturbed = false;
  }
}

export interface ChaosWorker {
  readonly model: "mock" | "pocket";
  /** Null: it gives no keys and values to others. */
  readonly role: PoolRole | null;
  /** Never killed: its memory and descriptors are watched. */
  readonly isLasting: boolean;
  readonly node: Restartable;
  readonly network: FaultProxy;
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
    const start = async (name: string, words: readonly string[]) =>
      Restartable.start(name, () =>
        FleetProcess.start(words, { env: clocks.nodeEnv, onLine: (line) => onLine(name, line) }),
      );
    const worker = async (plan: WorkerPlan, place: number): Promise<ChaosWorker> => {
      const port = await freePort();
      const network = await FaultProxy.start(port);
      const name = `worker-${place}`;
      const words = [
        ...["worker", ...plan.words, "--port", `${port}`, "--worker-id", name],
        ...["--advertise", network.url, "--redis", redis.url, "--lease-ms", `${LEASE_MS}`],
        ...["--shutdown-timeout-ms", "2000", "--log-level", "warn"],
      ];
      const { model, role, isLasting } = plan;
      return { model, role, isLasting, node: await start(name, words), network };
    };
    const plans = workerPlans(sizes, folder);
    const words = ["route", ...ROUTER_FLAGS, "--redis", redis.url];
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

interface WorkerPlan extends Pick<ChaosWorker, "model" | "role" | "isLasting"> {
  readonly words: readonly string[];
}

function workerPlans(
  { mocks, reals, pools }: Omit<ChaosFleetOptions, "onLine">,
  folder: string,
): WorkerPlan[] {
  const plain = { role: null, isLasting: false };
  const plans: WorkerPlan[] = [
    ...Array.from({ length: mocks }, () => ({ ...plain, model: "mock" as const, words: MOCK })),
    ...Array.from({ length: reals }, () => ({ ...plain, model: "pocket" as const, words: REAL })),
  ];
  for (const role of POOL_ROLES) {
    for (let place = 0; place < pools[role]; place++) {
      const disk = ["--disk-cache-bytes", `${DISK_BYTES}`, "--disk-cache-dir"];
      const words = [
        ...[...POOLED, "--role", role, "--kv-transfer"],
        ...(role === "both" ? [...disk, join(folder, `disk-${place}`)] : []),
      ];
      const isLasting = role !== "both" && place === 0;
      plans.push({ model: "pocket", role, isLasting, words });
    }
  }
  return plans;
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
