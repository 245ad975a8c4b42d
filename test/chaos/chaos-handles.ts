/** Descriptors and shared memory of a fleet's processes: what is held must not grow. */
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import type { ChaosFleet } from "./chaos-fleet.ts";

/** Sockets, pipes and the like that come and go with what is in work just now. */
const SPARE_HANDLES = 24;
/** A worker maps its own memory and that of each of the others, as places and as words. */
const MAPS_OF_ONE = 2;
const LOOK_MS = 500;

export interface Handles {
  readonly open: number;
  /** Mappings of memory that processes share. */
  readonly sharedMaps: number;
}

/** Null where the system does not tell. */
export function handlesOf(pid: number | undefined): Handles | null {
  try {
    const open = readdirSync(`/proc/${pid}/fd`).length;
    const lines = readFileSync(`/proc/${pid}/maps`, "utf8").split("\n");
    return { open, sharedMaps: lines.filter((line) => line.includes("/memfd:")).length };
  } catch {
    return null;
  }
}

/** Compares processes at rest before and behind the faults. */
export class HandleWatch {
  readonly #fleet: ChaosFleet;
  /** Most of a kind of process, before any fault. */
  readonly #before = new Map<string, number>();

  /** The fleet has answered requests, and is at rest. */
  constructor(fleet: ChaosFleet) {
    this.#fleet = fleet;
    for (const { kind, handles } of this.#all()) {
      this.#before.set(kind, Math.max(this.#before.get(kind) ?? 0, handles.open));
    }
  }

  /** By kind of process: before, and now. */
  report(): Readonly<Record<string, string>> {
    const now: Record<string, string> = {};
    for (const { name, kind, handles } of this.#all()) {
      const { open, sharedMaps } = handles;
      now[name] = `${this.#before.get(kind)} -> ${open}, ${sharedMaps} shared maps`;
    }
    return now;
  }

  /** Waits until all hold no more than before; what does. */
  async left(patienceMs: number): Promise<readonly string[]> {
    const untilMs = performance.now() + patienceMs;
    for (;;) {
      const found = this.#look();
      if (found.length === 0 || performance.now() > untilMs) return found;
      await sleep(LOOK_MS);
    }
  }

  #look(): readonly string[] {
    const givers = this.#fleet.workers.reduce(
      (sum, { role, stages }) => sum + (role === null ? 0 : stages),
      0,
    );
    const found: string[] = [];
    for (const { name, kind, pid, handles } of this.#all()) {
      const before = this.#before.get(kind) ?? 0;
      if (handles.open > before + SPARE_HANDLES) {
        found.push(`${name} has ${handles.open} descriptors, before ${before}: ${kindsOf(pid)}`);
      }
      if (handles.sharedMaps > MAPS_OF_ONE * givers) {
        found.push(`${name} maps ${handles.sharedMaps} pieces of shared memory of ${givers}`);
      }
    }
    return found;
  }

  *#all() {
    const nodes = [
      ...this.#fleet.routers.map((node) => ({ kind: "router", node })),
      ...this.#fleet.workers,
    ];
    for (const { kind, node } of nodes) {
      const { pid } = node.process;
      const handles = handlesOf(pid);
      if (handles !== null) yield { name: `${node.name} (${kind})`, kind, pid, handles };
    }
  }
}

/** Descriptors of a process, counted by what they are. */
function kindsOf(pid: number | undefined): string {
  const counts: Record<string, number> = {};
  for (const descriptor of readdirSync(`/proc/${pid}/fd`)) {
    const kind = targetOf(`/proc/${pid}/fd/${descriptor}`).replace(/\d+/g, "N");
    counts[kind] = (counts[kind] ?? 0) + 1;
  }
  return JSON.stringify(counts);
}

/** It may have been closed meanwhile. */
function targetOf(link: string): string {
  try {
    return readlinkSync(link);
  } catch {
    return "gone";
  }
}
