/** A tokenizer and a cost model → an engine whose tokens are made up. */
import { createHash } from "node:crypto";
import { EngineError } from "#base";
import { type Checkpoint, openCheckpoint } from "#checkpoint";
import { CommandBuilder, CommandRunner, Engine } from "#engine/loop";
import {
  type CostModel,
  MockExecutor,
  MockMemory,
  type MockVocabulary,
  poolBlocks,
  speededUp,
  wordTokens,
} from "#engine/mock";
import type { EngineInfo, EngineOptions, LoadMessage, MockOptions } from "#engine/protocol";
import { type DecoderSpec, describeModel } from "#models";
import { BatchWriter } from "#sampling";
import { Scheduler } from "#scheduler";
import { compilersOf } from "./compilers.ts";
import { decoderEmbedding } from "./embedding-info.ts";
import { endTokens } from "./end-tokens.ts";
import { LoadPhases } from "./load-phases.ts";
import type { LoadContext, LoadedEngine } from "./loading.ts";

/** Rows of logits a step may need at once beside one per sequence, as of a model. */
const SAMPLED_ROWS_MIN = 64;

/** What is read of the model's files. */
interface MockedModel {
  readonly checkpoint: Checkpoint;
  readonly spec: DecoderSpec;
  readonly cost: CostModel;
  readonly endTokenIds: readonly number[];
}

/** Reads the model's config.json and tokenizer alone. Throws what opening throws. */
export async function loadMock(
  { path, options }: LoadMessage,
  mock: MockOptions,
  context: LoadContext,
): Promise<LoadedEngine> {
  const phases = new LoadPhases(context.clock);
  return await phases.run("files", () => {
    const checkpoint = openCheckpoint(path, { weights: false });
    try {
      const spec = specOf(checkpoint, options);
      const endTokenIds = endTokens(spec.eosTokenIds, checkpoint.generationConfig);
      const cost = speededUp(mock.costModel, mock.speedup);
      const loaded = createEngine(
        { checkpoint, spec, cost, endTokenIds },
        { options, mock, context },
      );
      return { ...loaded, phases: phases.all };
    } finally {
      checkpoint.close();
    }
  });
}

function specOf(checkpoint: Checkpoint, { speculative }: EngineOptions): DecoderSpec {
  const model = describeModel(checkpoint.config);
  if (model.kind !== "decoder") {
    throw new EngineError(
      "INVALID_ARGUMENT",
      "Cannot mock the model: it must be a decoder, this one is an encoder",
      { param: "model" },
    );
  }
  if (speculative.kind !== "off") {
    throw new EngineError(
      "INVALID_ARGUMENT",
      `Cannot mock drafts: speculative must be off, current value is ${speculative.kind}`,
      { param: "speculative" },
    );
  }
  return model.spec;
}

interface MockScope {
  readonly options: EngineOptions;
  readonly mock: MockOptions;
  readonly context: LoadContext;
}

function createEngine(model: MockedModel, scope: MockScope): Omit<LoadedEngine, "phases"> {
  const { checkpoint, spec, cost, endTokenIds } = model;
  const { options, context } = scope;
  const { clock, timer, onWake } = context;
  const { vocabularySize, hiddenSize } = spec;
  const memory = openMemory(cost, scope);
  const sampledRowsMax = Math.max(options.scheduler.runningSequencesMax, SAMPLED_ROWS_MIN);
  const scheduler = new Scheduler({
    config: options.scheduler,
    cache: memory.cache,
    contextTokensMax: cost.contextTokensMax,
    overlapSteps: options.overlapSteps ?? true,
    sampledRowsMax,
    estimates: memory.cost,
  });
  const { contextTokensMax } = scheduler;
  const vocabulary = vocabularyOf(model, scope.mock);
  const shared = { model: cost, memory, vocabulary, endTokenIds, clock, timer };
  const executor = new MockExecutor({ ...shared, hiddenSize, vocabularySize });
  const embedding = decoderEmbedding(checkpoint, spec, contextTokensMax);
  const engine = new Engine({
    scheduler,
    runner: new CommandRunner({
      executor,
      builder: builderOf(options, { sampledRowsMax, contextTokensMax }),
      writer: new BatchWriter({ rowsMax: sampledRowsMax, vocabularySize }),
    }),
    memory,
    overlapSteps: options.overlapSteps ?? true,
    prefillMsMax: options.scheduler.prefillMsMax,
    ...{ clock, onWake, sampledRowsMax },
    shape: {
      ...{ vocabularySize, eosTokenIds: endTokenIds, contextTokensMax },
      blockTokens: options.kvCache.blockTokens,
      embedding: embedding.pooling,
      promptLogprobsMax: options.promptLogprobsMax,
      ...{ treePathMax: 0, earlierOutputs: null },
    },
    createCompiler: compilersOf({ options, vocabularySize, eosTokenIds: endTokenIds, clock }),
  });
  const info = infoOf(model, scope, {
    ...{ memory, contextTokensMax, embedding: embedding.info },
    fingerprint: fingerprintOf(vocabulary),
  });
  const { cache: kvEvents } = memory;
  return {
    engine,
    generator: engine,
    device: NO_DEVICE,
    info,
    memory,
    kvEvents,
    exchange: null,
    stages: null,
  };
}

