import { EngineError } from "#base";
import type { Completion, DraftUse, GenerateResult, StreamItem } from "#engine/protocol";
import type { PositionLogprobs } from "#sampling";

/** Joins two consecutive items of one sequence. */
export function joinItems(first: StreamItem, second: StreamItem): StreamItem {
  const drafts = joinDrafts(first.drafts, second.drafts);
  return {
    ...second,
    ...(first.earlierText !== undefined && { earlierText: first.earlierText }),
    ...(drafts !== undefined && { drafts }),
    text: first.text === null ? second.text : first.text + (second.text ?? ""),
    tokenIds: [...first.tokenIds, ...second.tokenIds],
    logprobs:
      first.logprobs === null ? second.logprobs : [...first.logprobs, ...(second.logprobs ?? [])],
  };
}

function joinDrafts(first?: DraftUse, second?: DraftUse): DraftUse | undefined {
  if (first === undefined || second === undefined) return first ?? second;
  return {
    drafted: first.drafted + second.drafted,
    accepted: first.accepted + second.accepted,
  };
}

/** One sequence's items so far. */
interface Collected {
  text: string | null;
  readonly tokenIds: number[];
  readonly logprobs: PositionLogprobs[];
  drafts: DraftUse | undefined;
  last: StreamItem;
}

/** Reads a stream to its end. Rejects as the stream does; with ABORTED when it is empty. */
export async function collectResult(
  requestId: string,
  items: AsyncIterable<StreamItem>,
): Promise<GenerateResult> {
  const sequences = new Map<number, Collected>();
  let prompt: StreamItem["prompt"] | null = null;
  for await (const item of items) {
    // The prompt's results come with the first sequence, which need not be the first to come.
    prompt = item.prompt;
    const known = sequences.get(item.index);
    const sequence = known ?? beginning(item);
    if (known === undefined) sequences.set(item.index, sequence);
    if (item.text !== null) sequence.text = (sequence.text ?? "") + item.text;
    sequence.tokenIds.push(...item.tokenIds);
    sequence.logprobs.push(...(item.logprobs ?? []));
    sequence.drafts = joinDrafts(sequence.drafts, item.drafts);
    sequence.last = item;
  }
  if (prompt === null) throw new EngineError("ABORTED", "Cannot finish: the request was cancelled");
  const completions = [...sequences.values()].map(toCompletion);
  return { ...prompt, requestId, completions: completions.sort((a, b) => a.index - b.index) };
}

function beginning(last: StreamItem): Collected {
  return { text: null, tokenIds: [], logprobs: [], drafts: undefined, last };
}

function toCompletion({ text, tokenIds, logprobs, drafts, last }: Collected): Completion {
  const wanted = last.logprobs !== null;
  const sampled = wanted ? logprobs.reduce((sum, { logprob }) => sum + logprob, 0) : null;
  return {
    index: last.index,
    text,
    tokenIds,
    logprobs: wanted ? logprobs : null,
    cumulativeLogprob: last.beam?.logprob ?? sampled,
    finishReason: last.finishReason ?? "abort",
    stopReason: last.stopReason,
    score: last.beam?.score ?? null,
    ...(last.kvByteSeconds !== undefined && { kvByteSeconds: last.kvByteSeconds }),
    ...(drafts !== undefined && { drafts }),
  };
}
