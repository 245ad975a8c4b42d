import { EngineError } from "#base";

/** What another engine generated of one sequence. */
export interface EarlierTokens {
  readonly tokenIds: Int32Array;
  /** There is nothing left to generate of it. */
  readonly ended: boolean;
}

/** The error for a sequence that is not said to have ended, and has. `what`: by which token. */
export function endedBefore(index: number, what: string): EngineError {
  return new EngineError(
    "INVALID_ARGUMENT",
    `Cannot continue sequence ${index}: none of its generated tokens may end it, ${what}; ` +
      "give it as ended",
    { param: "generated" },
  );
}
