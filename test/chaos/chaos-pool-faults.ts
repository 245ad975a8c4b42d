/** Faults of workers that give keys and values to each other, of their stages and their roles. */
import { setTimeout as sleep } from "node:timers/promises";
import type { ChaosFleet } from "./chaos-fleet.ts";
import { type Fault, killed, LONG_MS, stopped } from "./chaos-suffering.ts";
import type { Dice } from "./chaos-traffic.ts";
import type { ChaosWorker, PoolRole } from "./chaos-workers.ts";

interface PoolFault {
  readonly isFor: (worker: ChaosWorker) => boolean;
  readonly fault: Fault<ChaosWorker>;
  /** The worker's process ends. */
  readonly isEnd?: true;
  /** What is hit, where it is not the worker as a whole. */
  readonly part?: string;
}

const has = (role: PoolRole) => (worker: ChaosWorker) => worker.role === role;
const hasStages = ({ stages }: ChaosWorker) => stages > 1;

/** Faults of pools, more often than others. */
export const POOL_FAULTS: Readonly<Record<string, PoolFault>> = {
  "prefill worker killed": { isFor: has("prefill"), fault: killed, isEnd: true },
  "decode worker killed": { isFor: has("decode"), fault: killed, isEnd: true },
  "prefill worker stopped and continued": {
    isFor: has("prefill"),
    fault: async ({ node }, below) => stopped(node, 100 + below(2 * LONG_MS)),
  },
  "prefill worker killed and started again and again": {
    isFor: has("prefill"),
    isEnd: true,
    fault: async (worker) => {
      await killed(worker);
      await killed(worker);
    },
  },
  "kv worker killed": { isFor: has("kv"), fault: killed, isEnd: true },
  "kv worker stopped and continued": {
    isFor: has("kv"),
    fault: async ({ node }, below) => stopped(node, 100 + below(2 * LONG_MS)),
  },
  "kv worker told to end": {
    isFor: has("kv"),
    isEnd: true,
    fault: async ({ node }) => {
      await node.end("SIGTERM");
      await node.restart();
    },
  },
  "worker of stages killed": { isFor: hasStages, fault: killed, isEnd: true },
  "stage killed": { isFor: hasStages, fault: stageKilled, isEnd: true, part: "stage" },
  "stage stopped and continued": {
    ...{ isFor: hasStages, fault: stageStopped, isEnd: true, part: "stage" },
  },
};

/** The worker ends with its stage, and with it all others. */
async function stageKilled({ node }: ChaosWorker, below: Dice): Promise<void> {
  const stages = node.stages;
  process.kill(stages[below(stages.length)] ?? 0, "SIGKILL");
  await node.endsItself(stages);
  await node.restart();
}

/** Either the stage was not missed, or the worker has ended with it. */
async function stageStopped({ node }: ChaosWorker, below: Dice): Promise<void> {
  const stages = node.stages;
  const stage = stages[below(stages.length)] ?? 0;
  // What it does not answer meanwhile is no failure.
  node.isDisturbed = true;
  process.kill(stage, "SIGSTOP");
  await sleep(100 + below(SILENT_MS));
  const isLeft = node.process.isAlive && signalled(stage, "SIGCONT");
  await sleep(END_MS);
  if (isLeft && node.process.isAlive && node.stages.length === stages.length) {
    node.isDisturbed = false;
    return;
  }
  await node.endsItself(stages);
  await node.restart();
}

/** About twice as long as a worker waits for a stage that has work. */
const SILENT_MS = 13_000;
/** A worker that has begun to end has done so, or has lost a stage. */
const END_MS = 2000;

/** False: there is no such process any more. */
function signalled(pid: number, signal: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, signal);
  } catch {
    return false;
  }
}

/** What a router may answer: no such worker now, it refuses or is the last, it does not answer. */
const ANSWERS: ReadonlySet<number> = new Set([200, 404, 409, 502, 503, 504]);
const ROLES = ["prefill", "decode", "both"] as const;
const ORDER_MS = 30_000;

/** Another role for a worker for a while, then its own again, each by either router. */
export async function changeRole(fleet: ChaosFleet, below: Dice): Promise<void> {
  const able = fleet.workers.filter(({ role }) => role !== null && role !== "kv");
  const worker = able[below(able.length)];
  if (worker?.role == null) throw new Error("There is no worker whose role changes");
  await giveRole(fleet, below, [worker.node.name, ROLES[below(ROLES.length)] ?? "both"]);
  await sleep(500 + below(2 * LONG_MS));
  await giveRole(fleet, below, [worker.node.name, worker.role]);
}

async function giveRole(
  { routers }: ChaosFleet,
  below: Dice,
  order: readonly [worker: string, role: string],
): Promise<void> {
  const router = routers[below(routers.length)];
  if (router === undefined) throw new Error("There are two routers");
  const { ends } = router;
  try {
    const response = await fetch(`${router.process.url}/route/roles`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ roles: Object.fromEntries([order]) }),
      signal: AbortSignal.timeout(ORDER_MS),
    });
    if (ANSWERS.has(response.status)) return void (await response.text());
    throw new Error(`${order} was answered ${response.status}: ${await response.text()}`);
  } catch (error) {
    // A router that ends meanwhile says nothing.
    if (router.ends === ends && !router.isDisturbed) throw error;
  }
}
