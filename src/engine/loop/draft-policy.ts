import { budgetOf, type DraftShape, type NodeBudget, StepCosts } from "#speculative";
import { TREE_NODES_MAX } from "./sequence-drafter.ts";

/** Plain steps of a number of sequences that are measured before any draft is verified. */
const PLAIN_FIRST = 3;
/** A plain step is measured again after so many steps with drafts: while few were, and later. */
const PLAIN_EVERY = { few: 16, many: 128 };
/** So many plain steps are no longer few. */
const PLAIN_MANY = 7;
/** How fast earlier expectations fade, and how many tokens they weigh as much as at first. */
const CALIBRATION = { fading: 0.97, weight: 8 };
/** Drafts are verified where that makes steps quicker by this at least: less may be noise. */
const GAIN_MIN = 1.03;
/** Drafted tokens of the first step that has any; later ones at most double them. */
const NODES_FIRST = 4;
/** Where drafts do not pay, tries take this share of the time. */
const TRIES_SHARE = 0.01;
/** Steps between tries, at least and at most. */
const PAUSE = { least: 8, most: 1024 };

/** A step as far as its cost is concerned. */
export interface MeasuredStep {
  readonly sequences: number;
  readonly drafted: number;
  /** Whether a network drafted behind it. */
  readonly network: boolean;
  /** Drafted tokens that were accepted. */
  readonly accepted: number;
}

/** The next step, as far as it is known. */
type PlannedStep = Pick<MeasuredStep, "sequences" | "network">;

/**
 * Decides how much of what is drafted is verified, over all sequences of a step, and whether a
 * network drafts at all: by measured durations of steps and by what was accepted so far. What is
 * slower than plain steps is left out, and tried again now and then.
 */
export class DraftPolicy {
  /** Of steps behind which a network drafts, its time included, and of others. */
  readonly #costs = { network: new StepCosts(), others: new StepCosts() };
  readonly #sampledRowsMax: number;
  #sincePlain = 0;
  /** Drafted tokens of the newest budget that are expected to be accepted. */
  #expected = 0;
  /**
   * Expected and accepted tokens of earlier budgets: they take what looks likeliest, which is
   * likelier to be overestimated.
   */
  readonly #earlier = { expected: 0, accepted: 0 };
  /** Steps without drafts since the last try, and until the next. */
  #paused = 0;
  #pause = PAUSE.least;
  /** A network drafted, or drafts, although that does not seem to pay. */
  #trying = false;

  /** `sampledRowsMax`: rows that one step can sample, drafted tokens included. */
  constructor(sampledRowsMax: number) {
    this.#sampledRowsMax = sampledRowsMax;
  }

  /** Takes note of a step of decoding sequences alone. */
  record({ sequences, drafted, network, accepted }: MeasuredStep, ms: number): void {
    if (drafted > 0) this.#calibrate(accepted);
    const isPlain = drafted === 0 && !network;
    this.#sincePlain = isPlain ? 0 : this.#sincePlain + 1;
    if (isPlain) {
      for (const costs of Object.values(this.#costs)) costs.record({ sequences, nodes: 0 }, ms);
    } else if (drafted > 0) {
      const costs = this.#costs[network ? "network" : "others"];
      costs.record({ sequences, nodes: drafted }, ms);
      const plainMs = costs.of(sequences)?.(0) ?? ms;
      const pause = Math.ceil((ms / plainMs - 1) / TRIES_SHARE);
      this.#pause = Math.max(PAUSE.least, Math.min(PAUSE.most, pause));
    }
  }

  /** How many nodes of each draft the next step verifies. `network`: whether one made them. */
  allot(offers: readonly Float64Array[], step: PlannedStep): readonly number[] {
    const nothing = offers.map(() => 0);
    this.#expected = 0;
    if (offers.length === 0) return nothing;
    const found = this.#budget(offers, step);
    const isTry = step.network && this.#trying;
    if (step.network) this.#trying = false;
    if (found === null) return nothing;
    if (pays(found)) {
      this.#expected = found.expected;
      return found.nodes;
    }
    return isTry || (!step.network && this.#triesAgain()) ? found.least : nothing;
  }

  /** Whether a network shall draft behind the next step; `expected`: what it is likely to make. */
  drafts(expected: readonly Float64Array[], sequences: number): boolean {
    if (expected.length === 0) return true;
    const found = this.#budget(expected, { sequences, network: true });
    if (found === null) return false;
    if (pays(found)) return true;
    this.#trying ||= this.#triesAgain();
    return this.#trying;
  }

  /** Null: a plain step is to be measured first. */
  #budget(offers: readonly Float64Array[], { sequences, network }: PlannedStep): NodeBudget | null {
    const costs = this.#costs[network ? "network" : "others"];
    const plain = costs.plainSteps(sequences);
    const every = plain < PLAIN_MANY ? PLAIN_EVERY.few : PLAIN_EVERY.many;
    if (plain < PLAIN_FIRST || this.#sincePlain >= every) return null;
    const known = Math.max(NODES_FIRST, 2 * costs.nodesMeasured(sequences));
    const nodesMax = Math.min(this.#sampledRowsMax - sequences, known);
    const { weight } = CALIBRATION;
    const calibration = (this.#earlier.accepted + weight) / (this.#earlier.expected + weight);
    return budgetOf(offers, { sequences, nodesMax, costs, calibration });
  }

  #calibrate(accepted: number): void {
    if (this.#expected === 0) return;
    const { fading } = CALIBRATION;
    this.#earlier.expected = fading * this.#earlier.expected + this.#expected;
    this.#earlier.accepted = fading * this.#earlier.accepted + accepted;
    this.#expected = 0;
  }

  #triesAgain(): boolean {
    if (++this.#paused < this.#pause) return false;
    this.#paused = 0;
    return true;
  }
}

function pays({ speed, plainSpeed }: NodeBudget): boolean {
  return speed >= GAIN_MIN * plainSpeed;
}

/** Depths of the nodes of a whole tree of a shape: its first continuation, then the others. */
export function wholeDepths({ length, width }: DraftShape): Int32Array {
  const nodes = Math.min(TREE_NODES_MAX, 1 + length * width);
  return Int32Array.from({ length: nodes }, (_, node) =>
    node === 0 ? 0 : ((node - 1) % length) + 1,
  );
}
