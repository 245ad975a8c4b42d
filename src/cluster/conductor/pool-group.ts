import type { FetchedKv, WorkerInfo } from "#cluster/protocol";
import type { Conductor } from "./conductor.ts";
import type { InstanceNumber } from "./decision.ts";
import { FetchSpeeds } from "./fetch-speeds.ts";
import type { LiveBooking } from "./live-booking.ts";

/** Workers that give each other keys and values, or, where they do not, those that are alike. */
export class PoolGroup {
  readonly name: string;
  readonly conductor: Conductor;
  /** Its workers give each other keys and values. */
  readonly sharesBlocks: boolean;
  /** By id of a worker. */
  readonly numbers = new Map<string, InstanceNumber>();
  readonly #prefills = new Set<string>();
  readonly #speeds = new FetchSpeeds();
  readonly bookings = new Set<LiveBooking>();
  /** Those whose first token is not seen, and is not taken to be there. */
  readonly unseen = new Set<LiveBooking>();
  /** Bookings of requests that do not fill what is free. */
  readonly urgent = new Set<LiveBooking>();
  /** When something was measured of it. */
  measuredMs = Number.NEGATIVE_INFINITY;

  constructor(name: string, conductor: Conductor) {
    this.name = name;
    this.sharesBlocks = name.startsWith(SHARED);
    this.conductor = conductor;
  }

  /** A worker that computes prompts for others, and one that decodes, are members. */
  get hasPools(): boolean {
    return this.sharesBlocks && this.#prefills.size > 0 && this.#prefills.size < this.numbers.size;
  }

  changed({ id, role = "both" }: WorkerInfo): void {
    const number = this.numbers.get(id);
    if (number === undefined) return;
    this.conductor.setRole(number, role, role);
    if (role === "prefill") this.#prefills.add(id);
    else this.#prefills.delete(id);
  }

  join(info: WorkerInfo): void {
    if (info.role === "prefill") this.#prefills.add(info.id);
    this.numbers.set(info.id, this.conductor.join(instanceOf(info)));
    this.#speeds.join(info.id);
    this.#tellSpeeds();
  }

  /** What a worker says of its fetches since its start. */
  fetched(id: string, total: FetchedKv): void {
    if (this.#speeds.told(id, total)) this.#tellSpeeds();
  }

  leave(id: string): void {
    const number = this.numbers.get(id);
    if (number === undefined) return;
    this.conductor.leave(number);
    this.numbers.delete(id);
    this.#speeds.leave(id);
    this.#prefills.delete(id);
  }

  #tellSpeeds(): void {
    for (const [id, tokensPerMs] of this.#speeds.all()) {
      const number = this.numbers.get(id);
      if (number !== undefined) this.conductor.setNetwork(number, tokensPerMs);
    }
  }

  passUnseen(nowMs: number): void {
    for (const booking of this.unseen) {
      if (booking.passUnseen(nowMs)) this.unseen.delete(booking);
    }
  }

  /** The shortest deadline between tokens of requests that run; null: none has one. */
  shortestTbtMs(): number | null {
    let least: number | null = null;
    for (const { tbtDeadlineMs: own } of this.urgent) {
      if (own !== null && (least === null || own < least)) least = own;
    }
    return least;
  }
}

const SHARED = "blocks ";

/** Equal names: blocks, or at least speeds, mean the same to all. */
export function groupOf({ fingerprint, transfer, kv, kind, version, models }: WorkerInfo): string {
  if (fingerprint !== null && transfer !== undefined && kv !== null) {
    return `${SHARED}${fingerprint} ${kv.blockTokens}`;
  }
  return `alike ${kind} ${version} ${models[0] ?? ""}`;
}

/**
 * Its role is its kind: those that compute prompts beside decoding are slower at both. Nothing is
 * known of its network yet.
 */
function instanceOf({ id, role = "both", kv }: WorkerInfo) {
  const kvTokens = (kv?.blocks[0] ?? 0) * (kv?.blockTokens ?? 0);
  return { id, role, kind: role, kvTokens, networkBytesPerMs: 0 };
}
