/** Told how requests of a live fleet go: metrics and logs are made of it. */
import type { Decision } from "./decision.ts";

/** A decision as it is kept: names of workers instead of numbers. */
export interface DecisionRecord {
  readonly request: string;
  readonly type: Decision["type"];
  readonly reason: string | null;
  readonly isBatch: boolean;
  /** Where it was decided: before it waits, or when it is sent. */
  readonly stage: "queue" | "dispatch";
  /** A line of JSON without its end. */
  readonly line: string;
}

export interface ServiceWatch {
  decided(record: DecisionRecord): void;
  /** From its arrival; `deadlineMs` null: it has none. */
  firstToken(ms: number, deadlineMs: number | null): void;
  /** Between two pieces of one sequence. */
  gap(ms: number, deadlineMs: number | null): void;
}
