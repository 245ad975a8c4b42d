import { type Clock, EngineError } from "#base";
import { type Checkpoint, openCheckpoint } from "#checkpoint";
import { type Device, type KvFormat, openDevice, type WeightFormat } from "#devices";
import { KvCache, type KvSnapshot, type NumberedKvEvent } from "#kvcache";
import {
  Decoder,
  type DecoderModel,
  describeModel,
  Encoder,
  type EncoderModel,
  loadDecoderWeights,
  loadEncoderWeights,
} from "#models";
import { GrammarCompiler, Sampler } from "#sampling";
import { Scheduler } from "#scheduler";
import { DecoderRunner } from "./decoder-runner.ts";
import { EncoderEngine } from "./encoder-engine.ts";
import { Engine } from "./engine.ts";
import { bytesPerBlock, kvFormatFor, poolBlocks, weightFormatFor } from "./memory-plan.ts";
import type { EngineInfo, LoadMessage } from "./protocol.ts";
import { StepBuilder } from "./step-builder.ts";

/** Rows of logits a step may need at once: one per running sequence, or a piece of a prompt. */
const PROMPT_LOGIT_ROWS = 64;

export interface LoadedEngine {
  readonly engine: Engine | EncoderEngine;
  readonly device: Device;
  readonly info: EngineInfo;
  /** Where the cache's events come from; null for a model without a cache. */
  readonly kvEvents: KvEventOutlet | null;
}

/** What a cache tells of itself: `KvCache` is one. */
export interface KvEventOutlet {
  /** All events since the last call; none where the cache tells nothing. */
  takeEvents(): readonly NumberedKvEvent[];
  /** All that the taken events add up to; null where the cache tells nothing. */
  snapshot(): KvSnapshot | null;
}

export interface LoadContext {
  readonly clock: Clock;
  readonly warn: (message: string) => void;
  /** Called when work became possible outside a step. */
  readonly onWake: () => void;
}

/** A checkpoint and options → an engine that runs. Throws what opening and loading throw. */
export async function loadEngine(
  message: LoadMessage,
  context: LoadContext,
): Promise<LoadedEngine> {
  const { options } = message;
  const checkpoint = await openCheckpoint(message.path);
  try {
    const model = describeModel(checkpoint.config);
    const device = openDevice({
      kind: options.device,
      warn: context.warn,
      ...(options.threads === null ? {} : { threads: options.threads }),
      ...(options.isa === null ? {} : { isa: options.isa }),
    });
    try {
      const loading = { message, context, checkpoint, device };
      return model.kind === "decoder" ? loadDecoder(loading, model) : loadEncoder(loading, model);
    } catch (error) {
      device.dispose();
      throw error;
    }
  } finally {
    checkpoint.close();
  }
}

interface Loading {
  readonly message: LoadMessage;
  readonly context: LoadContext;
  readonly checkpoint: Checkpoint;
  readonly device: Device;
}

function loadDecoder(loading: Loading, model: DecoderModel): LoadedEngine {
  const { message, context, checkpoint, device } = loading;
  const { options } = message;
  const { spec } = model;
  const format = weightFormatFor(options, checkpoint, device);
  const kvFormat = kvFormatFor(options, format);
  const weights = loadDecoderWeights(device, model, { sources: checkpoint.tensors, format });
  const { blockTokens, prefixCaching, evictionPolicy } = options.kvCache;
  const { eventBufferMax, hashAlgorithm } = options.kvCache;
  const kvHeads = spec.kvHeads;
  const shape = { layers: spec.layers.length, blockTokens, kvHeads, headDim: spec.headDim };
  const blocks = poolBlocks({ ...shape, format: kvFormat }, options, {
    contextTokensMax: options.scheduler.contextTokensMax ?? spec.contextTokensMax,
    availableBytes: device.memory().availableBytes,
  });
  const cache = new KvCache({
    blocks,
    blockTokens,
    prefixCaching,
    evictionPolicy,
    events: eventBufferMax > 0 ? hashAlgorithm : null,
  });
  const scheduler = new Scheduler({
    config: options.scheduler,
    cache,
    contextTokensMax: spec.contextTokensMax,
  });
  const kvCache = device.allocateKvCache({ ...shape, blocks, format: kvFormat });
  const runner = createRunner(loading, { spec, weights, scheduler, kvCache });
  const eosTokenIds = endTokens(spec.eosTokenIds, checkpoint.generationConfig);
  const engine = new Engine({
    scheduler,
    runner,
    clock: context.clock,
    onWake: context.onWake,
    shape: { vocabularySize: spec.vocabularySize, hiddenSize: spec.hiddenSize, eosTokenIds },
    createCompiler: (vocabulary) =>
      new GrammarCompiler({
        tokens: vocabulary.tokens.slice(0, spec.vocabularySize),
        type: vocabulary.type,
        vocabularySize: spec.vocabularySize,
        stopTokenIds: eosTokenIds,
      }),
  });
  const info = {
    architecture: spec.architecture,
    kind: "decoder",
    parameters: weights.parameters,
    vocabularySize: spec.vocabularySize,
    contextTokensMax: scheduler.contextTokensMax,
    hiddenSize: spec.hiddenSize,
    device: device.description,
    weightFormat: format,
    kvFormat,
    blockTokens,
    blocks,
    bytesPerBlock: bytesPerBlock({ ...shape, format: kvFormat }),
  } as const;
  return { engine, device, info, kvEvents: cache };
}

