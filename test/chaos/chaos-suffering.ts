/** What a fault is, and what several of them do. */
import { setTimeout as sleep } from "node:timers/promises";
import type { ChaosFleet } from "./chaos-fleet.ts";
import type { Dice } from "./chaos-traffic.ts";
import type { ChaosWorker } from "./chaos-workers.ts";
import type { Restartable } from "./restartable.ts";

/** Longer than the deadline between tokens and than a lease. */
export const LONG_MS = 2500;

/** Settles when the fault is over. */
export type Fault<Victim> = (victim: Victim, below: Dice, fleet: ChaosFleet) => Promise<void>;

export async function killed({ node }: ChaosWorker): Promise<void> {
  await node.end("SIGKILL");
  await node.restart();
}

export async function stopped(node: Restartable, ms: number): Promise<void> {
  node.process.signal("SIGSTOP");
  await sleep(ms);
  node.process.signal("SIGCONT");
}
