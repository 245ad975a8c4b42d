/** The engine's steps as bins on a timeline: few enough to be told however fast steps are. */
import type { EngineStats, StepReport } from "#engine";

/** Bins of one message. */
const BINS_MAX = 48;

/** The counts of which a step's share is what they grew by. */
type Counts = Pick<
  EngineStats,
  "computedPromptTokens" | "draftedTokens" | "acceptedTokens" | "generatedTokens"
>;

/** Steps that ended one after the other. */
export interface StepBin {
  /** When the last one ended, in ms of the server's clock. */
  endMs: number;
  steps: number;
  /** Of all: from their begin to their sampled tokens, and of planning and committing. */
  seconds: number;
  hostSeconds: number;
  /** The longest one. */
  longestSeconds: number;
  /** Tokens computed: of prompts, drafted ones, and others, each of which continues a sequence. */
  prefill: number;
  drafted: number;
  decode: number;
  accepted: number;
  /** Sequences, summed over the steps. */
  sequences: number;
}

/** Collects steps; when there are too many bins, each takes twice as many steps. */
export class StepBins {
  #bins: StepBin[] = [];
  #perBin = 1;
  #before: Counts;

  /** `counts`: at the start. */
  constructor(counts: Counts) {
    this.#before = counts;
  }

  /** Adds a step, with the counts behind it. */
  add(report: StepReport, counts: Counts, endMs: number): void {
    const last = this.#bins.at(-1);
    const bin = last !== undefined && last.steps < this.#perBin ? last : this.#begin();
    const before = this.#before;
    const prefill = Math.max(0, counts.computedPromptTokens - before.computedPromptTokens);
    const drafted = Math.max(0, counts.draftedTokens - before.draftedTokens);
    bin.endMs = endMs;
    bin.steps++;
    bin.seconds += report.seconds;
    bin.hostSeconds += report.planSeconds;
    bin.longestSeconds = Math.max(bin.longestSeconds, report.seconds);
    bin.prefill += prefill;
    bin.drafted += drafted;
    bin.decode += Math.max(0, report.stepTokens - prefill - drafted);
    bin.accepted += Math.max(0, counts.acceptedTokens - before.acceptedTokens);
    bin.sequences += report.sequences;
    this.#before = counts;
  }

  /** The bins since the last call, the oldest first. */
  take(): readonly StepBin[] {
    const bins = this.#bins;
    this.#bins = [];
    this.#perBin = 1;
    return bins;
  }

  #begin(): StepBin {
    if (this.#bins.length === BINS_MAX) this.#halve();
    const bin = emptyBin();
    this.#bins.push(bin);
    return bin;
  }

  #halve(): void {
    const halves: StepBin[] = [];
    for (let at = 0; at < this.#bins.length; at += 2) {
      const [left, right] = this.#bins.slice(at, at + 2);
      if (left !== undefined) halves.push(right === undefined ? left : joined(left, right));
    }
    this.#bins = halves;
    this.#perBin *= 2;
  }
}

function emptyBin(): StepBin {
  return {
    ...{ endMs: 0, steps: 0, seconds: 0, hostSeconds: 0, longestSeconds: 0 },
    ...{ prefill: 0, drafted: 0, decode: 0, accepted: 0, sequences: 0 },
  };
}

function joined(left: StepBin, right: StepBin): StepBin {
  return {
    endMs: right.endMs,
    steps: left.steps + right.steps,
    seconds: left.seconds + right.seconds,
    hostSeconds: left.hostSeconds + right.hostSeconds,
    longestSeconds: Math.max(left.longestSeconds, right.longestSeconds),
    prefill: left.prefill + right.prefill,
    drafted: left.drafted + right.drafted,
    decode: left.decode + right.decode,
    accepted: left.accepted + right.accepted,
    sequences: left.sequences + right.sequences,
  };
}
