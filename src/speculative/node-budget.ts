/** How many drafted tokens of each sequence a step verifies, for most tokens a second. */
import { LIKELY_MIN } from "./acceptance.ts";
import type { StepCosts } from "./step-costs.ts";

export interface NodeBudget {
  /** Drafted tokens that the step shall verify, of all offers. */
  readonly taken: number;
  /** All that there is room for, and the ms that these would take beyond plain steps. */
  readonly room: number;
  readonly lostMs: number;
  /** The probability of the last node that is taken; 1: none is. */
  readonly least: number;
  /** So many likeliest nodes: how many of each offer, its first ones. */
  take(nodes: number): readonly number[];
  /** Drafted tokens that are expected to be accepted, before calibration. */
  readonly expected: number;
  /** Expected tokens a ms, and those of the step without drafts. */
  readonly speed: number;
  readonly plainSpeed: number;
}

export interface BudgetedStep {
  /** All that the step samples for, with drafts and without. */
  readonly sequences: number;
  /** Most drafted tokens that it has room for, rounded down. */
  readonly nodesMax: number;
  readonly costs: Pick<StepCosts, "of">;
  /** Accepted tokens for each expected one, of the budgets so far. Default: 1. */
  readonly calibration?: number;
}

/** Of all offers, how likely each node is, as `fillFalling` has it; kept for the next step. */
let likely = new Float64Array(256);

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
  const line = costs.of(sequences);
  const plainMs = line?.ms(0) ?? 0;
  if (line === null || plainMs <= 0) return null;
  const falling = offers.map(fallingOf);
  let count = 0;
  for (const values of falling) {
    if (count + values.length > likely.length) likely = grown(likely, count + values.length);
    likely.set(values, count);
    count += values.length;
  }
  // Ascending: the likeliest are at its end.
  const all = likely.subarray(0, count).sort();
  const plainSpeed = sequences / plainMs;
  const room = Math.min(count, Math.max(0, Math.floor(nodesMax)));
  let [speed, taken, expected, accepted] = [plainSpeed, 0, 0, 0];
  for (let nodes = 1; nodes <= room; nodes++) {
    accepted += all[count - nodes] ?? 0;
    const reached = (sequences + calibration * accepted) / line.ms(nodes);
    if (reached > speed) [speed, taken, expected] = [reached, nodes, accepted];
  }
  const lostMs = line.ms(room) - (sequences + calibration * accepted) / plainSpeed;
  // The array is another budget's when `take` is called, so it keeps the values.
  const falls = all.slice(count - room);
  return {
    ...{ taken, room, lostMs: Math.max(0, lostMs), expected, speed, plainSpeed },
    least: falls[room - taken] ?? 1,
    take: (nodes) => likeliest(falling, { nodes, least: falls[room - nodes] ?? 1 }),
  };
}

/** How many leading nodes of each offer are among the likeliest; `least`: of the last of these. */
function likeliest(
  falling: readonly Float64Array[],
  { nodes, least }: { readonly nodes: number; readonly least: number },
): readonly number[] {
  let left = nodes;
  return falling.map((values) => {
    let found = 0;
    while (found < values.length && left > 0 && (values[found] ?? 0) >= least) {
      found++;
      left--;
    }
    return found;
  });
}

/**
 * An offer's probabilities so that they fall: a node that is likelier than the ones before it can
 * only be had together with them, so all of these have their mean. The tail that is never worth a
 * row is left out.
 */
function fallingOf(survivals: Float64Array): Float64Array {
  let length = survivals.length;
  while (length > 0 && (survivals[length - 1] ?? 0) < LIKELY_MIN) length--;
  const found = survivals.slice(0, length);
  for (let end = 1; end < found.length; end++) {
    let mean = found[end] ?? 0;
    if ((found[end - 1] ?? 0) > mean) continue;
    let first = end;
    while (first > 0 && (found[first - 1] ?? 0) <= mean) {
      // The values before are those of a run of equal ones.
      const value = found[first - 1] ?? 0;
      let run = first - 1;
      while (run > 0 && found[run - 1] === value) run--;
      mean = (mean * (end + 1 - first) + value * (first - run)) / (end + 1 - run);
      first = run;
      if (value === mean && first === 0) break;
    }
    found.fill(mean, first, end + 1);
  }
  return found;
}

function grown(values: Float64Array<ArrayBuffer>, length: number): Float64Array<ArrayBuffer> {
  const larger = new Float64Array(2 * length);
  larger.set(values);
  return larger;
}
