/** How many drafted tokens of each sequence a step verifies, for most tokens a second. */
import type { StepCosts } from "./step-costs.ts";

export interface NodeBudget {
  /** Drafted tokens of each offer that the step shall verify: its first ones. */
  readonly nodes: readonly number[];
  /** All that there is room for, and the ms that this would take beyond plain steps. */
  readonly whole: readonly number[];
  readonly lostMs: number;
  /** Drafted tokens that are expected to be accepted, before calibration. */
  readonly expected: number;
  /** Expected tokens a ms, and those of the step without drafts. */
  readonly speed: number;
  readonly plainSpeed: number;
}

export interface BudgetedStep {
  /** All that the step samples for, with drafts and without. */
  readonly sequences: number;
  /** Most drafted tokens that it has room for. */
  readonly nodesMax: number;
  readonly costs: Pick<StepCosts, "of">;
  /** Accepted tokens for each expected one, of the budgets so far. Default: 1. */
  readonly calibration?: number;
}

/** A few leading nodes of what is left of an offer, and the mean of their probabilities. */
interface Segment {
  readonly offer: number;
  readonly nodes: number;
  readonly mean: number;
}

/** Nodes less likely than this are never worth a row. */
const LIKELY_MIN = 0.01;

/**
 * `offers`: for each sequence with a draft, the probability that each node is accepted, in the
 * tree's order, of which any leading part may be verified. Takes the likeliest nodes of all offers,
 * as many as make the quickest step for its tokens. Null where no plain step of about this size was
 * measured.
 */
export function budgetOf(
  offers: readonly Float64Array[],
  { sequences, nodesMax, costs, calibration = 1 }: BudgetedStep,
): NodeBudget | null {
  const msOf = costs.of(sequences);
  const plainMs = msOf?.(0) ?? 0;
  if (msOf === null || plainMs <= 0) return null;
  const segments: Segment[] = [];
  for (const [place, offer] of offers.entries()) addSegments(segments, offer, place);
  segments.sort((a, b) => b.mean - a.mean);
  const plainSpeed = sequences / plainMs;
  const whole = new Array<number>(offers.length).fill(0);
  const chosen = new Array<number>(offers.length).fill(0);
  let [speed, taken, expected] = [plainSpeed, 0, 0];
  let [accepted, nodes, fitting] = [0, 0, 0];
  for (const { offer, nodes: more, mean } of segments) {
    if (nodes + more > nodesMax) break;
    nodes += more;
    accepted += mean * more;
    fitting++;
    whole[offer] = (whole[offer] ?? 0) + more;
    const reached = (sequences + calibration * accepted) / msOf(nodes);
    if (reached > speed) [speed, taken, expected] = [reached, fitting, accepted];
  }
  for (const { offer, nodes: more } of segments.slice(0, taken)) {
    chosen[offer] = (chosen[offer] ?? 0) + more;
  }
  const lostMs = msOf(nodes) - (sequences + calibration * accepted) / plainSpeed;
  return { nodes: chosen, whole, lostMs: Math.max(0, lostMs), expected, speed, plainSpeed };
}

/**
 * Adds an offer as segments of falling means: a node that is likelier than the one before it can
 * only be had together with it.
 */
function addSegments(segments: Segment[], survivals: Float64Array, offer: number): void {
  const first = segments.length;
  for (const survival of survivals) {
    let newest: Segment = { offer, nodes: 1, mean: survival };
    while (segments.length > first) {
      const before = segments.at(-1);
      if (before === undefined || before.mean > newest.mean) break;
      segments.pop();
      const nodes = before.nodes + newest.nodes;
      const mean = (before.mean * before.nodes + newest.mean * newest.nodes) / nodes;
      newest = { offer, nodes, mean };
    }
    segments.push(newest);
  }
  while (segments.length > first && (segments.at(-1)?.mean ?? 1) < LIKELY_MIN) segments.pop();
}
