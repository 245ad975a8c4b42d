/** A drafter's checkpoint → a network beside the model, on its device. */
import { existsSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { assert, EngineError, TREE_NODES_MAX } from "#base";
import { type Checkpoint, openCheckpoint } from "#checkpoint";
import type { Device, DeviceTensor, WeightFormat } from "#devices";
import { type DrafterInfo, type EngineOptions, loadedDrafts } from "#engine/protocol";
import {
  baseFingerprint,
  checkBase,
  type DecoderModel,
  type DecoderSpec,
  DraftModel,
  type DraftNetwork,
  type DraftNetworkLimits,
  describeDraftModel,
  describeEagle3,
  describeMedusa,
  describeReDrafter,
  EAGLE3_KV_LAYERS,
  Eagle3,
  type KvDraftLimits,
  type KvDraftNetwork,
  loadDecoderWeights,
  loadEagle3Weights,
  loadMedusaWeights,
  loadReDrafterWeights,
  type MadeFor,
  Medusa,
  ReDrafter,
  type WholeDecoderWeights,
} from "#models";
import type { DraftKind } from "#sampling";
import { servedTokens } from "./attention-window.ts";
import type { PlannedDrafter } from "./cache-plan.ts";
import type { Loading } from "./loading.ts";

/** A drafter beside the model. */
export interface LoadedDrafter {
  readonly info: DrafterInfo;
  /** What drafts from hidden states; null: it has keys and values of its own. */
  readonly network: DraftNetwork | null;
  readonly follower: LoadedFollower | null;
}

/** The weights of a drafter with keys and values of its own, before its pool is planned. */
export interface LoadedFollower extends PlannedDrafter {
  /** Layers of the model whose inputs it reads: `DecoderOptions.taps`. */
  readonly taps: readonly number[];
  /** What its keys and values depend on. */
  readonly checkpoint: Checkpoint;
  readonly spec: Pick<DecoderSpec, "positions" | "contextTokensMax">;
  /** By layer of its pool: the window of its own; null: none. */
  readonly windows: readonly (number | null)[];
  /** Allocates its memory. `tapped`: of the model's decoder. Throws OUT_OF_MEMORY. */
  open(limits: KvDraftLimits, tapped: readonly DeviceTensor[]): KvDraftNetwork;
}

/** The model that drafts are for, as it was loaded. */
export interface DraftedModel {
  readonly model: DecoderModel;
  readonly weights: WholeDecoderWeights;
}

/**
 * The network of the options' kind of drafts; null: there is none, or it needs none. Throws
 * MODEL_NOT_FOUND, CHECKPOINT_INVALID, UNSUPPORTED_MODEL and OUT_OF_MEMORY, and INVALID_ARGUMENT
 * for a drafter of another model.
 */
export function loadDrafter(loading: Loading, drafted: DraftedModel): LoadedDrafter | null {
  const { options, path: modelPath } = loading.message;
  const { kind } = options.speculative;
  if (kind === "off" || kind === "lookup") return null;
  assert(kind !== "auto", "Cannot load a drafter before it is known which there are");
  const path = drafterPath(options, { kind, modelPath });
  const checkpoint = openCheckpoint(path);
  try {
    const check = (spec: MadeFor): void => {
      const { model } = drafted;
      const fingerprint = options.randomWeights ? null : baseFingerprint(model, loading.sources);
      checkBase(spec, { spec: model.spec, fingerprint }, path);
    };
    const parts = { loading, drafted, checkpoint, check };
    return { info: infoOf(checkpoint), ...openKind(kind, parts) };
  } finally {
    checkpoint.close();
  }
}

interface NetworkParts {
  readonly loading: Loading;
  readonly drafted: DraftedModel;
  readonly checkpoint: Checkpoint;
  /** Throws for a drafter of another model. */
  readonly check: (spec: MadeFor) => void;
}

function openKind(
  kind: Exclude<DraftKind, "lookup">,
  parts: NetworkParts,
): Omit<LoadedDrafter, "info"> {
  switch (kind) {
    case "redrafter":
      return { network: openReDrafter(parts), follower: null };
    case "medusa":
      return { network: openMedusa(parts), follower: null };
    case "draft-model":
      return { network: null, follower: openDraftModel(parts) };
    case "eagle3":
      return { network: null, follower: openEagle3(parts) };
  }
}

function openDraftModel({ loading, drafted, checkpoint, check }: NetworkParts): LoadedFollower {
  const { device, message } = loading;
  const served = servedTokens(message.options, drafted.model.spec);
  const { model, madeFor, kv } = describeDraftModel(checkpoint.config, served);
  check(madeFor);
  const { spec } = model;
  const { vocabularySize } = spec;
  const { format } = drafted.weights;
  const weights = loadDecoderWeights(device, model, { sources: checkpoint.tensors, format });
  return {
    ...{ ...shapeOf(loading, vocabularySize), kv, checkpoint, spec },
    windows: spec.layers.map(({ window }) => window),
    ...{ takesFirstSlot: false, taps: [] },
    open: (limits) => new DraftModel({ device, spec, weights, limits }),
  };
}

function openEagle3({ loading, drafted, checkpoint, check }: NetworkParts): LoadedFollower {
  const { device, message } = loading;
  if (message.options.kvCache.attentionSinks > 0) {
    throw new EngineError(
      "INVALID_ARGUMENT",
      "Cannot draft by eagle3 with attention sinks: attentionSinks must be 0, current value is " +
        `${message.options.kvCache.attentionSinks}; leave them out, or draft by lookup`,
      { param: "attentionSinks" },
    );
  }
  const spec = describeEagle3(checkpoint.config, drafted.model.spec);
  check(spec.madeFor);
  const { path, tensors, integers } = checkpoint;
  const files = { path, tensors, integers, has: (name: string) => tensors.has(name) };
  const { format, tokens: baseTokens } = drafted.weights;
  const weights = loadEagle3Weights(device, spec, { files, format, baseTokens });
  const { kvHeads, headDim, rope: positions, contextTokensMax, taps } = spec;
  return {
    kv: { layers: EAGLE3_KV_LAYERS, kvHeads, headDim },
    ...{ ...shapeOf(loading, spec.draftVocabularySize), checkpoint, taps, takesFirstSlot: true },
    spec: { positions, contextTokensMax },
    windows: Array.from({ length: EAGLE3_KV_LAYERS }, () => null),
    open: (limits, tapped) => new Eagle3({ device, spec, weights, limits, tapped }),
  };
}

function openReDrafter({ loading, drafted, checkpoint, check }: NetworkParts): DraftNetwork {
  const { device } = loading;
  const spec = describeReDrafter(checkpoint.config);
  check(spec);
  const limits = limitsOf(loading);
  checkWidth(limits, spec.draftVocabularySize);
  const { path, tensors, integers } = checkpoint;
  const files = { path, tensors, integers };
  const base = drafted.weights;
  const format = drafterFormat(device, base.format);
  const weights = loadReDrafterWeights(device, spec, { files, format });
  return new ReDrafter({ device, spec, weights, embeddings: base.tokens, limits });
}

/**
 * What a ReDrafter's weights are stored as. On a CPU its levels wait for their bytes: in int8 these
 * are half as many, and drafts are as good. Beside f32, which is asked for to compare numbers, f32.
 */
export function drafterFormat(
  { accelerator }: Pick<Device, "accelerator">,
  baseFormat: WeightFormat,
): WeightFormat {
  return accelerator || baseFormat === "f32" ? baseFormat : "i8";
}

/** The largest draft. Throws INVALID_ARGUMENT for more continuations than there are tokens. */
function shapeOf(loading: Loading, vocabulary: number): Record<"widthMax" | "lengthMax", number> {
  const limits = limitsOf(loading);
  checkWidth(limits, vocabulary);
  return { widthMax: limits.widthMax, lengthMax: limits.lengthMax };
}

function checkWidth({ widthMax }: DraftNetworkLimits, vocabulary: number): void {
  if (widthMax <= vocabulary) return;
  throw new EngineError(
    "INVALID_ARGUMENT",
    `Cannot draft ${widthMax} continuations: speculative.width must be at most ` +
      `${vocabulary}, the drafter's vocabulary, current value is ${widthMax}`,
    { param: "speculative.width" },
  );
}

function openMedusa({ loading, drafted, checkpoint, check }: NetworkParts): DraftNetwork {
  const { device } = loading;
  const spec = describeMedusa(checkpoint.config);
  check(spec);
  const { path, tensors, integers } = checkpoint;
  const files = { path, tensors, integers, has: (name: string) => tensors.has(name) };
  const { hiddenSize, vocabularySize } = drafted.model.spec;
  const { format, head: output } = drafted.weights;
  const base = { hiddenSize, vocabularySize, output };
  const weights = loadMedusaWeights(device, spec, { files, format, base });
  const heads = weights.heads.length;
  const { lengthMax } = loading.message.options.speculative;
  if (lengthMax !== null && lengthMax > heads) {
    throw new EngineError(
      "INVALID_ARGUMENT",
      `Cannot draft ${lengthMax} tokens: speculative.lengthMax must be at most ${heads}, the ` +
        `drafter's heads, current value is ${lengthMax}`,
      { param: "speculative.lengthMax" },
    );
  }
  const nodesMax = TREE_NODES_MAX - 1;
  return new Medusa({ device, spec, weights, limits: limitsOf(loading), nodesMax });
}

/** The largest drafts that the options allow. */
export function limitsOf({ message: { options } }: Loading): DraftNetworkLimits {
  const [drafts] = loadedDrafts(options);
  const { width: widthMax = 1, lengthMax = 1 } = drafts ?? {};
  return { sequencesMax: options.scheduler.runningSequencesMax, widthMax, lengthMax };
}

function infoOf({ path, tensors }: Checkpoint): DrafterInfo {
  let parameters = 0;
  for (const { shape } of tensors.values()) {
    parameters += shape.reduce((product, extent) => product * extent, 1);
  }
  return { name: basename(path), parameters };
}

/** The folder that the options name, or the usual one beside the model's files. */
function drafterPath(
  { speculative }: EngineOptions,
  { kind, modelPath }: { readonly kind: string; readonly modelPath: string },
): string {
  if (speculative.model !== null) return speculative.model;
  const folder = statSync(modelPath).isDirectory() ? modelPath : dirname(modelPath);
  const path = join(folder, "drafters", kind);
  if (existsSync(path)) return path;
  throw new EngineError(
    "MODEL_NOT_FOUND",
    `Cannot draft by ${kind}: the model has no drafter, ${path} is not there; name one ` +
      "(speculative.model, --speculative-model), or draft by lookup, which needs none",
    { param: "speculative.model" },
  );
}
