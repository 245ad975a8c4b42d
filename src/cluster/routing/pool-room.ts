import type { WorkerRole } from "#cluster/protocol";
import type { Fullness } from "./room.ts";

/** Whether a fleet with pools has room: one of each pool that is there must have some. */
export class PoolRoom {
  readonly #seen = { prefill: false, decode: false };
  readonly #room = { prefill: false, decode: false };

  /** `full`: why a worker is full; null: it has room. */
  add(role: WorkerRole, full: Fullness | null): void {
    const pool = role === "prefill" ? "prefill" : "decode";
    this.#seen[pool] = true;
    if (full === null) this.#room[pool] = true;
    // A worker that does both computes what no other can; a first token that is late at one that
    // decodes waits for the other pool.
    if (role === "both" && full === null) this.#room.prefill = true;
    if (pool === "decode" && full !== "requests") this.#room.decode = true;
  }

  get hasRoom(): boolean {
    const { prefill, decode } = this.#room;
    const hasBoth = this.#seen.prefill && this.#seen.decode;
    return hasBoth ? prefill && decode : prefill || decode;
  }
}
