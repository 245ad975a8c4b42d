import type { SequenceEnd } from "./stop.ts";

/** Where a sequence stands between its request and its end. */
export type SequenceState =
  /**
   * Holds no blocks on the device. `for`: the condition of its admission; `fork`: the group's lead
   * computes the prompt for it.
   */
  | { readonly phase: "waiting"; readonly for: "turn" | "grammar" | "fork" | "load" }
  /** Admitted; the newest token's successor has not been sampled since. */
  | { readonly phase: "prefilling" }
  | { readonly phase: "decoding" }
  | ({ readonly phase: "finished" } & SequenceEnd);

/** The states without further data, as constants. */
export const WAITING: SequenceState = { phase: "waiting", for: "turn" };

export const WAITING_FOR_GRAMMAR: SequenceState = { phase: "waiting", for: "grammar" };

export const WAITING_FOR_FORK: SequenceState = { phase: "waiting", for: "fork" };

export const WAITING_FOR_LOAD: SequenceState = { phase: "waiting", for: "load" };

export const PREFILLING: SequenceState = { phase: "prefilling" };

export const DECODING: SequenceState = { phase: "decoding" };
