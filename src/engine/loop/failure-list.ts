import type { RequestFailure, StepOutput } from "#engine/protocol";
import { NO_STEP } from "./step-report.ts";

/** Requests that failed since they were last reported. */
export class FailureList {
  #failures: RequestFailure[] = [];

  add(failure: RequestFailure): void {
    this.#failures.push(failure);
  }

  take(): RequestFailure[] {
    const failures = this.#failures;
    this.#failures = [];
    return failures;
  }

  /** Those of no step, as grammars that did not compile. Null: there are none. */
  news(): StepOutput | null {
    if (this.#failures.length === 0) return null;
    return { outputs: [], embeddings: [], failures: this.take(), report: NO_STEP };
  }
}
