/** Time between two lines of one kind. */
const PACE_MS = 10_000;

/** Most kinds remembered: kinds are the feed's own words, never a stranger's. */
const KINDS_MAX = 32;

interface Kind {
  saidMs: number;
  unsaid: number;
}

/**
 * Says the first warning of a kind at once and further ones at most every 10 s, with the number of
 * those between: a stranger that sends nonsense a thousand times a second must not fill the log.
 */
export class PacedWarnings {
  readonly #say: (message: string) => void;
  readonly #nowMs: () => number;
  readonly #kinds = new Map<string, Kind>();

  constructor(say: (message: string) => void, nowMs: () => number = () => performance.now()) {
    this.#say = say;
    this.#nowMs = nowMs;
  }

  /** Says `message`, or counts it. */
  warn(kind: string, message: string): void {
    const nowMs = this.#nowMs();
    const known = this.#kinds.get(kind);
    if (known !== undefined && nowMs - known.saidMs < PACE_MS) {
      known.unsaid++;
      return;
    }
    const more = known === undefined || known.unsaid === 0 ? "" : ` (${known.unsaid} more before)`;
    if (known === undefined && this.#kinds.size >= KINDS_MAX) this.#kinds.clear();
    this.#kinds.set(kind, { saidMs: nowMs, unsaid: 0 });
    this.#say(`${message}${more}`);
  }

  /**
   * The state that `kind` tells of has ended: the next warning of it is said at once. Not for what
   * a stranger can end and begin as often as it likes.
   */
  forget(kind: string): void {
    this.#kinds.delete(kind);
  }
}
