/** What the page keeps of the messages `now`: rates, series, the last steps and requests. */
import type { EndedRow, NowMessage, StepRow, Totals } from "../messages.ts";
import { Series } from "../series.ts";

/** Two minutes of messages. */
const POINTS = 480;
const STEPS_KEPT = 2048;
const ENDED_KEPT = 24;
/** Rates are over this time. */
const RATE_MS = 1000;

/** Columns of `NowState.series`. */
export const COLUMN = {
  seconds: 0,
  generated: 1,
  computed: 2,
  cached: 3,
  running: 4,
  waiting: 5,
  ttft50: 6,
  ttft99: 7,
  gap50: 8,
  gap99: 9,
  device: 10,
  host: 11,
} as const;

/** Tokens a second. */
export interface Rates {
  readonly generated: number;
  /** Prompt tokens that were computed, and those that the cache had. */
  readonly computed: number;
  readonly cached: number;
  readonly drafted: number;
  readonly accepted: number;
  readonly steps: number;
}

const NO_RATES: Rates = {
  ...{ generated: 0, computed: 0, cached: 0, drafted: 0, accepted: 0, steps: 0 },
};

interface Moment {
  readonly ms: number;
  readonly totals: Totals;
}

/** An ended request, and when its message came. */
export interface Ended {
  readonly ms: number;
  readonly row: EndedRow;
}

export class NowState {
  readonly series: Series = new Series(Object.keys(COLUMN).length, POINTS);
  /** The newest message. */
  last: NowMessage | null = null;
  rates: Rates = NO_RATES;
  /** The last steps, the oldest first. */
  steps: StepRow[] = [];
  /** The last requests that ended, the newest first. */
  ended: Ended[] = [];
  #moments: Moment[] = [];

  take(message: NowMessage): void {
    // A server that began anew has another clock and other counts.
    if (this.last !== null && message.ms < this.last.ms) this.#forget();
    this.last = message;
    this.steps = [...this.steps, ...message.steps].slice(-STEPS_KEPT);
    const ended = message.ended.map((row) => ({ ms: message.ms, row })).reverse();
    this.ended = [...ended, ...this.ended].slice(0, ENDED_KEPT);
    this.#moments.push({ ms: message.ms, totals: message.totals });
    while (this.#moments.length > 2 && message.ms - (this.#moments[1]?.ms ?? 0) >= RATE_MS) {
      this.#moments.shift();
    }
    this.rates = this.#ratesNow();
    this.#note(message);
  }

  #note({ ms, running, waiting, firstToken, gap, steps }: NowMessage): void {
    const { generated, computed, cached } = this.rates;
    const done = sum(steps, 1);
    const seconds = done === 0 ? Number.NaN : sum(steps, 2) / done;
    const host = done === 0 ? Number.NaN : sum(steps, 3) / done;
    const milli = (value: number | null) => (value === null ? Number.NaN : value * 1000);
    this.series.push(
      ...[ms / 1000, generated, computed, cached, running, waiting],
      ...[milli(firstToken.p50), milli(firstToken.p99), milli(gap.p50), milli(gap.p99)],
      ...[seconds * 1000, host * 1000],
    );
  }

  #ratesNow(): Rates {
    const [first] = this.#moments;
    const last = this.#moments.at(-1);
    if (first === undefined || last === undefined || last.ms <= first.ms) return NO_RATES;
    const seconds = (last.ms - first.ms) / 1000;
    const grown = (name: keyof Totals) =>
      Math.max(0, last.totals[name] - first.totals[name]) / seconds;
    return {
      generated: grown("generatedTokens"),
      computed: grown("computedPromptTokens"),
      cached: grown("cachedPromptTokens"),
      drafted: grown("draftedTokens"),
      accepted: grown("acceptedTokens"),
      steps: grown("steps"),
    };
  }

  #forget(): void {
    this.series.clear();
    this.#moments = [];
    this.steps = [];
    this.ended = [];
  }
}

function sum(rows: readonly StepRow[], column: number): number {
  return rows.reduce((total, row) => total + (row[column] ?? 0), 0);
}
