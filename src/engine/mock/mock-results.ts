/** Made-up results beside sampled tokens: log-probabilities, beams' candidates, hidden states. */
import type { PromptPart, PromptRows, StepCommand } from "#engine/loop";
import type { LogprobRequest, PositionLogprobs, TokenCandidates, TokenLogprob } from "#sampling";
import { type MockVocabulary, mockToken, type TokenPlace } from "./mock-tokens.ts";

/** The likeliest token's log-probability; each further one's is lower by as much again. */
const STEP_LOGPROB = -0.5;
const OTHER_SEED = 0x632be59b;

/** Results of one prompt's rows, without the prompt's number. */
type Part = PromptPart extends infer Each
  ? Each extends PromptPart
    ? Omit<Each, "prompt">
    : never
  : never;

/** Of a sampled token: it is always the likeliest. */
export function mockLogprobs(
  vocabulary: MockVocabulary,
  tokenId: number,
  wanted: LogprobRequest,
): PositionLogprobs {
  const own = entry(tokenId, 0);
  if (wanted.kind === "tokens") {
    return {
      ...own,
      top: wanted.tokenIds.map((id) => entry(id, id === tokenId ? 0 : 1 + (id % 50))),
    };
  }
  const others = distinct(vocabulary, { ...ROOT, previous: tokenId }, wanted.count, tokenId);
  const ids = wanted.count === 0 ? [] : [tokenId, ...others].slice(0, wanted.count);
  return { ...own, top: ids.map(entry) };
}

/** Of a search's rows: the best is the token that would be sampled. */
export function mockCandidates(
  vocabulary: MockVocabulary,
  places: readonly TokenPlace[],
  wanted: number,
): TokenCandidates {
  const count = Math.min(wanted, vocabulary.tokenIds.length);
  const tokenIds = new Int32Array(places.length * count);
  const logprobs = new Float32Array(places.length * count);
  places.forEach((place, row) => {
    const best = mockToken(vocabulary, place);
    const ids = [best, ...distinct(vocabulary, place, count, best)];
    for (let rank = 0; rank < count; rank++) {
      tokenIds[row * count + rank] = ids[rank] ?? best;
      logprobs[row * count + rank] = STEP_LOGPROB * (rank + 1);
    }
  });
  return { count, tokenIds, logprobs };
}

/** What is wanted of a prompt's rows, from the prompt's own tokens. */
export function* mockPromptPart(
  command: StepCommand,
  rows: PromptRows,
  {
    hiddenSize,
    vocabularySize,
    vocabulary,
  }: {
    readonly hiddenSize: number;
    readonly vocabularySize: number;
    readonly vocabulary: MockVocabulary;
  },
): Generator<Part> {
  const { firstRow, hiddenCount, logitCount, logits, scores } = rows;
  const tokenAt = (row: number) => command.tokenIds[firstRow + row] ?? 0;
  if (hiddenCount > 0) {
    const values = valuesOf(hiddenCount, hiddenSize, tokenAt);
    yield { kind: "hidden", first: 0, values };
  }
  if (logits) {
    yield { kind: "logits", first: 0, values: valuesOf(logitCount, vocabularySize, tokenAt) };
  }
  if (scores === null || scores.tokens.length === 0) return;
  const { wanted } = scores;
  const tokens = [...scores.tokens.subarray(0, logitCount)];
  yield {
    kind: "scores",
    first: 0,
    scores: tokens.map((token) => mockLogprobs(vocabulary, token, wanted)),
  };
}

const ROOT: TokenPlace = { seedLow: OTHER_SEED, seedHigh: 0, position: 0, previous: 0 };

/** Up to `count` ids that differ from each other and from `but`. */
function distinct(
  vocabulary: MockVocabulary,
  place: TokenPlace,
  count: number,
  but: number,
): readonly number[] {
  const endless = { ...vocabulary, endTokenId: null };
  const { tokenIds } = vocabulary;
  const first = mockToken(endless, { ...place, seedHigh: place.seedHigh ^ OTHER_SEED });
  const start = tokenIds.indexOf(first);
  const found: number[] = [];
  for (let step = 0; found.length < count && step < tokenIds.length; step++) {
    const id = tokenIds[(start + step) % tokenIds.length] ?? but;
    if (id !== but) found.push(id);
  }
  return found;
}

/** [rows, columns] of numbers between -1 and 1 that tell tokens apart. */
function valuesOf(rows: number, columns: number, tokenAt: (row: number) => number): Float32Array {
  const values = new Float32Array(rows * columns);
  for (let row = 0; row < rows; row++) {
    const token = tokenAt(row);
    for (let column = 0; column < columns; column++) {
      values[row * columns + column] = Math.sin((token + 1) * (column + 1));
    }
  }
  return values;
}

function entry(tokenId: number, rank: number): TokenLogprob {
  return { tokenId, logprob: STEP_LOGPROB * (rank + 1), rank: rank + 1 };
}
