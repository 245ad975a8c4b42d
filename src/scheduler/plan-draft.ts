import type { KvCache, PrefixMatch } from "#kvcache";
import { BlockLedger } from "./block-ledger.ts";
import type { SchedulerConfig } from "./config.ts";
import type {
  PlannedLoad,
  PlannedPreemption,
  PlannedSequence,
  PreemptionMode,
  StepPlan,
} from "./plan.ts";
import type { Sequence } from "./sequence.ts";
import { generatedTokensMax } from "./stop.ts";
import type { TransferEstimates } from "./transfer-estimates.ts";
import type { WindowBound } from "./window-bound.ts";

/** Several prompts take at most so many times what one may have of a step. */
const SEVERAL_TIMES = 4;
/** So many sequences, prompts among them, are a crowd: all its steps are long, and few is best. */
const CROWD = 32;

/** What a plan is made from. */
export interface PlanningState {
  readonly config: SchedulerConfig;
  readonly cache: KvCache;
  readonly contextTokensMax: number;
  /** Plan a sequence's next token while the step that draws the one before is under way. */
  readonly overlapSteps: boolean;
  readonly estimates: TransferEstimates | null;
  /** What a sequence needs of a pool whose blocks fall out of a window; null: they do not. */
  readonly windowBound: WindowBound | null;
  /** In order of admission, the sequences of a group side by side. */
  readonly running: readonly Sequence[];
  /** In order of admission. */
  readonly waiting: Iterable<Sequence>;
  /** Those whose contents are in host memory, in order of return. */
  readonly swapped: Iterable<Sequence>;
  /** Slots that running leads keep for those that will fork from them. */
  readonly reservedSlots: number;
  /** Prompt tokens that a step may have for sure where sequences decode. */
  readonly prefillTokensMax: number;
  readonly revision: number;
}

/** A plan under construction: what is decided so far, and what that leaves to decide over. */
export class PlanDraft {
  readonly state: PlanningState;
  readonly ledger: BlockLedger;
  readonly items: PlannedSequence[] = [];
  /** Running sequences that give way. */
  readonly yielding = new Set<Sequence>();
  /** Sequences that run from this step on. */
  readonly returning: Sequence[] = [];
  readonly loads: PlannedLoad[] = [];
  /** Tokens that the step still has room for. */
  budget: number;
  /** Of these, tokens of prompts. */
  prefillBudget: number;
  /** Sequences that may still start. */
  slots: number;
  /** Blocks that prompts under way will yet take; admission leaves them alone. */
  reservedBlocks = 0;
  /** Somebody who waits was left out because slots or blocks are short. */
  lacksRoom = false;
  readonly #preempted: PlannedPreemption[] = [];
  /** Groups whose lead draws its first token in this step. */
  readonly #forking: Sequence[] = [];

  constructor(state: PlanningState) {
    this.state = state;
    this.ledger = new BlockLedger(state.cache);
    this.budget = state.config.stepTokensMax;
    this.slots = state.config.runningSequencesMax - state.running.length - state.reservedSlots;
    this.prefillBudget = prefillBudget(state, this.slots);
  }

  /** Whether somebody who did not run does so from this step on. */
  get starts(): boolean {
    return this.returning.length > 0 || this.items.some(({ admission }) => admission !== null);
  }

  /** Sequences that run in this step, but for those that give way. */
  get active(): readonly Sequence[] {
    const started = this.items.filter(({ admission }) => admission !== null);
    return [
      ...this.state.running.filter((sequence) => !this.yielding.has(sequence)),
      ...this.returning,
      ...started.map(({ sequence }) => sequence),
    ];
  }

  /** Slots that sequences of one group take when they start, with those that will fork. */
  slotsFor(sequences: readonly Sequence[]): number {
    const [first] = sequences;
    if (first === undefined) return 0;
    return sequences.length + first.group.forkSlots(this.state.config.runningSequencesMax);
  }

  /** Whether sequences of other groups run in this step. */
  othersRun({ group }: Sequence): boolean {
    return this.active.some((other) => other.group !== group);
  }

  /**
   * Blocks that must stay available when `count` sequences come back beside others: so many for
   * each that runs then. With fewer, somebody would have to give way again soon.
   */
  headroomFor(count: number): number {
    return this.state.config.returnHeadroomBlocks * (this.active.length + count);
  }

