/** The workers of a fleet under faults: what they are, and how they are started. */
import { join } from "node:path";
import type { FaultProxy } from "../support/fault-proxy.ts";
import type { Restartable } from "./restartable.ts";

const MOCK = ["--mock", "--served-model-name", "mock", "--mock-blocks", "4000,0,0"];
const EXACT = ["--device", "cpu", "--dtype", "float32"];
const REAL = [...EXACT, "--speculative", "off"];
/** Little memory on each level, so that blocks move between all of them; drafts as by default. */
const POOLED = [
  ...[...EXACT, "--threads", "1", "--kv-pool-bytes", `${64 * 2 ** 20}`],
  ...["--host-cache-bytes", `${32 * 2 ** 20}`],
];
const DISK_BYTES = 64 * 2 ** 20;
/** As much as two of those that it serves have. */
const MEMORY = [...EXACT, "--host-cache-bytes", `${128 * 2 ** 20}`];
/** Chunks that most prompts have some of; a stage that is stopped is noticed before it goes on. */
const STAGED = [
  ...["--speculative", "off", "--pipeline-chunk-tokens", "256"],
  ...["--pipeline-timeout-ms", "6000"],
];

export interface ChaosSizes {
  readonly mocks: number;
  /** Workers with the bundled model. */
  readonly reals: number;
  readonly pools: PoolSizes;
}

/** Workers with the bundled model that give keys and values to each other, by role. */
export interface PoolSizes extends Readonly<Record<PoolRole, number>> {
  /** Above 1: one more prefill worker, whose prompts are computed by so many stages. */
  readonly stages: number;
}

export type PoolRole = "prefill" | "decode" | "both" | "kv";
const POOL_ROLES: readonly PoolRole[] = ["prefill", "decode", "both", "kv"];

export const NO_POOLS: PoolSizes = { prefill: 0, decode: 0, both: 0, kv: 0, stages: 0 };

export interface ChaosWorker extends WorkerKind {
  readonly node: Restartable;
  readonly network: FaultProxy;
}

interface WorkerKind {
  /** What a report calls those that are alike. */
  readonly kind: string;
  readonly model: "mock" | "pocket";
  /** That it has at its start. Null: it gives no keys and values to others. */
  readonly role: PoolRole | null;
  /** Processes that compute its model. */
  readonly stages: number;
  /** Never killed: its memory and descriptors are watched. */
  readonly isLasting: boolean;
}

export interface WorkerPlan extends WorkerKind {
  readonly words: readonly string[];
}

/** `folder`: for what they write to disk. */
export function workerPlans({ mocks, reals, pools }: ChaosSizes, folder: string): WorkerPlan[] {
  const plain = { role: null, stages: 1, isLasting: false };
  const mock = { ...plain, kind: "mock", model: "mock", words: MOCK } as const;
  const real = { ...plain, kind: "pocket", model: "pocket", words: REAL } as const;
  return [
    ...Array.from({ length: mocks }, () => mock),
    ...Array.from({ length: reals }, () => real),
    ...POOL_ROLES.flatMap((role) =>
      Array.from({ length: pools[role] }, (_, place) => poolPlan(role, place, folder)),
    ),
    ...(pools.stages > 1 ? [stagedPlan(pools.stages)] : []),
  ];
}

function poolPlan(role: PoolRole, place: number, folder: string): WorkerPlan {
  const disk = ["--disk-cache-bytes", `${DISK_BYTES}`, "--disk-cache-dir"];
  const words = [
    ...(role === "kv" ? MEMORY : [...POOLED, "--kv-transfer"]),
    ...["--role", role],
    ...(role === "both" ? [...disk, join(folder, `disk-${place}`)] : []),
  ];
  // The only worker of role kv must be killed, too.
  const isLasting = role === "kv" ? place === 1 : role !== "both" && place === 0;
  return { kind: role, model: "pocket", role, stages: 1, isLasting, words };
}

function stagedPlan(stages: number): WorkerPlan {
  return {
    ...{ kind: `prefill of ${stages} stages`, model: "pocket", role: "prefill", stages },
    isLasting: false,
    words: [...POOLED, ...STAGED, "--role", "prefill", "--pipeline-stages", `${stages}`],
  };
}
