/** A drafter's checkpoint → a network beside the model, on its device. */
import { existsSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { EngineError } from "#base";
import { type Checkpoint, openCheckpoint } from "#checkpoint";
import { type DrafterInfo, type EngineOptions, loadedDrafts } from "#engine/protocol";
import {
  baseFingerprint,
  checkBase,
  type DecoderModel,
  type DecoderWeights,
  describeReDrafter,
  loadReDrafterWeights,
  ReDrafter,
  type ReDrafterSpec,
} from "#models";
import type { Loading } from "./loading.ts";

/** A network that drafts. */
export interface LoadedDrafter {
  readonly network: ReDrafter;
  readonly info: DrafterInfo;
}

/** The model that drafts are for, as it was loaded. */
export interface DraftedModel {
  readonly model: DecoderModel;
  readonly weights: DecoderWeights;
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
  const path = drafterPath(options, { kind, modelPath });
  const checkpoint = openCheckpoint(path);
  try {
    const spec = describeReDrafter(checkpoint.config);
    const { model } = drafted;
    const fingerprint = options.randomWeights ? null : baseFingerprint(model, loading.sources);
    checkBase(spec, { spec: model.spec, fingerprint }, path);
    return { network: networkOf(loading, drafted, { spec, checkpoint }), info: infoOf(checkpoint) };
  } finally {
    checkpoint.close();
  }
}

function networkOf(
  { device, message: { options } }: Loading,
  { weights: base }: DraftedModel,
  { spec, checkpoint }: { readonly spec: ReDrafterSpec; readonly checkpoint: Checkpoint },
): ReDrafter {
  const [drafts] = loadedDrafts(options);
  const { width: widthMax = 1, lengthMax = 1 } = drafts ?? {};
  if (widthMax > spec.draftVocabularySize) {
    throw new EngineError(
      "INVALID_ARGUMENT",
      `Cannot draft ${widthMax} continuations: speculative.width must be at most ` +
        `${spec.draftVocabularySize}, the drafter's vocabulary, current value is ${widthMax}`,
      { param: "speculative.width" },
    );
  }
  const { path, tensors, integers } = checkpoint;
  const files = { path, tensors, integers };
  const weights = loadReDrafterWeights(device, spec, { files, format: base.format });
  const sequencesMax = options.scheduler.runningSequencesMax;
  const limits = { sequencesMax, widthMax, lengthMax };
  return new ReDrafter({ device, spec, weights, embeddings: base.tokens, limits });
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
