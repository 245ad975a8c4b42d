import type { LoopStats, SequenceOutput } from "#engine/protocol";
import type { ComputedStep } from "./step-pipeline.ts";

type StepCounts = Pick<
  LoopStats,
  "steps" | "promptTokens" | "cachedPromptTokens" | "computedPromptTokens" | "generatedTokens"
>;

/** Counts the steps and tokens of a loop since its start. */
export class LoopCounts {
  readonly #counts: { -readonly [name in keyof StepCounts]: number } = {
    steps: 0,
    promptTokens: 0,
    cachedPromptTokens: 0,
    computedPromptTokens: 0,
    generatedTokens: 0,
  };

  sinceStart(): StepCounts {
    return { ...this.#counts };
  }

  count({ plan, admitted }: ComputedStep, outputs: readonly SequenceOutput[]): void {
    const counts = this.#counts;
    counts.steps += 1;
    counts.promptTokens += admitted.prompt;
    counts.cachedPromptTokens += admitted.cachedPrompt;
    for (const { sequence, start, count } of plan.items) {
      const { promptLength } = sequence;
      if (start < promptLength) {
        counts.computedPromptTokens += Math.min(start + count, promptLength) - start;
      }
    }
    for (const { tokenIds } of outputs) counts.generatedTokens += tokenIds.length;
  }
}
