import type { KvCache, PrefixMatch } from "#kvcache";
import { BlockLedger } from "./block-ledger.ts";
import type { BlockNeeds } from "./block-needs.ts";
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

/** Several prompts get at most this many times the step tokens of one prompt. */
const SEVERAL_TIMES = 4;
/**
 * From this many sequences on, prompts included, prompts are not limited: all steps are long, and
 * few steps are best.
 */
const CROWD = 32;

/** The input of a plan. */
export interface PlanningState {
  readonly config: SchedulerConfig;
  readonly cache: KvCache;
  readonly contextTokensMax: number;
  /** Plan a sequence's next token while the step that samples the one before is under way. */
  readonly overlapSteps: boolean;
  readonly estimates: TransferEstimates | null;
  readonly needs: BlockNeeds;
  /** In order of admission, the sequences of a group side by side. */
  readonly running: readonly Sequence[];
  /** In order of admission. */
  readonly waiting: Iterable<Sequence>;
  /** Sequences whose contents are in host memory, in order of return. */
  readonly swapped: Iterable<Sequence>;
  /** Seats that running leads keep for sequences that will fork from them. */
  readonly reservedSeats: number;
  /** Prompt tokens that a step may always have where sequences decode. */
  readonly prefillTokensMax: number;
  /** Rows of which a step can sample tokens: one per sequence, and one per drafted token. */
  readonly sampledRowsMax: number;
  /** Whether any sequence has had drafted tokens: a step does not look for them otherwise. */
  readonly drafts: boolean;
  readonly revision: number;
}

/** A plan under construction: the decisions so far, and the resources that they leave. */
export class PlanDraft {
  readonly state: PlanningState;
  readonly ledger: BlockLedger;
  readonly items: PlannedSequence[] = [];
  /** Swapped sequences that resume in this step. */
  readonly returning: Sequence[] = [];
  readonly loads: PlannedLoad[] = [];
  /** Tokens that the step still has room for. */
  budget: number;
  /** Of these, tokens of prompts. */
  prefillBudget: number;
  /** Sequences that may still start. */
  seats: number;
  /** Blocks that prompts under way will still take; admission must not use them. */
  reservedBlocks = 0;
  /** Drafted tokens of all items. */
  drafted = 0;
  /** A waiting sequence was left out because seats or blocks are short. */
  lacksRoom = false;
  readonly #preempted: PlannedPreemption[] = [];
  // Most plans preempt none: it is made when it is first asked for.
  #yieldingMade: Set<Sequence> | null = null;
  /** Leads that sample their first token in this step. */
  readonly #forking: Sequence[] = [];

  constructor(state: PlanningState) {
    this.state = state;
    this.ledger = new BlockLedger(state.cache);
    this.budget = state.config.stepTokensMax;
    this.seats = state.config.runningSequencesMax - state.running.length - state.reservedSeats;
    this.prefillBudget = prefillBudget(state, this.seats);
  }

  /** Running sequences that are to be preempted. */
  get yielding(): Set<Sequence> {
    this.#yieldingMade ??= new Set();
    return this.#yieldingMade;
  }

  /** Whether a sequence starts or resumes in this step. */
  get starts(): boolean {
    return this.returning.length > 0 || this.items.some(({ admission }) => admission !== null);
  }

  /** Sequences that run in this step, except those to be preempted. */
  get active(): readonly Sequence[] {
    const started = this.items.filter(({ admission }) => admission !== null);
    return [
      ...this.state.running.filter((sequence) => !this.yielding.has(sequence)),
      ...this.returning,
      ...started.map(({ sequence }) => sequence),
    ];
  }

  /** Sequences that will fork from items of this step, and sample from their rows. */
  get forkedRows(): number {
    const { runningSequencesMax } = this.state.config;
    return this.#forking.reduce((sum, { group }) => sum + group.forkSeats(runningSequencesMax), 0);
  }

  /** Seats that sequences of one group take when they start, with those of later forks. */
  seatsFor(sequences: readonly Sequence[]): number {
    const [first] = sequences;
    if (first === undefined) return 0;
    return sequences.length + first.group.forkSeats(this.state.config.runningSequencesMax);
  }

  /** Whether sequences of other groups run in this step. */
  othersRun({ group }: Sequence): boolean {
    return this.active.some((other) => other.group !== group);
  }

