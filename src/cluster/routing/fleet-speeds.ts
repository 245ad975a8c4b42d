import type { WorkerSpeeds } from "#cluster/protocol";
import { MeasuredSpeeds } from "./measured-speeds.ts";
import type { DecodeLoad, LoadObserver, PrefillWork } from "./reservation.ts";

/**
 * Workers within this factor of the whole fleet's prefill speed count as equally fast. Otherwise
 * the noise of measurement would send every prompt of an idle fleet to the same worker.
 */
const ALIKE_FACTOR = 1.15;
/** A worker that is measured less is taken for one like the others. */
const OWN_SAMPLES = 16;

/** First tokens that come within this of each other were computed in one step. */
const TOGETHER_MS = 1;

/** Speeds of every worker of a fleet, measured by what its requests took. */
export class FleetSpeeds implements LoadObserver {
  /** By kind of worker: those of one model are compared with each other. */
  readonly #groups = new Map<string, MeasuredSpeeds>();
  readonly #workers = new Map<string, Entry>();

  /** A worker, and the kind that it belongs to. */
  joined(workerId: string, group: string): void {
    this.#workers.set(workerId, this.#newEntry(group));
  }

  left(workerId: string): void {
    this.#workers.delete(workerId);
  }

  speedsOf(workerId: string): WorkerSpeeds {
    const { speeds, group, told } = this.#entryOf(workerId);
    if (told) return speeds;
    if (speeds.prefillSamples < OWN_SAMPLES) return group;
    const factor = speeds.typicalPrefillMs / group.typicalPrefillMs;
    return factor < ALIKE_FACTOR && factor > 1 / ALIKE_FACTOR ? group : speeds;
  }

  /** A worker's own measurement of itself; null: it says nothing any more. */
  told(workerId: string, speeds: WorkerSpeeds | null): void {
    const entry = this.#entryOf(workerId);
    entry.told = speeds !== null;
    entry.speeds.told(speeds);
  }

  prefilled(workerId: string, work: PrefillWork, ms: number): void {
    const entry = this.#entryOf(workerId);
    const { pending } = entry;
    if (pending !== null && ms < TOGETHER_MS) {
      pending.tokens += work.tokens;
      pending.pairs += work.pairs;
      return;
    }
    if (pending !== null) {
      entry.group.prefilled(pending, pending.ms);
      entry.speeds.prefilled(pending, pending.ms);
    }
    entry.pending = { ...work, ms };
  }

  decoded(workerId: string, ms: number, tokens: number, load: DecodeLoad): void {
    const { group, speeds } = this.#entryOf(workerId);
    group.decoded(ms, tokens, load);
    speeds.decoded(ms, tokens, load);
  }

  #entryOf(workerId: string): Entry {
    const known = this.#workers.get(workerId);
    if (known !== undefined) return known;
    const entry = this.#newEntry("");
    this.#workers.set(workerId, entry);
    return entry;
  }

  #newEntry(name: string): Entry {
    const group = this.#groups.get(name) ?? new MeasuredSpeeds();
    this.#groups.set(name, group);
    return { group, speeds: new MeasuredSpeeds(), told: false, pending: null };
  }
}

interface Entry {
  readonly group: MeasuredSpeeds;
  readonly speeds: MeasuredSpeeds;
  told: boolean;
  /** The last prompt; others may have been computed with it. */
  pending: { tokens: number; pairs: number; readonly ms: number } | null;
}