type RunnerParts = Pick<ConstructorParameters<typeof Decoder>[0], "spec" | "weights"> & {
  readonly scheduler: Scheduler;
  readonly kvCache: ReturnType<Device["allocateKvCache"]>;
};

function createRunner({ message, device }: Loading, parts: RunnerParts): DecoderRunner {
  const { spec, weights, scheduler, kvCache } = parts;
  const { stepTokensMax, runningSequencesMax } = message.options.scheduler;
  const { blockTokens } = message.options.kvCache;
  const { contextTokensMax } = scheduler;
  const blocksPerSequenceMax = Math.ceil(contextTokensMax / blockTokens);
  const sequencesMax = runningSequencesMax;
  const logitRowsMax = Math.max(sequencesMax, PROMPT_LOGIT_ROWS);
  const limits = { stepTokensMax, sequencesMax, blocksPerSequenceMax };
  return new DecoderRunner({
    device,
    kvCache,
    logitRowsMax: PROMPT_LOGIT_ROWS,
    decoder: new Decoder({
      device,
      spec,
      weights,
      limits: { ...limits, logitRowsMax, contextTokensMax },
    }),
    sampler: new Sampler({ device, rowsMax: logitRowsMax, vocabularySize: spec.vocabularySize }),
    builder: new StepBuilder({ ...limits, blockTokens }),
  });
}

function loadEncoder(loading: Loading, model: EncoderModel): LoadedEngine {
  const { message, context, checkpoint, device } = loading;
  const { options } = message;
  const { spec } = model;
  const format: WeightFormat = weightFormatFor(options, checkpoint, device);
  const weights = loadEncoderWeights(device, model, { sources: checkpoint.tensors, format });
  const stepTokensMax = Math.max(options.scheduler.stepTokensMax, spec.contextTokensMax);
  const sequencesMax = options.scheduler.runningSequencesMax;
  const limits = { stepTokensMax, sequencesMax };
  const engine = new EncoderEngine({
    device,
    encoder: new Encoder({ device, spec, weights, limits }),
    clock: context.clock,
    ...limits,
    waitingMax: options.scheduler.waitingSequencesMax,
  });
  const kvFormat: KvFormat = "f32";
  const info = {
    architecture: spec.architecture,
    kind: "encoder",
    parameters: weights.parameters,
    vocabularySize: spec.vocabularySize,
    contextTokensMax: spec.contextTokensMax,
    hiddenSize: spec.hiddenSize,
    device: device.description,
    weightFormat: format,
    kvFormat,
    blockTokens: options.kvCache.blockTokens,
    blocks: 0,
    bytesPerBlock: 0,
  } as const;
  return { engine, device, info, kvEvents: null };
}

/** End tokens of config.json and generation_config.json together. */
function endTokens(
  fromConfig: readonly number[],
  generationConfig: Checkpoint["generationConfig"],
): number[] {
  const value = generationConfig?.eos_token_id;
  const more = Array.isArray(value) ? value : value === undefined || value === null ? [] : [value];
  if (!more.every((id): id is number => Number.isInteger(id))) {
    throw new EngineError(
      "CHECKPOINT_INVALID",
      "Cannot read generation_config.json: eos_token_id must be an id or a list of ids",
      { param: "eos_token_id" },
    );
  }
  return [...new Set([...fromConfig, ...more])];
}
