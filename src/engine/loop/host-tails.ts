import { assert } from "#base";

/** Tails that are remembered of each kind: a disturbed one among them changes little. */
const REMEMBERED = 7;

/** What a tail's length depends on. */
export interface TailKind {
  /** The step before it drafted or verified drafts. */
  readonly drafts: boolean;
  /** Drafts were made for sequences under a grammar in it. */
  readonly foresaw: boolean;
}

/**
 * What the host does between a step's end and the beginning of the next: it takes results in and
 * passes them on, more of them where drafts were accepted. That is a cost of the step that ended,
 * but is not over when it is measured. So steps are charged the median of such tails before. Where
 * steps begin ahead, tails take no time.
 */
export class HostTails {
  readonly #kinds: number[][] = [[], [], [], []];

  /** `ms`: of the newest tail. */
  record(kind: TailKind, ms: number): void {
    const tails = this.#tailsOf(kind);
    if (tails.length === REMEMBERED) tails.shift();
    tails.push(ms);
  }

  /** Null: none was measured. */
  of(kind: TailKind): number | null {
    const sorted = [...this.#tailsOf(kind)].sort((a, b) => a - b);
    return sorted[sorted.length >> 1] ?? null;
  }

  #tailsOf({ drafts, foresaw }: TailKind): number[] {
    const tails = this.#kinds[(drafts ? 1 : 0) + (foresaw ? 2 : 0)];
    assert(tails !== undefined, "There are four kinds of tails");
    return tails;
  }
}