  /**
   * Blocks that must stay available when `count` sequences resume beside others:
   * `returnHeadroomBlocks` for each that runs then. With fewer, a sequence would soon be preempted
   * again.
   */
  headroomFor(count: number): number {
    const { config, cache } = this.state;
    return config.returnHeadroomBlocks * cache.groupCount * (this.active.length + count);
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
      drafted: this.drafted,
      revision: this.state.revision,
    };
  }

  /** Adds an item; its blocks are taken from the ledger before. */
  add(sequence: Sequence, start: number, count: number, admission: PrefixMatch | null): void {
    const end = start + count;
    const samples = end === this.knownTokens(sequence);
    this.items.push({ sequence, start, count, drafted: 0, samples, admission, forkOf: null });
    this.budget -= count;
    if (count > 1) this.prefillBudget -= count;
    if (!samples) this.reservedBlocks += this.blocksBehind(sequence, end);
    else if (end === sequence.promptLength && !sequence.group.forked) this.#forking.push(sequence);
  }

  /**
   * Preempts running sequences of one group, in order, and refunds their blocks, planned ones too.
   */
  preempt(sequences: readonly Sequence[], mode: PreemptionMode): void {
    for (const sequence of sequences) {
      this.#withdraw(sequence);
      this.ledger.drop(sequence.blockTable);
      this.yielding.add(sequence);
    }
    this.#preempted.push({ sequences, mode });
  }

  /** Blocks that move when these sequences, of one group, are swapped out or in. */
  swapBlocks(sequences: readonly Sequence[]): number {
    return this.state.cache.swapBlocks(sequences.map(({ blockTable }) => blockTable));
  }

  /** Blocks of host memory that this plan has left. */
  get hostBlocks(): number {
    const { free, cached } = this.state.cache.poolStats(1);
    let blocks = free + cached;
    for (const { sequences, mode } of this.#preempted) {
      if (mode === "swap") blocks -= this.swapBlocks(sequences);
    }
    return blocks;
  }

  get preempts(): boolean {
    return this.#preempted.length > 0;
  }

  /** Tokens that exist, or will when the steps under way end, and that the model may read. */
  knownTokens(sequence: Sequence): number {
    const { tokens, awaitedTokens } = sequence;
    const { overlapSteps, contextTokensMax } = this.state;
    if (!overlapSteps || awaitedTokens === 0 || sequence.isBeam) return tokens.length;
    // The last token's row is never computed: nothing is sampled from it.
    const { promptLength } = sequence;
    const room = generatedTokensMax(sequence.stop, { promptLength, contextTokensMax });
    return Math.min(tokens.length + awaitedTokens, promptLength + room - 1);
  }

  /** Tokens, of `count`, that a sequence may compute in this step. */
  capped(count: number): number {
    const { config, needs } = this.state;
    const longest = config.longPrefillTokensMax ?? count;
    const most = Math.min(count, longest, this.budget, needs.chunkTokens);
    if (most <= 1) return most;
    return Math.min(most, Math.max(0, this.prefillBudget));
  }

  /** Blocks to add to the sequence's table for positions below `end`. */
  newBlocks(sequence: Sequence, end: number): number {
    const { cache } = this.state;
    return cache.groupCount * Math.max(0, cache.blocksFor(end) - sequence.blockTable.length);
  }

  /** Blocks that the rest of a prompt, from `end` on, will take. */
  blocksBehind(sequence: Sequence, end: number): number {
    return this.state.needs.behind(end, sequence.tokens.length);
  }

  /**
   * Under the priority policy a victim may precede the sequence that needs its blocks: it is in the
   * plan then.
   */
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

  /** As many sequences as there are seats sample from the lead's last row; the others wait. */
  #fork(lead: Sequence): void {
    const forkOf = this.items.findIndex((item) => item.sequence === lead);
    const start = lead.promptLength;
    const seats = lead.group.forkSeats(this.state.config.runningSequencesMax);
    for (const sequence of lead.group.awaitingFork.slice(0, seats)) {
      // It computes nothing. Fields in the order of `add`: V8 reads objects of one shape faster.
      const [count, drafted, samples, admission] = [0, 0, true, null];
      this.items.push({ sequence, start, count, drafted, samples, admission, forkOf });
    }
  }
}

/**
 * The limit of prompt tokens of a step. None where no sequence decodes, or without chunked prefill.
 * One prompt gets `prefillTokensMax`, which bounds the time that it adds to a step, or as many
 * tokens as sequences decode; several get their share of the tokens to compute; from `CROWD`
 * sequences on there is no limit, since each step computes all that decode, and shorter steps would
 * be more: 256 streams at once on two cores made 577, 613 and 563 tokens a second with shares, 784,
 * 858 and 646 without, in turn.
 */
function prefillBudget(state: PlanningState, seats: number): number {
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
    if (starting++ === seats) break;
    prompts++;
    backlog += sequence.tokens.length;
  }
  if (prompts + decoding >= CROWD) return Number.POSITIVE_INFINITY;
  const share = Math.ceil((backlog * prompts) / (prompts + decoding));
  return Math.max(prefillTokensMax, decoding, Math.min(share, SEVERAL_TIMES * prefillTokensMax));
}
