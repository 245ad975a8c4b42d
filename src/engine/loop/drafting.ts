import { assert, TREE_NODES_MAX } from "#base";
import type { LoopStats } from "#engine/protocol";
import type { Scheduler, Sequence, SequenceUpdate } from "#scheduler";
import {
  isChain,
  KindAcceptance,
  type LikelyBranch,
  SequenceAcceptance,
  UnusedRest,
  type VerifiedDraft,
} from "#speculative";
import type { DraftPolicy, WholeOffer } from "./draft-policy.ts";
import { ForesightPolicy } from "./foresight-policy.ts";
import { HostTails } from "./host-tails.ts";
import type { NetworkShape } from "./kind-costs.ts";
import type { ItemResult } from "./model-runner.ts";
import type { DraftContext, SequenceDrafter } from "./sequence-drafter.ts";
import type { SequenceTask } from "./sequence-task.ts";
import type { ComputedStep } from "./step-pipeline.ts";

type DraftCounts = Pick<
  LoopStats,
  "drafts" | "draftedTokens" | "acceptedTokens" | "acceptedPerPosition"
>;

/** A sequence that is drafted for. */
interface Drafted {
  readonly sequence: Sequence;
  readonly task: SequenceTask;
  /** By kind of drafts. */
  readonly acceptances: Map<string, SequenceAcceptance>;
}

/** A verified draft, and what is to learn from it. */
interface UnsettledDraft extends VerifiedDraft {
  readonly acceptance: SequenceAcceptance;
}

/** A draft that a step may verify. */
interface Offer {
  readonly known: Drafted;
  /** Its drafted tokens. */
  readonly nodes: number;
}

/**
 * Masks of grammars behind drafted tokens that one step makes at most. One takes some 50 µs, and
 * never more than a ms: slow grammars have no drafts.
 */
const MASKS_MAX = 128;

/** Sequences that are all looked up for in each step, and the most tokens between look-ups. */
const TURN = { sequences: 4, most: 8 };

export interface DraftingParts {
  readonly scheduler: Pick<Scheduler, "propose">;
  /** Decides how much is drafted and verified; null: all is. */
  readonly policy: StepPolicy | null;
}

/** What decides how much of the drafts a step verifies. */
export type StepPolicy = Pick<
  DraftPolicy,
  "triesNetwork" | "record" | "allot" | "looks" | "drafts"
>;

/** Proposes drafts to the scheduler as sequences grow, and counts what became of them. */
export class Drafting {
  readonly #scheduler: DraftingParts["scheduler"];
  /** Null: all that is drafted is proposed. */
  readonly #policy: StepPolicy | null;
  readonly #foresight = new ForesightPolicy();
  /** Whether drafts are made for sequences under a grammar. */
  #foresees = true;
  /** What of the newest step's drafts is computed while the next one is measured; null: nothing. */
  #behind: NetworkShape | null = null;
  readonly #tails = new HostTails();
  /** Whether the step before drafted or verified drafts; null: it did not only decode. */
  #before: boolean | null = null;
  /** Sequences under a grammar that grew since the last step was measured. */
  #constrained = 0;
  readonly #kinds = new Map<string, KindAcceptance>();
  readonly #drafted = new Map<Sequence, Drafted>();
  /** That the newest step sampled for. */
  #sequences = 0;
  /** Most nodes that a network drafts for a sequence. */
  #drafts = TREE_NODES_MAX;
  /** The same of the sequences that run: 0 where none of them has a network. */
  #networkNodes = TREE_NODES_MAX;
  /** While nothing of any draft is used, few steps have drafts to weigh. */
  readonly #rest = new UnusedRest();
  /** The newest decision of `#rest`. */
  #weighs = true;
  /** Sequences when drafts were weighed last. */
  #weighed = 0;
  readonly #counts = { drafts: 0, draftedTokens: 0, acceptedTokens: 0 };
  readonly #perPosition: number[] = [];
  /** Verified drafts that are not counted yet. */
  #unsettled: UnsettledDraft[] = [];

  constructor({ scheduler, policy }: DraftingParts) {
    this.#scheduler = scheduler;
    this.#policy = policy;
  }

