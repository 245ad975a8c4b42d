import { budgetOf, type NodeBudget, sizeClass } from "#speculative";
import { type CostsAhead, KindCosts, type NetworkShape } from "./kind-costs.ts";

/** Plain steps of a number of sequences that are measured before any draft is verified. */
const PLAIN_FIRST = 3;
/** A plain step is measured again after so many steps with drafts: while few were, and later. */
const PLAIN_EVERY = { few: 16, many: 128 };
/** So many plain steps are no longer few; from then on one in `PLAIN_SAMPLED` is recorded. */
const PLAIN_MANY = 24;
const PLAIN_SAMPLED = 4;
/** Drafts are verified where that makes steps quicker by this at least: less may be noise. */
const GAIN_MIN = 1.03;
/** Drafted tokens of the first step that has any, if not one a sequence; later ones double them. */
const NODES_FIRST = 4;
/** A budget holds for a step for each so many offered nodes, and at most for so many steps. */
const BUDGET = { nodesPerStep: 64, stepsMax: 8 };
/** How fast earlier expectations fade, and how many tokens they weigh as much as at first. */
const CALIBRATION = { fading: 0.97, weight: 8 };
/**
 * Time that tries may take which do not seem to pay: at first that of so many plain steps, fewer
 * where only acceptance is to be learned, then a share of all time. Of it no more is saved up
 * than so many plain steps take, or the try that is waited for: a change of load would have all of
 * it spent at once. So that it lasts, a try may lose no more than a share of the time since the
 * one before, but for the first few of about so many sequences, which teach what drafts cost.
 */
const TRIES = {
  firstSteps: 40,
  knownSteps: 6,
  firstMsMax: 250,
  share: 0.01,
  shareSinceTry: 0.03,
  atOnce: 4,
  savedSteps: 12,
  savedMsMax: 500,
};
/** After so many tries in a row that did not pay the shares are half as much, down to an eighth. */
const TRIES_HALVE = { every: 4, most: 3 };
/** One step in so many verifies half of its budget, and one twice as much, to learn their cost. */
const HALF_EVERY = 16;
const TWICE_EVERY = 64;
/** Plain steps between tries, so that no request has them all. */
const TRY_EVERY = 8;
/** Steps between looks at whether a network pays: while it does not draft, and while it does. */
const LOOK_EVERY = { idle: 8, drafting: 4 };

/** A step as far as its cost is concerned. */
export interface MeasuredStep {
  readonly sequences: number;
  readonly drafted: number;
  /** What a network drafted behind it; null: nothing. */
  readonly network: NetworkShape | null;
  /** Whether drafts were made for sequences under a grammar, which takes time with any step. */
  readonly foresaw: boolean;
  /** Drafted tokens that were accepted. */
  readonly accepted: number;
}

/** The next step, as far as it is known. */
type PlannedStep = Pick<MeasuredStep, "sequences" | "network" | "foresaw">;

/** What a network may draft of a sequence. */
export interface WholeOffer {
  /** How likely each node of its largest draft is to be accepted. */
  readonly survivals: Float64Array;
  /** So many of these are its likeliest continuation. */
  readonly firstBranch: number;
}

/**
 * Decides how much of what is drafted is verified, over all sequences of a step, and whether a
 * network drafts at all: by measured durations of steps and by what was accepted so far. What is
 * slower than plain steps is left out, and tried again within an allowance of time.
 */
export class DraftPolicy {
  /** Without drafts under grammars, and with. */
  readonly #costs: readonly [KindCosts, KindCosts];
  readonly #sampledRowsMax: number;
  #sincePlain = 0;
  #plainSteps = 0;
  /** Plain steps since the last try. */
  #sinceTry = TRY_EVERY;
  /** ms of all steps since then, and what those with drafts lost. */
  #sinceTryMs = Number.POSITIVE_INFINITY;
  #lostMs = 0;
  /** Null until a plain step was measured. */
  #allowanceMs: number | null = null;
  #budgets = 0;
  /** Steps until the next look at a network that does not draft. */
  #untilLook = 0;
  /** The newest budget, while it holds. */
  #held: HeldBudget | null = null;
  /** What a network drafted, or drafts, although that does not seem to pay. */
  #trying: NetworkShape | null = null;
  /** What the last such try drafted. */
  #tried: NetworkShape = "tree";
  /** Tries so far, by number of sequences and whether drafts were made under a grammar. */
  readonly #tries = new Map<number, number>();
  /** What the try takes that the allowance is not enough for. */
  #savingMs = 0;
  /** Tries since drafts last seemed to pay. */
  #failedTries = 0;
  /** Most that is saved up in any case. */
  #savedMs = 0;
  /** Drafted tokens of the newest budget that are expected to be accepted. */
  #expected = 0;
  /**
   * Expected and accepted tokens of earlier budgets: they take what looks likeliest, which is
   * likelier to be overestimated.
   */
  readonly #earlier = { expected: 0, accepted: 0 };

