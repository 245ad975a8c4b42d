/**
 * Memory of the largest steps, measured by running them before the pool is allocated: ops allocate
 * their scratch memory, libraries their workspaces, and the sampler memory that only few batches
 * need. The pool may take all memory that is free afterwards.
 */
import type { Device, KvBlockOptions, KvPool } from "#devices";
import {
  type Decoder,
  type DecoderLimits,
  type DraftNetwork,
  type KvDraftNetwork,
  SOME_DRAW,
  type StepInput,
} from "#models";
import { BatchWriter, type Sampler, SamplingParams, SequenceSampling } from "#sampling";

/** What runs, and how large steps may become. */
export interface WorstStepParts {
  readonly device: Device;
  readonly decoder: Decoder;
  readonly sampler: Sampler;
  readonly limits: DecoderLimits & { readonly contextTokensMax: number };
  /** How the cache will keep a block. */
  readonly block: KvBlockOptions;
  /** The network that drafts from hidden states; null: there is none. */
  readonly network: DraftNetwork | null;
  /** Whether steps give rows of drafts to sequences of their own. */
  readonly rowsApart: boolean;
  /** The one that has keys and values of its own, and how they will be kept; null: none. */
  readonly follower: { readonly network: KvDraftNetwork; readonly block: KvBlockOptions } | null;
}

/** Equal sequences, each with so many tokens. */
interface StepShape {
  readonly sequences: number;
  readonly queryTokens: number;
  /** The longest context that is passed to ops. */
  readonly contextTokens: number;
  /** Every sequence samples from its only row: the kind of step that runs as a CUDA graph. */
  readonly samplesAll: boolean;
  /** Some sequence's tokens are a tree. */
  readonly isTree?: boolean;
  /** Sequences are rows of drafts. */
  readonly rowsApart?: boolean;
}

/**
 * Candidates of the widest beam, with as many end tokens; further stop tokens need hardly any
 * memory.
 */
const CANDIDATES = 128;

/** Tokens of a sequence that fill the rows of a decoding kernel, also without shared heads. */
const FEW_TOKENS = 16;
/** Most sequences that decoding kernels support: `sequencesMax` of the cuda device's. */
const DECODED_SEQUENCES_MAX = 1024;
/** Rows of drafts beyond which all are attended to as other decoding steps. */
const DRAFT_ROWS = 1024;

/** All options that change logits, at once. */
const ALL_WISHES = { temperature: 1, topK: 40, topP: 0.9, minP: 0.01, repetitionPenalty: 1.1 };

/** Runs all kinds of steps at all sizes, and leaves only memory allocated. Throws OUT_OF_MEMORY. */
export async function runWorstSteps(parts: WorstStepParts): Promise<void> {
  const { device, decoder, sampler, limits, block, follower } = parts;
  sampler.reserve(CANDIDATES);
  // No token has a slot, and every context is in the same block: only sizes matter.
  const cache = device.allocateKvPool({ ...block, blocks: 1 });
  const beside = follower && device.allocateKvPool({ ...follower.block, blocks: 1 });
  const arrays = makeArrays(limits, decoder.layout.groups.length);
  const masks = new Uint32Array(limits.stepTokensMax * Math.ceil((limits.treeTokensMax ?? 0) / 32));
  try {
    for (const shape of shapesOf(parts, cache)) {
      const step = fillStep(arrays, shape, masks);
      decoder.stage(step, sampler.tokens);
      decoder.forward(cache);
      if (beside !== null) follower?.network.fill(step, beside, sampler.tokens);
    }
    if (beside !== null) follower?.network.runSizes(beside);
    // A part without the output layer samples nothing.
    if (decoder.spec.part?.ends !== false) await sampleAll(parts);
    await draftAll(parts);
    await device.synchronize();
  } finally {
    device.release(cache);
    if (beside !== null) device.release(beside);
  }
}

/**
 * Prompts alone and many together, then decoding; sizes in between, too, since kernels split the
 * work of few rows differently. The last shape samples from the most rows.
 */
function* shapesOf(parts: WorstStepParts, cache: KvPool): Generator<StepShape> {
  const { decoder, limits, rowsApart } = parts;
  const { stepTokensMax, sequencesMax, contextTokensMax: contextTokens } = limits;
  for (const queryTokens of powersTo(Math.min(stepTokensMax, contextTokens))) {
    yield { sequences: 1, queryTokens, contextTokens, samplesAll: false };
  }
  const sequences = Math.min(sequencesMax, stepTokensMax);
  const queryTokens = Math.min(Math.floor(stepTokensMax / sequences), contextTokens);
  yield { sequences, queryTokens, contextTokens, samplesAll: false };
  // A few tokens of each sequence: kernels that decode take them with more rows at a time, of as
  // many sequences as they support.
  const few = Math.min(FEW_TOKENS, contextTokens);
  const several = Math.min(sequences, DECODED_SEQUENCES_MAX, Math.floor(stepTokensMax / few));
  if (several > 1) {
    yield { sequences: several, queryTokens: few, contextTokens, samplesAll: false };
  }
  yield* treesOf(limits);
  if (rowsApart) yield* rowsApartOf(decoder, limits, cache);
  for (const count of powersTo(sequences)) {
    // A long context is split among blocks while rows are few: neither end is the worst. Contexts
    // of equal padding share a graph key: a second run would capture a graph of this cache.
    const pad = (context: number) => decoder.paddedContext(context, count, cache);
    for (const context of new Set(contextsTo(contextTokens).map(pad))) {
      yield { sequences: count, queryTokens: 1, contextTokens: context, samplesAll: true };
    }
  }
}

