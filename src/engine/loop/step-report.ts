import type { StepReport } from "#engine/protocol";
import type { ComputedStep } from "./step-pipeline.ts";

const MS_PER_SECOND = 1000;

/** The report of output from outside a step. */
export const NO_STEP: StepReport = { stepTokens: 0, sequences: 0, seconds: 0, planSeconds: 0 };

/** How much a step computed, and how long it and the host's work for it took. */
export function reportOf({ plan, stepMs }: ComputedStep, planMs: number): StepReport {
  return {
    stepTokens: plan.tokens,
    sequences: plan.items.length,
    seconds: stepMs / MS_PER_SECOND,
    planSeconds: planMs / MS_PER_SECOND,
  };
}