  /**
   * `sampledRowsMax`: rows that one step can sample, drafted tokens included. `ahead`: what was
   * measured before any request; grammars were in none of that. Default: nothing.
   */
  constructor(sampledRowsMax: number, ahead: CostsAhead = {}) {
    this.#sampledRowsMax = sampledRowsMax;
    this.#costs = [new KindCosts(ahead), new KindCosts()];
  }

  /** Takes note of a step of decoding sequences alone. */
  record(step: MeasuredStep, ms: number): void {
    const { sequences, drafted, network, accepted } = step;
    const costs = this.#costsOf(step);
    const isPlain = drafted === 0 && network === null;
    this.#sincePlain = isPlain ? 0 : this.#sincePlain + 1;
    this.#sinceTryMs += ms;
    if (isPlain) {
      this.#plainSteps++;
      this.#sinceTry++;
      if (
        costs.others.plainSteps(sequences) >= PLAIN_MANY &&
        this.#plainSteps % PLAIN_SAMPLED > 0
      ) {
        this.#allow(this.#halved(TRIES.share) * ms);
        return;
      }
      for (const each of Object.values(costs)) each.record({ sequences, nodes: 0 }, ms);
    } else if (drafted > 0) {
      this.#calibrate(accepted);
      costs.record(network, { sequences, nodes: drafted }, ms);
    }
    // Lines take as long as some look-ups to make: plain steps do without.
    const line = isPlain ? null : costs.of(network, sequences).of(sequences);
    const plainMs = line?.ms(0) ?? costs.others.plainMs(sequences) ?? ms;
    this.#savedMs = TRIES.savedSteps * plainMs;
    const firstSteps = costs.others.knows(sequences) ? TRIES.knownSteps : TRIES.firstSteps;
    this.#allowanceMs ??= Math.min(TRIES.firstMsMax, firstSteps * plainMs);
    // What it usually takes: a step that something else disturbs says nothing of drafts. Steps
    // that draft and verify nothing are not known: a network takes less than twice a plain step.
    const usualMs = drafted > 0 ? (line?.ms(drafted) ?? ms) : Math.min(ms, 2 * plainMs);
    const gainMs = isPlain ? 0 : (plainMs * (sequences + accepted)) / sequences - usualMs;
    this.#lostMs = Math.max(0, this.#lostMs - gainMs);
    this.#allow(this.#halved(TRIES.share) * ms + gainMs);
  }