const NO_DEVICE = { dispose: () => {} };

function openMemory(cost: CostModel, { options, mock, context }: MockScope): MockMemory {
  const { kvCache } = options;
  const { blockTokens } = kvCache;
  const [blocks, hostBlocks, diskBlocks] = mock.blocks ?? poolBlocks(cost, blockTokens);
  const { clock, timer, onWake } = context;
  return new MockMemory({
    shape: {
      ...{ blocks, blockTokens, hostBlocks, diskBlocks },
      offloadPriorityMin: kvCache.offloadPriorityMin,
      prefixCaching: kvCache.prefixCaching,
      partialReuse: kvCache.partialReuse,
      copyOnPartialReuse: kvCache.copyOnPartialReuse,
      evictionPolicy: kvCache.evictionPolicy,
      events: kvCache.eventBufferMax > 0 ? kvCache.hashAlgorithm : null,
    },
    ...{ model: cost, clock, timer, onFinished: onWake },
  });
}

function builderOf(
  { scheduler, kvCache: { blockTokens } }: EngineOptions,
  limits: { readonly sampledRowsMax: number; readonly contextTokensMax: number },
): CommandBuilder {
  return new CommandBuilder({
    stepTokensMax: scheduler.stepTokensMax,
    sequencesMax: scheduler.runningSequencesMax,
    blocksPerSequenceMax: Math.ceil(limits.contextTokensMax / blockTokens),
    ...{ blockTokens, groups: 1, treeTokensMax: 0 },
  });
}

/** Words of the tokenizer where it has them, else all ids but those that end outputs. */
function vocabularyOf(
  { checkpoint, spec, endTokenIds }: MockedModel,
  { meanOutputTokens }: MockOptions,
): MockVocabulary {
  const words = wordTokens(checkpoint.tokenizer?.tokenizerJson).map(({ id }) => id);
  const known = words.filter((id) => id < spec.vocabularySize);
  const all = Array.from({ length: spec.vocabularySize }, (_, id) => id);
  const tokenIds = (known.length > 0 ? known : all).filter((id) => !endTokenIds.includes(id));
  return {
    tokenIds: Int32Array.from(tokenIds),
    endTokenId: meanOutputTokens === null ? null : (endTokenIds[0] ?? null),
    meanOutputTokens: meanOutputTokens ?? Number.POSITIVE_INFINITY,
  };
}

function infoOf(
  { spec, cost }: MockedModel,
  { options, mock }: MockScope,
  found: Pick<EngineInfo, "contextTokensMax" | "embedding" | "fingerprint"> & {
    readonly memory: MockMemory;
  },
): EngineInfo {
  const { memory, contextTokensMax, embedding, fingerprint } = found;
  const faster = mock.speedup === 1 ? "" : `, ${mock.speedup} times as fast`;
  return {
    architecture: spec.architecture,
    kind: "decoder",
    parameters: 0,
    vocabularySize: spec.vocabularySize,
    contextTokensMax,
    attentionWindow: null,
    groupWindows: [null],
    hiddenSize: spec.hiddenSize,
    embedding,
    pairScoring: null,
    device: `no device: costs of ${cost.name}${faster}`,
    weightFormat: "none",
    kvFormat: "none",
    blockTokens: options.kvCache.blockTokens,
    blocks: memory.cache.totalBlocks,
    bytesPerBlock: memory.bytesPerBlock,
    speculative: null,
    fingerprint,
    kvAddress: null,
  };
}

/** Mocks of one vocabulary make up the same tokens, however fast they are. */
function fingerprintOf({ tokenIds, endTokenId, meanOutputTokens }: MockVocabulary): string {
  const hash = createHash("sha256").update(`${endTokenId} ${meanOutputTokens} ${tokenIds}`);
  return `mock-${hash.digest("hex")}`;
}
