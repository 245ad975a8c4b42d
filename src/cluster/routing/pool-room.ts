import type { WorkerRole } from "#cluster/protocol";
import type { Fullness } from "./room.ts";

/** Whether a fleet with pools has room: one of each pool must have some. */
export class PoolRoom {
  #prefills = false;
  #decodes = false;

  /** `full`: why a worker is full; null: it has room. */
  add(role: WorkerRole, full: Fullness | null): void {
    if (role !== "decode" && full === null) this.#prefills = true;
    // A first token that is late at a worker that decodes waits for the other pool.
    if (role !== "prefill" && full !== "requests") this.#decodes = true;
  }

  get hasRoom(): boolean {
    return this.#prefills && this.#decodes;
  }
}
