import { assert } from "#base";
import type { Sequence } from "./sequence.ts";
import { WAITING_FOR_FORK } from "./sequence-state.ts";

/** The part of all seats that one request's samples may have. */
const SAMPLES_SHARE = 0.75;

/** The relation of a group's sequences. */
export type GroupKind =
  /** Independent samples of one prompt (`n`). */
  | "samples"
  /** Hypotheses of one beam search: they step together, and are regrouped behind each step. */
  | "beams";

/** The parts of a group. */
export interface SequenceGroupOptions {
  readonly requestId: string;
  /** At least one; all of the same prompt, scope, priority and arrival. */
  readonly sequences: readonly Sequence[];
  /** Default: samples. */
  readonly kind?: GroupKind;
}

/**
 * The sequences of one request. The lead alone waits and computes the prompt; when its first token
 * is sampled the others fork: they share all its blocks and sample their first token from the same
 * row. Where a sequence was begun elsewhere each computes all tokens by itself, as after a
 * preemption, and finds the blocks of the others (SC32).
 */
export class SequenceGroup {
  readonly requestId: string;
  readonly sequences: readonly Sequence[];
  readonly kind: GroupKind;
  /** The sequence that computes the prompt; replaced when it ends before the fork. */
  lead: Sequence;
  /**
   * The lead's first token is sampled, or being sampled, or sequences were begun elsewhere: none
   * waits for a fork any more.
   */
  forked: boolean;
  /** Its reader is behind: nothing is computed for it. Set by `SequenceBooks`. */
  paused = false;

  constructor(options: SequenceGroupOptions) {
    const { requestId, sequences, kind } = options;
    const [lead, ...others] = sequences;
    assert(lead !== undefined, "Cannot make a group without sequences");
    this.requestId = requestId;
    this.sequences = sequences;
    this.kind = kind ?? "samples";
    this.lead = lead;
    for (const sequence of sequences) {
      assert(sequence.promptLength === lead.promptLength, "A group has one prompt");
      sequence.join(this);
    }
    this.forked = sequences.some(({ generatedTokens }) => generatedTokens > 0);
    if (this.forked) return;
    for (const sequence of others) sequence.state = WAITING_FOR_FORK;
  }

  /** A request of one sequence. */
  static of(sequence: Sequence): SequenceGroup {
    return new SequenceGroup({ requestId: sequence.requestId, sequences: [sequence] });
  }

  /** Sequences that have not ended. */
  get live(): readonly Sequence[] {
    return this.sequences.filter((sequence) => !sequence.finished);
  }

  /** Live sequences that fork from the lead when it samples its first token, in order. */
  get awaitingFork(): readonly Sequence[] {
    if (this.forked) return [];
    return this.sequences.filter((sequence) => sequence !== this.lead && !sequence.finished);
  }

  /** Seats that the lead keeps, of `most` in all, for sequences that will fork from it. */
  forkSeats(most: number): number {
    return this.forked ? 0 : Math.min(this.awaitingFork.length, this.seatsMax(most) - 1);
  }

  /** Seats that it may have of `most`: samples leave a quarter to others, beams run together. */
  seatsMax(most: number): number {
    return this.kind === "beams" ? most : Math.ceil(SAMPLES_SHARE * most);
  }
}