  counts(): DraftCounts {
    this.settle();
    return { ...this.#counts, acceptedPerPosition: [...this.#perPosition] };
  }

  /** Takes note of how long a step took, if it only decoded. */
  measure({ plan, outcome, stepMs, sinceLastMs }: ComputedStep): void {
    const before = this.#before;
    this.#before = null;
    if (this.#policy === null || this.#drafted.size === 0) return;
    const isConstrained = this.#constrained > 0;
    const foresaw = isConstrained && this.#foresees;
    this.#constrained = 0;
    const behind = this.#behind;
    this.#behind = "results" in outcome ? lateShape(outcome.results) : null;
    let sequences = 0;
    let decodes = true;
    for (const { count, samples } of plan.items) {
      if (samples) sequences++;
      if (count !== 1 || !samples) decodes = false;
    }
    this.#sequences = sequences;
    if (before !== null && sinceLastMs !== null) {
      this.#tails.record({ drafts: before, foresaw }, sinceLastMs - stepMs);
    }
    if (!decodes || sinceLastMs === null || "error" in outcome) return;
    let accepted = 0;
    let network = behind;
    for (const { drafted: verified = 0, tokenIds, draft } of outcome.results) {
      if (verified > 0) accepted += tokenIds.length - 1;
      if (draft === undefined || this.#behind !== null || network === "tree") continue;
      network = draft === null || isChain(draft) ? "chain" : "tree";
    }
    const { drafted } = plan;
    this.#before = drafted > 0 || network !== null;
    const ms = stepMs + (this.#tails.of({ drafts: this.#before, foresaw }) ?? sinceLastMs - stepMs);
    this.#policy.record({ sequences, drafted, network, accepted, foresaw }, ms);
    if (!isConstrained) return;
    this.#foresight.record({ sequences, tokens: sequences + accepted, foresaw }, ms);
    this.#foresees = this.#foresight.decide(sequences);
  }

  /** Takes note of a step's tokens of a sequence, and of the draft of what follows them. */
  grown({ sequence, tokenIds }: SequenceUpdate, task: SequenceTask, result?: ItemResult): void {
    const { drafter } = task;
    if (drafter === null) return;
    const known = this.#knownOf(sequence, task);
    const { drafted = 0, draft: made = null } = result ?? {};
    if (drafted > 0) {
      const accepted = tokenIds.length - 1;
      const { draft: tree } = task;
      assert(tree !== null, "Cannot count a draft that is not there");
      const acceptance = this.#acceptanceOf(known, drafter.kind);
      const { likelyTokens: firstBranch, matched } = drafter;
      this.#unsettled.push({ acceptance, tree, firstBranch, matched, drafted, tokenIds });
      drafter.verified(drafted, accepted);
    }
    const { sampling } = task;
    task.draft = null;
    if (sequence.finished || sampling === null) return;
    if (sampling.constrained) this.#constrained++;
    const { rests } = this.#rest;
    const adaptive = this.#policy !== null;
    const followed = adaptive ? drafter.follow(sequence, this.#turnTokens) : null;
    if (followed !== null) this.#acceptanceOf(known, followed.kind).followed(followed);
    if (!this.#weighs && made === null) return;
    const expected: DraftContext["expected"] = (draft, by) =>
      this.#acceptanceOf(known, by.kind).expected(draft, likelyBranch(by));
    const triesNetwork = this.#policy?.triesNetwork ?? false;
    const foresees = this.#foresees;
    const context = { sampling, foresees, rests, adaptive, triesNetwork, expected };
    task.draft = drafter.next(sequence, made, context);
  }

  /**
   * Counts drafts that grew sequences since the last call, and learns from them: once the next step
   * has begun, which need not wait for that.
   */
  settle(): void {
    for (const { acceptance, ...draft } of this.#unsettled) {
      acceptance.verified(draft);
      const { tree, drafted, tokenIds } = draft;
      const depth = Math.max(...tree.depths.subarray(0, 1 + drafted));
      this.#count({ drafted, accepted: tokenIds.length - 1, depth });
    }
    this.#unsettled = [];
  }

  /** One token in so many is looked up: of many sequences that would take as long as a step. */
  get #turnTokens(): number {
    return this.#rest.rests
      ? TURN.most
      : Math.min(TURN.most, Math.ceil(this.#drafted.size / TURN.sequences));
  }

  /** Decides what the next step verifies, and whether a network drafts behind it. */
  allot(): void {
    if (this.#drafted.size === 0) return;
    if (!this.#weighs) {
      this.#weighs = this.#rest.drafts();
      return;
    }
    const all = this.#running();
    const sequences = Math.max(this.#sequences, all.length);
    const offers: Offer[] = [];
    for (const known of all) {
      const nodes = (known.task.draft?.tokens.length ?? 1) - 1;
      if (nodes > 0) offers.push({ known, nodes });
    }
    const wanted = this.#wanted(offers, sequences);
    const isRare = this.#rest.rests;
    let masks = MASKS_MAX;
    let used = 0;
    offers.forEach(({ known }, place) => {
      const isConstrained = known.task.sampling?.constrained === true;
      const nodes = Math.min(wanted[place] ?? 0, isConstrained ? masks : Number.POSITIVE_INFINITY);
      if (isConstrained) masks -= nodes;
      used += nodes;
      this.#propose(known, nodes);
    });
    if (this.#policy === null) return;
    if (this.#policy.looks(this.#drafts > 0, isRare)) this.#look(this.#policy, all, sequences);
    this.#restAfter(used + this.#networkNodes, sequences);
  }

  /** Takes note of how many drafted nodes are used: of none for long, few steps have any. */
  #restAfter(used: number, sequences: number): void {
    const isAlike = Math.abs(this.#weighed - sequences) * 8 <= sequences;
    this.#weighed = sequences;
    if (used > 0 || !isAlike) this.#rest.used();
    else this.#rest.made();
    this.#weighs = this.#rest.drafts();
  }

  /** How many nodes of each draft are worth their rows. */
  #wanted(offers: readonly Offer[], sequences: number): readonly number[] {
    if (this.#policy === null) return offers.map(({ nodes }) => nodes);
    let network: NetworkShape | null = null;
    const survivals = offers.map(({ known }) => {
      const { draft, drafter } = known.task;
      assert(draft !== null && drafter !== null, "Cannot weigh a draft that is not there");
      if (network !== "tree" && drafter.whole?.kind === drafter.kind) {
        network = draft.tokens.length > 1 + drafter.likelyTokens ? "tree" : "chain";
      }
      const acceptance = this.#acceptanceOf(known, drafter.kind);
      return acceptance.survivals(draft, likelyBranch(drafter));
    });
    return this.#policy.allot(survivals, { sequences, network, foresaw: this.#foresaw });
  }

  /** Decides whether a network drafts behind the next steps. */
  #look(policy: StepPolicy, all: readonly Drafted[], sequences: number): void {
    const wanting: SequenceDrafter[] = [];
    const offers: WholeOffer[] = [];
    for (const known of all) {
      const { drafter } = known.task;
      const whole = drafter?.whole ?? null;
      if (whole === null || drafter === null) continue;
      wanting.push(drafter);
      const { firstBranch } = whole;
      const survivals = this.#acceptanceOf(known, whole.kind).survivals(whole, { firstBranch });
      offers.push({ survivals, firstBranch });
    }
    this.#networkNodes = 0;
    if (wanting.length === 0) return;
    const nodes = policy.drafts(offers, { sequences, foresaw: this.#foresaw });
    wanting.forEach((drafter, place) => {
      drafter.allow(nodes[place] ?? 0);
    });
    this.#drafts = Math.max(...nodes);
    this.#networkNodes = this.#drafts;
  }

  /** Whether drafts of sequences under a grammar were made behind the newest step. */
  get #foresaw(): boolean {
    return this.#constrained > 0 && this.#foresees;
  }

  /** A sequence ended, also where it was aborted. */
  ended(sequence: Sequence): void {
    this.#drafted.delete(sequence);
  }

  /** A sequence was queued: whatever was decided for others is so for it, too. */
  begun({ drafter }: SequenceTask): void {
    drafter?.allow(this.#drafts);
  }

  #running(): readonly Drafted[] {
    const found: Drafted[] = [];
    for (const known of this.#drafted.values()) {
      if (known.sequence.state.phase === "decoding") found.push(known);
    }
    return found;
  }

  #knownOf(sequence: Sequence, task: SequenceTask): Drafted {
    const known = this.#drafted.get(sequence) ?? { sequence, task, acceptances: new Map() };
    this.#drafted.set(sequence, known);
    return known;
  }

  #acceptanceOf({ acceptances }: Drafted, kind: string): SequenceAcceptance {
    const known = acceptances.get(kind);
    if (known !== undefined) return known;
    const rates = this.#kinds.get(kind) ?? new KindAcceptance();
    this.#kinds.set(kind, rates);
    const acceptance = new SequenceAcceptance(rates);
    acceptances.set(kind, acceptance);
    return acceptance;
  }

  #propose({ sequence, task }: Drafted, nodes: number): void {
    const likely = Math.min(nodes, task.drafter?.likelyTokens ?? 0);
    this.#scheduler.propose(sequence.id, nodes, likely);
    task.drafter?.proposed(nodes);
  }

  /** `depth`: of the deepest drafted node. */
  #count({ drafted, accepted, depth }: Record<"drafted" | "accepted" | "depth", number>): void {
    this.#counts.drafts++;
    this.#counts.draftedTokens += drafted;
    this.#counts.acceptedTokens += accepted;
    while (this.#perPosition.length < depth) this.#perPosition.push(0);
    for (let place = 0; place < accepted; place++) {
      this.#perPosition[place] = (this.#perPosition[place] ?? 0) + 1;
    }
  }
}

/** Of a drafter's newest draft. */
function likelyBranch({ likelyTokens: firstBranch, matched }: SequenceDrafter): LikelyBranch {
  return { firstBranch, matched };
}

/** The shape of those drafts whose tokens the device alone has; null: there are none. */
function lateShape(results: readonly ItemResult[]): NetworkShape | null {
  let shape: NetworkShape | null = null;
  for (const { draft } of results) {
    if (draft?.late === undefined) continue;
    if (!isChain(draft)) return "tree";
    shape = "chain";
  }
  return shape;
}
