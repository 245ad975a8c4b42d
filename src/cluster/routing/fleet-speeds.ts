import type { Clock } from "#base";
import type { WorkerSpeeds } from "#cluster/protocol";
import { MeasuredSpeeds } from "./measured-speeds.ts";
import { RelativeSpeed } from "./relative-speed.ts";
import type { DecodeLoad, LoadObserver, PrefillWork } from "./reservation.ts";

/**
 * Workers within this factor of the whole fleet's prefill speed count as equally fast. Otherwise
 * the noise of measurement would send every prompt of an idle fleet to the same worker.
 */
const ALIKE_FACTOR = 1.15;
/** About so many samples count of a worker, and of all of a kind. */
const OWN_SAMPLES = 32;
const GROUP_SAMPLES = 256;

/** First tokens that come within this of each other were computed in one step. */
const TOGETHER_MS = 1;
/** Prompts that are measured together, where a line never ends. */
const TOGETHER_MAX = 8;

/** Speeds of every worker of a fleet, measured by what its requests took. */
export class FleetSpeeds implements LoadObserver {
  /** By kind of worker: those of one model are compared with each other. */
  readonly #groups = new Map<string, Group>();
  readonly #workers = new Map<string, Entry>();
  readonly #clock: Clock;

  /** Without a clock nothing that was measured ages. */
  constructor(clock: Clock = { nowMs: () => 0 }) {
    this.#clock = clock;
  }

  /** A worker, and the kind that it belongs to. */
  joined(workerId: string, group: string): void {
    this.#workers.set(workerId, this.#newEntry(group));
  }

  left(workerId: string): void {
    this.#workers.delete(workerId);
  }

  speedsOf(workerId: string): WorkerSpeeds {
    const { speeds, group, relative, told } = this.#entryOf(workerId);
    const nowMs = this.#clock.nowMs();
    const isOwn = told || relative.differs(group.relative, ALIKE_FACTOR, nowMs);
    return isOwn ? speeds : group.speeds;
  }

  /** A worker's own measurement of itself; null: it says nothing any more. */
  told(workerId: string, speeds: WorkerSpeeds | null): void {
    const entry = this.#entryOf(workerId);
    entry.told = speeds !== null;
    entry.speeds.told(speeds);
  }

  prefilled(workerId: string, work: PrefillWork, ms: number): void {
    const entry = this.#entryOf(workerId);
    const { tokens, pairs, follows = false } = work;
    const { pending } = entry;
    if (pending !== null && isTogether(pending, follows, ms)) {
      pending.prompts++;
      pending.tokens += tokens;
      pending.pairs += pairs;
      pending.ms += ms;
      return;
    }
    if (pending !== null) {
      const { group, relative } = entry;
      const expectedMs = group.speeds.expectedMs(pending);
      const nowMs = this.#clock.nowMs();
      for (const each of [relative, group.relative]) each.add(pending.ms, expectedMs, nowMs);
      group.speeds.prefilled(pending, pending.ms);
      entry.speeds.prefilled(pending, pending.ms);
    }
    entry.pending = { prompts: 1, tokens, pairs, ms };
  }

  decoded(workerId: string, ms: number, tokens: number, load: DecodeLoad): void {
    const { group, speeds } = this.#entryOf(workerId);
    group.speeds.decoded(ms, tokens, load);
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
    const group = this.#groups.get(name) ?? {
      speeds: new MeasuredSpeeds(),
      relative: new RelativeSpeed(GROUP_SAMPLES),
    };
    this.#groups.set(name, group);
    const relative = new RelativeSpeed(OWN_SAMPLES);
    return { group, speeds: new MeasuredSpeeds(), relative, told: false, pending: null };
  }
}

/**
 * A prompt that follows another has begun in that one's last step: alone it would seem to take a
 * part of its time, and many of them would make the worker seem fast.
 */
function isTogether({ prompts }: PromptsInLine, follows: boolean, ms: number): boolean {
  return ms < TOGETHER_MS || (follows && prompts < TOGETHER_MAX);
}

/** Workers of a kind, taken together. */
interface Group {
  readonly speeds: MeasuredSpeeds;
  /** Beside what was expected of them. */
  readonly relative: RelativeSpeed;
}

interface Entry {
  readonly group: Group;
  readonly speeds: MeasuredSpeeds;
  /** Beside what was expected of its group. */
  readonly relative: RelativeSpeed;
  told: boolean;
  /** The last prompts of its line; others may have been computed with them. */
  pending: PromptsInLine | null;
}

interface PromptsInLine {
  prompts: number;
  tokens: number;
  pairs: number;
  ms: number;
}
