/** What is computed for each sequence of a request. */
import type { EngineRequest } from "#engine/protocol";
import type { LogprobRequest, PositionLogprobs, SamplingParams, SequenceSampling } from "#sampling";
import { likeliestOf } from "./prompt-rows.ts";
import type { SequenceDrafter } from "./sequence-drafter.ts";
import type { SequenceTask } from "./sequence-task.ts";

/** What differs between the tasks of a request. */
export interface TaskOptions {
  readonly index: number;
  /** Of each beam's row; 0: the sequence samples. */
  readonly candidates: number;
  readonly sampling: SequenceSampling | null;
  /** Null: nothing is drafted. */
  readonly newDrafter: (() => SequenceDrafter) | null;
}

/** The task of one sequence; the first has the rows of the prompt. */
export function createTask(
  request: EngineRequest,
  { vocabularySize }: { readonly vocabularySize: number },
  { index, candidates, sampling, newDrafter }: TaskOptions,
): SequenceTask {
  const { params, promptTokenIds } = request;
  const tokens = promptTokenIds.length;
  const first = index === 0;
  const isRead = first && wantsPromptRows(request);
  const wanted = isRead ? promptLogprobRequest(params, vocabularySize) : null;
  const rows = () => new Array<PositionLogprobs | null>(tokens).fill(null);
  const values = () => new Float32Array(tokens * vocabularySize);
  return {
    index,
    sampling,
    promptLogprobs: wanted === null ? null : { wanted, rows: rows() },
    promptLogits:
      request.promptLogits && first ? { columns: vocabularySize, values: values() } : null,
    hiddenPool: null,
    computesOnly: request.computesOnly === true,
    drafter: newDrafter?.() ?? null,
    draft: null,
    sampledRow: -1,
    beamCandidates: candidates,
  };
}

/**
 * Rows of cached tokens are not computed, so a request for all rows computes all tokens. Who began
 * it elsewhere has the rows.
 */
export function wantsPromptRows({ params, promptLogits, generated }: EngineRequest): boolean {
  return (params.promptLogprobs !== null && generated === undefined) || promptLogits;
}

function promptLogprobRequest(
  params: SamplingParams,
  vocabularySize: number,
): LogprobRequest | null {
  const { promptLogprobs } = params;
  if (promptLogprobs === null) return null;
  return { kind: "top", count: likeliestOf(promptLogprobs, vocabularySize) };
}