  finish(): StepPlan {
    const tokens = this.state.config.stepTokensMax - this.budget;
    for (const lead of this.#forking) this.#fork(lead);
    return {
      items: this.items,
      preempted: this.#preempted,
      returning: this.returning,
      loads: this.loads,
      tokens,
      revision: this.state.revision,
    };
  }

  /** Adds an item; its blocks are taken from the ledger before. */
  add(sequence: Sequence, start: number, count: number, admission: PrefixMatch | null): void {
    const end = start + count;
    const samples = end === this.knownTokens(sequence);
    this.items.push({ sequence, start, count, samples, admission, forkOf: null });
    this.budget -= count;
    if (count > 1) this.prefillBudget -= count;
    if (!samples) this.reservedBlocks += this.blocksBehind(sequence, end);
    else if (end === sequence.promptLength && !sequence.group.forked) this.#forking.push(sequence);
  }

  /** Running sequences of one group, in order, give their blocks back, planned ones too. */
  preempt(sequences: readonly Sequence[], mode: PreemptionMode): void {
    for (const sequence of sequences) {
      this.#withdraw(sequence);
      this.ledger.drop(sequence.blockTable);
      this.yielding.add(sequence);
    }
    this.#preempted.push({ sequences, mode });
  }

  /** Blocks that move when these sequences, of one group, go to host memory or come back. */
  swapBlocks(sequences: readonly Sequence[]): number {
    return this.state.cache.swapBlocks(sequences.map(({ blockTable }) => blockTable));
  }

  /** Blocks of host memory that this plan has left. */
  get hostBlocks(): number {
    const { free, cached } = this.state.cache.counts(1);
    let blocks = free + cached;
    for (const { sequences, mode } of this.#preempted) {
      if (mode === "swap") blocks -= this.swapBlocks(sequences);
    }
    return blocks;
  }

  get preempts(): boolean {
    return this.#preempted.length > 0;
  }

  /** Tokens there are, or will be when the steps under way end, and that the model may read. */
  knownTokens(sequence: Sequence): number {
    const { tokens, awaitedTokens } = sequence;
    const { overlapSteps, contextTokensMax } = this.state;
    if (!overlapSteps || awaitedTokens === 0 || sequence.isBeam) return tokens.length;
    // The last token's row is never computed: nothing is drawn from it.
    const { promptLength } = sequence;
    const room = generatedTokensMax(sequence.stop, { promptLength, contextTokensMax });
    return Math.min(tokens.length + awaitedTokens, promptLength + room - 1);
  }

  /** What of `count` tokens a sequence may have computed in this step. */
  capped(count: number): number {
    const { config, windowBound } = this.state;
    const longest = config.longPrefillTokensMax ?? count;
    const most = Math.min(count, longest, this.budget, windowBound?.chunkTokens ?? count);
    if (most <= 1) return most;
    return Math.min(most, Math.max(0, this.prefillBudget));
  }

  /** Blocks that a sequence of `tokens` holds at most at a time until all are computed. */
  blocksAtOnce(tokens: number): number {
    const { cache, windowBound } = this.state;
    return Math.min(cache.blocksFor(tokens), windowBound?.blocks ?? Number.POSITIVE_INFINITY);
  }

  /** Blocks to add to the sequence's table for positions below `end`. */
  newBlocks(sequence: Sequence, end: number): number {
    return Math.max(0, this.state.cache.blocksFor(end) - sequence.blockTable.length);
  }

  /** Blocks that the rest of a prompt, from `end` on, will take. */
  blocksBehind(sequence: Sequence, end: number): number {
    const { cache, windowBound } = this.state;
    const rest = Math.max(0, cache.blocksFor(sequence.tokens.length) - cache.blocksFor(end));
    if (windowBound === null || rest === 0) return rest;
    // What falls out of the window makes room for the rest.
    const { from, to } = cache.unseenBlocks(end);
    return Math.min(rest, Math.max(0, windowBound.blocks - (cache.blocksFor(end) - (to - from))));
  }

  /** By priority a victim may have come before whom it makes room for: it is in the plan then. */
  #withdraw(victim: Sequence): void {
    const index = this.items.findIndex((item) => item.sequence === victim);
    const [planned] = index < 0 ? [] : this.items.splice(index, 1);
    if (planned === undefined) return;
    const end = planned.start + planned.count;
    this.budget += planned.count;
    if (planned.count > 1) this.prefillBudget += planned.count;
    this.reservedBlocks -= this.blocksBehind(victim, end);
    this.ledger.refund(this.newBlocks(victim, end));
    this.ledger.undoCopy(victim.blockTable);
    const fork = this.#forking.indexOf(victim);
    if (fork >= 0) this.#forking.splice(fork, 1);
  }

  /** As many as there are slots for draw from the lead's last row; the others wait their turn. */
  #fork(lead: Sequence): void {
    const forkOf = this.items.findIndex((item) => item.sequence === lead);
    const start = lead.promptLength;
    const slots = lead.group.forkSlots(this.state.config.runningSequencesMax);
    for (const sequence of lead.group.awaitingFork.slice(0, slots)) {
      this.items.push({ sequence, start, count: 0, samples: true, admission: null, forkOf });
    }
  }
}

/**
 * Prompts wait for nobody where nobody decodes; and what cannot come in pieces comes whole. One
 * prompt gets what adds no more time to a step than it may, or as many tokens as decode; several
 * get their share of what there is to compute; a crowd gets all, since each step computes all that
 * decode, and shorter ones would be more: 256 streams at once on two cores made 577, 613 and 563
 * tokens a second with shares, 784, 858 and 646 without, in turn.
 */
function prefillBudget(state: PlanningState, slots: number): number {
  const { config, running, waiting, prefillTokensMax } = state;
  if (!Number.isFinite(prefillTokensMax) || !config.chunkedPrefill) return Number.POSITIVE_INFINITY;
  let [decoding, prompts, backlog, starting] = [0, 0, 0, 0];
  for (const sequence of running) {
    if (sequence.group.paused || sequence.held) continue;
    if (sequence.state.phase === "decoding") {
      decoding++;
    } else {
      prompts++;
      backlog += sequence.tokens.length - sequence.computedTokens;
    }
  }
  if (decoding === 0) return Number.POSITIVE_INFINITY;
  for (const sequence of waiting) {
    if (starting++ === slots) break;
    prompts++;
    backlog += sequence.tokens.length;
  }
  if (prompts + decoding >= CROWD) return Number.POSITIVE_INFINITY;
  const share = Math.ceil((backlog * prompts) / (prompts + decoding));
  return Math.max(prefillTokensMax, decoding, Math.min(share, SEVERAL_TIMES * prefillTokensMax));
}