/** Few and many trees, small and large: none of their kernels is a decoding step's. */
function* treesOf(limits: WorstStepParts["limits"]): Generator<StepShape> {
  const {
    stepTokensMax,
    sequencesMax,
    contextTokensMax: contextTokens,
    treeTokensMax = 0,
  } = limits;
  for (const tree of treeTokensMax === 0 ? [] : [2, treeTokensMax]) {
    const queryTokens = Math.min(tree, contextTokens, stepTokensMax);
    const most = Math.min(sequencesMax, Math.floor(stepTokensMax / queryTokens));
    for (const sequences of powersTo(most)) {
      yield { sequences, queryTokens, contextTokens, samplesAll: false, isTree: true };
    }
  }
}

/** Few and many rows of drafts that are sequences of their own, of short contexts. */
function* rowsApartOf(
  decoder: Decoder,
  limits: WorstStepParts["limits"],
  cache: KvPool,
): Generator<StepShape> {
  const { stepTokensMax, sequencesMax, treeTokensMax = 0 } = limits;
  const most = Math.min(sequencesMax, stepTokensMax, DRAFT_ROWS);
  for (const sequences of powersTo(most)) {
    const contextTokens = decoder.paddedContext(1, sequences, cache, true);
    const shape = { sequences, queryTokens: 1, contextTokens, samplesAll: true, rowsApart: true };
    yield shape;
    if (treeTokensMax > 0) yield { ...shape, isTree: true };
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

const NO_STARTS = new Int32Array(DRAFT_ROWS);

type StepArrays = Pick<
  StepInput,
  "tokenIds" | "positions" | "queryStarts" | "contextLengths" | "tables"
>;

function makeArrays(limits: DecoderLimits, groups: number): StepArrays {
  const { stepTokensMax, sequencesMax, blocksPerSequenceMax } = limits;
  const tables = {
    slots: new Int32Array(stepTokensMax).fill(-1),
    blockTables: new Int32Array(sequencesMax * blocksPerSequenceMax),
  };
  return {
    tokenIds: new Int32Array(stepTokensMax),
    positions: new Int32Array(stepTokensMax),
    queryStarts: new Int32Array(sequencesMax + 1),
    contextLengths: new Int32Array(sequencesMax),
    tables: Array.from({ length: groups }, () => tables),
  };
}

/** Contexts are short to save time, but ops allocate memory for long ones. */
function fillStep(arrays: StepArrays, shape: StepShape, masks: Uint32Array): StepInput {
  const { sequences, queryTokens, contextTokens, samplesAll } = shape;
  const { isTree = false, rowsApart = false } = shape;
  const tokens = sequences * queryTokens;
  for (let token = 0; token < tokens; token++) arrays.positions[token] = token % queryTokens;
  for (let s = 0; s <= sequences; s++) arrays.queryStarts[s] = s * queryTokens;
  arrays.contextLengths.fill(queryTokens, 0, sequences);
  return {
    ...arrays,
    ...{ tokens, sequences, samplesAll, rowsApart },
    ...(isTree && { treeMask: masks }),
    ...(isTree && rowsApart && { treeStarts: NO_STARTS.subarray(0, sequences) }),
    queryLengthMax: queryTokens,
    contextLengthMax: contextTokens,
  };
}

/** Samples and searches the largest number of rows, with all options. */
async function sampleAll({ decoder, sampler, limits }: WorstStepParts): Promise<void> {
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
  const writer = new BatchWriter({ rowsMax: rows.length, vocabularySize });
  const logits = decoder.logits(indices);
  const batch = writer.batch(rows);
  for (const edits of writer.edits(rows, new Map())) sampler.edit(logits, batch, edits);
  await (await sampler.start(logits, batch)).take();
  await sampler.topCandidates(decoder.logits(indices), [...rows.keys()], CANDIDATES);
}

/** Drafts for all sequences, at the largest shape. */
async function draftAll({ decoder, network }: WorstStepParts): Promise<void> {
  if (network === null) return;
  const { sequencesMax, widthMax: width, lengthMax: length } = network.limits;
  const rows = new Int32Array(sequencesMax);
  for (const each of [null, SOME_DRAW]) {
    const wishes = Array.from({ length: sequencesMax }, () => ({ width, length, draw: each }));
    await network.branches(decoder.hidden(rows), rows, wishes);
  }
}
