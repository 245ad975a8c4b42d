import type { DraftKind } from "#sampling";

/** What may be drafted of a sequence in a step. */
export interface DraftLimits {
  readonly kind: DraftKind;
  /** Most drafted tokens of one continuation in a step. */
  readonly lengthMax: number;
  /** Most continuations in a step. */
  readonly width: number;
}

/** Drafts of a loaded model. */
export interface SpeculationInfo extends DraftLimits {
  /** Whether lookup drafts beside the network. */
  readonly mixed: boolean;
  /** The network that makes them; null: they need none. */
  readonly drafter: DrafterInfo | null;
}

/** A network that drafts beside a model. */
export interface DrafterInfo {
  /** Of its folder. */
  readonly name: string;
  readonly parameters: number;
}
