/** How many drafted tokens of each sequence a step verifies, for most tokens a second. */
import type { StepCosts } from "./step-costs.ts";

export interface NodeBudget {
  /** Drafted tokens of each offer that the step shall verify: its first ones. */
  readonly nodes: readonly number[];
  /** The likeliest token alone, or with those that it needs. */
  readonly least: readonly number[];
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
  const segments = offers.flatMap(segmentsOf).sort((a, b) => b.mean - a.mean);
  const plainSpeed = sequences / plainMs;
  let [speed, taken] = [plainSpeed, 0];
  let [tokens, nodes] = [sequences, 0];
  for (const [place, segment] of segments.entries()) {
    nodes += segment.nodes;
    if (nodes > nodesMax) break;
    tokens += calibration * segment.mean * segment.nodes;
    const reached = tokens / msOf(nodes);
    if (reached > speed) [speed, taken] = [reached, place + 1];
  }
  const of = (some: readonly Segment[]): readonly number[] => {
    const found = offers.map(() => 0);
    for (const { offer, nodes: more } of some) found[offer] = (found[offer] ?? 0) + more;
    return found;
  };
  const chosen = segments.slice(0, taken);
  const expected = chosen.reduce((sum, { mean, nodes: count }) => sum + mean * count, 0);
  return { nodes: of(chosen), least: of(segments.slice(0, 1)), expected, speed, plainSpeed };
}

/**
 * Splits an offer into segments of falling means: a node that is likelier than the one before it
 * can only be had together with it.
 */
function segmentsOf(survivals: Float64Array, offer: number): Segment[] {
  const segments: Segment[] = [];
  for (const survival of survivals) {
    let newest: Segment = { offer, nodes: 1, mean: survival };
    for (;;) {
      const before = segments.at(-1);
      if (before === undefined || before.mean > newest.mean) break;
      segments.pop();
      const nodes = before.nodes + newest.nodes;
      const mean = (before.mean * before.nodes + newest.mean * newest.nodes) / nodes;
      newest = { offer, nodes, mean };
    }
    segments.push(newest);
  }
  return segments.filter(({ mean }) => mean >= LIKELY_MIN);
}