  /** A share of the time that tries may take, after those that did not pay. */
  #halved(share: number): number {
    const times = Math.min(TRIES_HALVE.most, Math.floor(this.#failedTries / TRIES_HALVE.every));
    return share / 2 ** times;
  }

  /** Adds to the time for tries; what is left of the first ones is kept. */
  #allow(ms: number): void {
    const before = this.#allowanceMs ?? 0;
    const saved = Math.max(this.#savedMs, Math.min(this.#savingMs, TRIES.savedMsMax));
    this.#allowanceMs = Math.min(Math.max(before, saved), before + ms);
  }

  /** Whether a network drafts to learn how well it does, although that does not seem to pay. */
  get triesNetwork(): boolean {
    return this.#trying !== null;
  }

  /** How many nodes of each draft the next step verifies. `network`: what made them. */
  allot(offers: readonly Float64Array[], step: PlannedStep): readonly number[] {
    this.#expected = 0;
    const isTry = step.network !== null && this.#trying !== null;
    if (isTry) {
      this.#trying = null;
      // Whether the network goes on is decided before it drafts again.
      this.#untilLook = 1;
    }
    if (offers.length === 0) return [];
    // What a network drafted is there: it drafts no more instead, so that the step behind is plain.
    if (step.network === null && this.#needsPlain(step)) {
      this.#held = null;
      return offers.map(() => 0);
    }
    if (!isTry && this.#held !== null && holds(this.#held, step)) return this.#takeHeld(offers);
    const found = this.#budget(offers, step);
    if (found === null) return offers.map(() => 0);
    if (pays(found)) {
      this.#failedTries = 0;
      return this.#take(found, offers, step);
    }
    const tries = isTry || (this.#triesLookup(step) && this.#triesAgain(found, step));
    this.#held = tries ? null : heldOf({ ...found, taken: 0 }, offers, step);
    // Whether a network goes on drafting for nothing is not to wait for the next look.
    if (step.network !== null && !tries) this.#untilLook = 1;
    return tries ? found.take(found.room) : offers.map(() => 0);
  }

  /**
   * Whether it has to be decided now if a network drafts behind the next step. `drafts`: what was
   * decided last. `isRare`: few steps ask.
   */
  looks(drafts: boolean, isRare = false): boolean {
    const every = drafts ? LOOK_EVERY.drafting : LOOK_EVERY.idle;
    if (isRare) this.#untilLook = 1;
    this.#untilLook = this.#untilLook === 0 ? every - 1 : this.#untilLook - 1;
    return this.#untilLook === 0 || this.#trying !== null;
  }

  /**
   * How many nodes a network shall draft for each sequence behind the next step: no more than its
   * likeliest continuation has, or a tree, whichever makes steps quicker.
   */
  drafts(offers: readonly WholeOffer[], step: Omit<PlannedStep, "network">): readonly number[] {
    const none = offers.map(() => 0);
    if (offers.length === 0 || this.#needsPlain(step)) return none;
    const chain = this.#budget(
      offers.map(({ survivals, firstBranch }) => survivals.subarray(0, firstBranch)),
      { ...step, network: "chain" },
    );
    if (chain === null) return none;
    const branches = offers.some(({ survivals, firstBranch }) => survivals.length > firstBranch);
    const whole = offers.map(({ survivals }) => survivals);
    const tree = branches ? this.#budget(whole, { ...step, network: "tree" }) : null;
    const best = tree !== null && tree.speed > chain.speed ? tree : chain;
    if (pays(best)) {
      this.#failedTries = 0;
      return best.take(best.taken);
    }
    const shape = this.#trying ?? (tree !== null && this.#tried === "chain" ? "tree" : "chain");
    const found = shape === "tree" ? (tree ?? chain) : chain;
    if (this.#trying === null) {
      if (!this.#couldPay(offers, step) || !this.#triesAgain(found, step)) return none;
      this.#trying = shape;
      this.#tried = shape;
    }
    return found.take(found.room);
  }

  /** The budget; now and then half of it, or twice as much. */
  #take(budget: NodeBudget, offers: readonly Float64Array[], step: PlannedStep): readonly number[] {
    const { taken, room, expected } = budget;
    this.#budgets++;
    this.#held = null;
    if (this.#budgets % TWICE_EVERY === 0) return budget.take(Math.min(room, 2 * taken));
    if (this.#budgets % HALF_EVERY === 0) return budget.take(Math.ceil(taken / 2));
    this.#held = heldOf(budget, offers, step);
    this.#expected = expected;
    return budget.take(taken);
  }

  /** What the newest budget would take of these offers, which are not weighed again. */
  #takeHeld(offers: readonly Float64Array[]): readonly number[] {
    const held = this.#held;
    if (held === null) return offers.map(() => 0);
    held.steps--;
    let left = held.room;
    let expected = 0;
    const found = offers.map((survivals) => {
      let nodes = 0;
      while (nodes < survivals.length && left > 0 && (survivals[nodes] ?? 0) >= held.least) {
        expected += survivals[nodes] ?? 0;
        nodes++;
        left--;
      }
      return nodes;
    });
    this.#expected = expected;
    return found;
  }

  /** Whether a plain step is to be measured first. */
  #needsPlain(step: Omit<PlannedStep, "network">): boolean {
    const plain = this.#costsOf(step).others.plainSteps(step.sequences);
    const every = plain < PLAIN_MANY ? PLAIN_EVERY.few : PLAIN_EVERY.many;
    return plain < PLAIN_FIRST || this.#sincePlain >= every;
  }

  #budget(offers: readonly Float64Array[], step: PlannedStep): NodeBudget | null {
    const { sequences, network } = step;
    const costs = this.#costsOf(step).of(network, sequences);
    const first = Math.max(NODES_FIRST, sequences);
    const known = Math.max(first, 2 * costs.nodesMeasured(sequences));
    const nodesMax = Math.min(this.#sampledRowsMax - sequences, known);
    const { weight } = CALIBRATION;
    const calibration = (this.#earlier.accepted + weight) / (this.#earlier.expected + weight);
    return budgetOf(offers, { sequences, nodesMax, costs, calibration });
  }

  /**
   * What is looked up is compared with the tokens that follow in any case, so only its cost can be
   * unknown.
   */
  #triesLookup(step: PlannedStep): boolean {
    return step.network === null && !this.#costsOf(step).others.knows(step.sequences);
  }

  /** Whether a network's chains would pay if all of them were right, as far as that is known. */
  #couldPay(offers: readonly WholeOffer[], step: Omit<PlannedStep, "network">): boolean {
    const { sequences } = step;
    const costs = this.#costsOf(step).chain;
    const line = costs.of(sequences);
    if (line === null || !costs.knows(sequences)) return true;
    let most = 0;
    for (const { firstBranch } of offers) most += firstBranch;
    most = Math.min(most, this.#sampledRowsMax - sequences);
    const plainSpeed = sequences / line.ms(0);
    for (let nodes = 1; nodes <= most; nodes++) {
      if ((sequences + nodes) / line.ms(nodes) >= GAIN_MIN * plainSpeed) return true;
    }
    return false;
  }

  #costsOf({ foresaw }: Pick<PlannedStep, "foresaw">): KindCosts {
    return this.#costs[foresaw ? 1 : 0];
  }

  #calibrate(accepted: number): void {
    if (this.#expected === 0) return;
    const { fading } = CALIBRATION;
    this.#earlier.expected = fading * this.#earlier.expected + this.#expected;
    this.#earlier.accepted = fading * this.#earlier.accepted + accepted;
    this.#expected = 0;
  }

  /** Whether the allowance is enough to verify all that there is room for. */
  #triesAgain({ lostMs }: NodeBudget, { sequences, foresaw }: Omit<PlannedStep, "network">) {
    if (this.#sinceTry < TRY_EVERY) return false;
    const kind = 2 * sizeClass(sequences) + (foresaw ? 1 : 0);
    const tries = this.#tries.get(kind) ?? 0;
    const spentMs = Math.max(lostMs, this.#lostMs);
    const isSoon = this.#halved(TRIES.shareSinceTry) * this.#sinceTryMs < spentMs;
    this.#savingMs = 0;
    if (isSoon && tries >= TRIES.atOnce) return false;
    this.#savingMs = (this.#allowanceMs ?? 0) < lostMs ? lostMs : 0;
    if (this.#savingMs > 0) return false;
    this.#tries.set(kind, tries + 1);
    this.#sinceTry = 0;
    this.#sinceTryMs = 0;
    this.#lostMs = 0;
    this.#failedTries++;
    return true;
  }
}

/** A budget that later steps of about as many sequences have, too. */
interface HeldBudget extends PlannedStep {
  /** The probability of its last node; above 1: it has none. */
  readonly least: number;
  readonly room: number;
  /** Steps that it still holds for. */
  steps: number;
}

/** Weighing many nodes takes as long as some steps of a small model. */
function heldOf(
  { least, room, taken }: NodeBudget,
  offers: readonly Float64Array[],
  { sequences, network, foresaw }: PlannedStep,
): HeldBudget {
  let nodes = 0;
  for (const { length } of offers) nodes += length;
  const steps = Math.min(BUDGET.stepsMax, Math.ceil(nodes / BUDGET.nodesPerStep)) - 1;
  return { sequences, network, foresaw, least: taken === 0 ? 2 : least, room, steps };
}

function holds(held: HeldBudget, { sequences, network, foresaw }: PlannedStep): boolean {
  const isAlike = Math.abs(held.sequences - sequences) * 8 <= sequences;
  return held.steps > 0 && isAlike && held.network === network && held.foresaw === foresaw;
}

function pays({ speed, plainSpeed }: NodeBudget): boolean {
  return speed >= GAIN_MIN * plainSpeed;
}
