import { type CostRow, StepCosts, type StepSize } from "#speculative";

/** What a network drafts behind a step: one continuation of each sequence, or trees. */
export type NetworkShape = "chain" | "tree";

/** What steps took before any request, by what a network drafted behind them. */
export interface CostsAhead {
  readonly chain?: readonly CostRow[];
  readonly tree?: readonly CostRow[];
  readonly others?: readonly CostRow[];
}

/**
 * Of steps behind which a network drafts, its time included, and of others. Where devices begin
 * chains before the host has read a step, trees of as many nodes take much longer.
 */
export class KindCosts {
  readonly chain: StepCosts;
  readonly tree: StepCosts;
  readonly others: StepCosts;

  constructor(ahead: CostsAhead = {}) {
    this.chain = new StepCosts(ahead.chain);
    this.tree = new StepCosts(ahead.tree);
    this.others = new StepCosts(ahead.others);
  }

  record(network: NetworkShape | null, size: StepSize, ms: number): void {
    for (const each of [this.chain, this.tree, this.others]) {
      if (each === this[network ?? "others"]) each.record(size, ms);
      else each.pass();
    }
  }

  /** Trees that were not measured are taken for chains of as many nodes. */
  of(network: NetworkShape | null, sequences: number): StepCosts {
    if (network === null) return this.others;
    return network === "tree" && this.tree.nodesMeasured(sequences) > 0 ? this.tree : this.chain;
  }
}
