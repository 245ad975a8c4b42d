import { openCheckpoint } from "#checkpoint";
import type { KvFormat, WeightFormat } from "#devices";
import { openPeerPort } from "#engine/exchange";
import { EncoderEngine } from "#engine/forward";
import type { LoadMessage } from "#engine/protocol";
import {
  describeModel,
  Encoder,
  type EncoderModel,
  loadEncoderWeights,
  randomWeights,
} from "#models";
import { refuseWindow } from "./attention-window.ts";
import { embeddingInfo, encoderUse, withoutHead } from "./embedding-info.ts";
import { openEngineDevice } from "./engine-device.ts";
import { withWay } from "./exchange-way.ts";
import { loadDecoder } from "./load-decoder.ts";
import { loadMemory } from "./load-memory.ts";
import { loadMock } from "./load-mock.ts";
import { LoadPhases } from "./load-phases.ts";
import {
  type LoadContext,
  type LoadedEngine,
  type LoadedModel,
  type Loading,
  watchWeights,
} from "./loading.ts";
import { weightFormatFor } from "./memory-plan.ts";
import { pipelinedOptions, refuseStages } from "./pipeline-stages.ts";

/** A checkpoint and options → a running engine. Throws what opening and loading throw. */
export async function loadEngine(given: LoadMessage, context: LoadContext): Promise<LoadedEngine> {
  const options = pipelinedOptions(given.options);
  const message = { ...given, options };
  if (options.mock !== null) {
    refuseStages(options, "a worker without a model");
    return await loadMock(message, options.mock, context);
  }
  const phases = new LoadPhases(context.clock);
  const checkpoint = await phases.run("files", () =>
    openCheckpoint(message.path, { weights: !options.randomWeights }),
  );
  try {
    const model = withoutHead(describeModel(checkpoint.config), checkpoint);
    const device = await phases.run("device", () => openEngineDevice(options, context));
    phases.watch(device);
    try {
      const sources = options.randomWeights ? randomWeights() : checkpoint.tensors;
      const loading = { message, context, phases, checkpoint, sources, device };
      const loaded =
        model.kind === "decoder"
          ? await withWay(wayOf(message, context), (way) =>
              options.kvTransfer?.memoryAlone === true
                ? loadMemory({ ...loading, way }, model)
                : loadDecoder({ ...loading, way }, model),
            )
          : await loadEncoder({ ...loading, way: null }, model);
      // From here on a step that allocates memory is a bug; an encoder's steps were not measured.
      if (model.kind === "decoder") device.seal();
      return { ...loaded, phases: phases.all };
    } catch (error) {
      device.dispose();
      throw error;
    }
  } finally {
    checkpoint.close();
  }
}

/**
 * Tokens of an encoder's full step on a GPU, at least: the default of `stepTokensMax` is for
 * streams on a CPU, and is one or two texts.
 */
const ACCELERATOR_STEP_TOKENS = 8192;

/** Null: blocks stay here. */
function wayOf({ options }: LoadMessage, { timer }: LoadContext) {
  const { kvTransfer } = options;
  return kvTransfer && (() => openPeerPort(kvTransfer, timer));
}

async function loadEncoder(loading: Loading, described: EncoderModel): Promise<LoadedModel> {
  const { message, context, phases, checkpoint, sources, device } = loading;
  const { options } = message;
  const { spec, embedding, pairScoring } = encoderUse(described, checkpoint);
  const model = { ...described, spec };
  refuseWindow(options, spec.architecture);
  refuseStages(options, `${spec.architecture}, an encoder`);
  for (const text of embedding.warnings) context.warn(text);
  const format: WeightFormat = weightFormatFor(options, checkpoint, device);
  const onProgress = watchWeights(loading);
  const weights = await phases.run("weights", () =>
    loadEncoderWeights(device, model, { sources, format, onProgress }),
  );
  const fullStep = device.accelerator ? ACCELERATOR_STEP_TOKENS : 0;
  const stepTokensMax = Math.max(options.scheduler.stepTokensMax, embedding.tokensMax, fullStep);
  const sequencesMax = options.scheduler.runningSequencesMax;
  const limits = { stepTokensMax, sequencesMax };
  const engine = new EncoderEngine({
    device,
    encoder: new Encoder({ device, spec, weights, limits }),
    embedding,
    scoresPairs: pairScoring !== null,
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
    contextTokensMax: embedding.tokensMax,
    attentionWindow: null,
    groupWindows: [null],
    hiddenSize: spec.hiddenSize,
    embedding:
      pairScoring === null
        ? embeddingInfo(embedding, spec, checkpoint.sentence?.modules != null)
        : null,
    pairScoring,
    device: device.description,
    weightFormat: format,
    kvFormat,
    blockTokens: options.kvCache.blockTokens,
    blocks: 0,
    bytesPerBlock: 0,
    fingerprint: null,
    kvAddress: null,
    speculative: null,
  } as const;
  return {
    engine,
    generator: null,
    device,
    info,
    kvEvents: null,
    memory: null,
    exchange: null,
    stages: null,
  };
}
