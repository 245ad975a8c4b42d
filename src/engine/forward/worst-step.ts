/**
 * What the largest steps need, found by running them before there is a pool: ops take their scratch
 * memory, libraries their workspaces, and the sampler what only few batches ask for. Whatever is
 * free afterwards is the pool's to take.
 */
import type { Device, KvBlockOptions, KvPool } from "#devices";
import type { Decoder, DecoderLimits, StepInput } from "#models";
import { type Sampler, SamplingParams, SequenceSampling } from "#sampling";

/** What runs, and how large steps may become. */
export interface WorstStepParts {
  readonly device: Device;
  readonly decoder: Decoder;
  readonly sampler: Sampler;
  readonly limits: DecoderLimits & { readonly contextTokensMax: number };
  /** How the cache will keep a block. */
  readonly block: KvBlockOptions;
}

/** Equal sequences, each with so many tokens. */
interface StepShape {
  readonly sequences: number;
  readonly queryTokens: number;
  /** What ops are told of the longest context. */
  readonly contextTokens: number;
  /** Every sequence draws from its only row: the kind of step that devices replay. */
  readonly draws: boolean;
}

/** The widest beam's, with as many end tokens; what more stop tokens take is next to nothing. */
const CANDIDATES = 128;

/** Everything that changes logits or reports them, at once. */
const ALL_WISHES = { temperature: 1, topK: 40, topP: 0.9, minP: 0.01, repetitionPenalty: 1.1 };

/** Runs all kinds of steps at all sizes, and leaves no trace but memory. Throws OUT_OF_MEMORY. */
export async function runWorstSteps(parts: WorstStepParts): Promise<void> {
  const { device, decoder, sampler, limits, block } = parts;
  sampler.reserve(CANDIDATES);
  // Every token lies nowhere, and every context is in the same block: only sizes matter.
  const cache = device.allocateKvPool({ ...block, blocks: 1 });
  const arrays = makeArrays(limits);
  try {
    for (const shape of shapesOf(parts, cache)) {
      decoder.stage(fillStep(arrays, shape), sampler.tokens);
      decoder.forward(cache);
    }
    await drawAll(parts);
    await device.synchronize();
  } finally {
    device.release(cache);
  }
}

/**
 * Prompts alone and many together, then decoding; sizes in between, too, since kernels for few rows
 * split their work in other ways. The last one has the most rows to draw from.
 */
function* shapesOf({ decoder, limits }: WorstStepParts, cache: KvPool): Generator<StepShape> {
  const { stepTokensMax, sequencesMax, contextTokensMax: contextTokens } = limits;
  for (const queryTokens of powersTo(Math.min(stepTokensMax, contextTokens))) {
    yield { sequences: 1, queryTokens, contextTokens, draws: false };
  }
  const sequences = Math.min(sequencesMax, stepTokensMax);
  const queryTokens = Math.min(Math.floor(stepTokensMax / sequences), contextTokens);
  yield { sequences, queryTokens, contextTokens, draws: false };
  for (const count of powersTo(sequences)) {
    // A long context is cut among blocks as long as there are few rows: neither end is the worst.
    // Contexts that are taken for the same one are one step, which must not be kept for this cache.
    const pad = (context: number) => decoder.paddedContext(context, count, cache);
    for (const context of new Set(contextsTo(contextTokens).map(pad))) {
      yield { sequences: count, queryTokens: 1, contextTokens: context, draws: true };
    }
  }
}

/** Contexts that differ much, shortest first, and `most` itself. */
function contextsTo(most: number): number[] {
  const contexts: number[] = [];
  for (let tokens = 2048; tokens < most; tokens *= 4) contexts.push(tokens);
  return [...contexts, most];
}

/** 1, 2, 4 and so on, and `most` itself. */
function powersTo(most: number): number[] {
  const powers: number[] = [];
  for (let power = 1; power < most; power *= 2) powers.push(power);
  return [...powers, most];
}

type StepArrays = Pick<
  StepInput,
  "tokenIds" | "positions" | "slots" | "queryStarts" | "contextLengths" | "blockTables"
>;

function makeArrays(limits: DecoderLimits): StepArrays {
  const { stepTokensMax, sequencesMax, blocksPerSequenceMax } = limits;
  return {
    tokenIds: new Int32Array(stepTokensMax),
    positions: new Int32Array(stepTokensMax),
    slots: new Int32Array(stepTokensMax).fill(-1),
    queryStarts: new Int32Array(sequencesMax + 1),
    contextLengths: new Int32Array(sequencesMax),
    blockTables: new Int32Array(sequencesMax * blocksPerSequenceMax),
  };
}

/** Contexts are short, so that it takes no time, but ops make room for long ones. */
function fillStep(arrays: StepArrays, shape: StepShape): StepInput {
  const { sequences, queryTokens, contextTokens, draws } = shape;
  const tokens = sequences * queryTokens;
  for (let token = 0; token < tokens; token++) arrays.positions[token] = token % queryTokens;
  for (let s = 0; s <= sequences; s++) arrays.queryStarts[s] = s * queryTokens;
  arrays.contextLengths.fill(queryTokens, 0, sequences);
  return {
    ...arrays,
    ...{ tokens, sequences, draws },
    queryLengthMax: queryTokens,
    contextLengthMax: contextTokens,
  };
}

/** As many rows as there may be, drawn with every wish, and searched. */
async function drawAll({ decoder, sampler, limits }: WorstStepParts): Promise<void> {
  const { vocabularySize } = decoder.spec;
  const params = SamplingParams.parse({ ...ALL_WISHES, logprobs: 1 });
  const promptTokens = [0, 1];
  const rows = Array.from({ length: limits.logitRowsMax }, (_, seed) => ({
    sampling: new SequenceSampling({
      ...{ params, seed, promptTokens, vocabularySize },
      endTokenIds: [],
    }),
    position: promptTokens.length,
  }));
  const indices = new Int32Array(rows.length);
  decoder.hidden(indices);
  await sampler.sample(decoder.logits(indices), rows);
  await sampler.topCandidates(decoder.logits(indices), [...rows.keys()], CANDIDATES);
}
