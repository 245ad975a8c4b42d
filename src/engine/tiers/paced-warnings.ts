import type { Clock } from "#base";

/** At most this many of one kind are passed on … */
const TOLD_MAX = 3;
/** … in this time; a broken disk fails at every attempt. */
const WINDOW_MS = 60_000;

/** Counts of one kind since its window opened. */
interface Kind {
  sinceMs: number;
  told: number;
  /** Those that were not passed on. */
  silent: number;
}

/**
 * Passes on a few warnings of each kind per minute and counts the others; the next one of the kind
 * that is passed on, or the end, reports their number.
 */
export class PacedWarnings {
  readonly #clock: Clock;
  readonly #warn: (message: string) => void;
  readonly #kinds = new Map<string, Kind>();

  constructor(clock: Clock, warn: (message: string) => void) {
    this.#clock = clock;
    this.#warn = warn;
  }

  /** `kind` names what happened, whichever file it happened to. */
  say(kind: string, message: string): void {
    const now = this.#clock.nowMs();
    const known = this.#kinds.get(kind);
    if (known !== undefined && now - known.sinceMs < WINDOW_MS) {
      this.#sayWithin(known, message);
      return;
    }
    const more = known === undefined || known.silent === 0 ? "" : ` (and ${known.silent} more)`;
    this.#kinds.set(kind, { sinceMs: now, told: 1, silent: 0 });
    this.#warn(message + more);
  }

  /** Reports how many were only counted, one line per kind. */
  flush(): void {
    for (const [kind, { silent }] of this.#kinds) {
      if (silent > 0) this.#warn(`Disk cache: ${silent} more warnings of the kind "${kind}"`);
    }
    this.#kinds.clear();
  }

  #sayWithin(kind: Kind, message: string): void {
    if (kind.told >= TOLD_MAX) {
      kind.silent++;
      return;
    }
    kind.told++;
    this.#warn(message);
  }
}
