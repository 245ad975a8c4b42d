/**
 * models: from a config.json to logits.
 *
 * A family is a mapping: it turns its config into a `DecoderSpec` (what to compute) and names
 * (where the weights are). One decoder runs them all, by enqueuing ops on a device.
 *
 *   registry.ts          model_type to family; `architectures/` has one file each,
 *                        architecture.ts their contract
 *   config.ts            schemas of config.json, both dialects of transformers
 *   config-parts.ts      fields that families share: heads, windows, activations
 *   rope-config.ts       rope's fields; rope.ts makes the table of angles
 *   decoder-spec.ts      a decoder as data; encoder-spec.ts an encoder, encoder-positions.ts where
 *                        its tokens are
 *   weight-names.ts      names of a family's weights
 *   weight-loader.ts     finds, checks and packs them
 *   decoder-weights.ts   the packed weights; encoder-weights.ts of an encoder
 *   kv-scales.ts         calibrated scales of keys and values, by name
 *   pair-scoring.ts      outputs of a cross-encoder to scores
 *   pooling.ts           rows to one vector; pooling-config.ts: settings of sentence-transformers
 *   decoder-buffers.ts   the memory of a step; encoder-buffers.ts of a batch of texts
 *   step-input.ts        the input of one step
 *   kv-layout.ts         groups of layers, each with a block table of its own
 *   layer-range.ts       parts of a decoder, each with some of its layers
 *   streaming.ts         windows and attention sinks of the settings
 *   random-weights.ts    weights for a config without a checkpoint
 *   step-stage.ts        copies a step's input to the device
 *   decoder.ts           runs a step: decoder-layers.ts its layers; encoder.ts a batch of texts,
 *                        score-head.ts scores of pairs
 *   warm-up.ts           captures decode steps of all sizes ahead
 *   drafters/            networks that draft, draft-network.ts their contract; of redrafter and
 *                        medusa: -spec.ts the config, -weights.ts, and what runs them;
 *                        medusa-tree.ts which choices make a tree. draft-model.ts: a decoder that
                        drafts, kv-draft-network.ts the contract of networks with keys and values
 *
 * Invariant: no family has code in the decoder; it reads the spec and the norms.
 * Invariant: a step allocates nothing and never waits; ops are only enqueued.
 *
 * @module
 */
export type { Architecture, DecoderModel, EncoderModel, Model } from "./architecture.ts";
export type { JsonConfig } from "./config.ts";
export { Decoder, type DecoderOptions } from "./decoder.ts";
export type { DecoderLimits } from "./decoder-buffers.ts";
export type {
  DecoderPart,
  DecoderSpec,
  FeedForwardSpec,
  LayerSpec,
  NormSpec,
  PositionSpec,
  RopeScaling,
  RopeSpec,
} from "./decoder-spec.ts";
export {
  type DecoderWeights,
  loadDecoderWeights,
  type WholeDecoderWeights,
  wholeWeights,
} from "./decoder-weights.ts";
export { type BranchDraw, SOME_DRAW } from "./drafters/draft-draws.ts";
export { DraftModel, type DraftModelParts } from "./drafters/draft-model.ts";
export { type DraftModelSpec, describeDraftModel } from "./drafters/draft-model-spec.ts";
export {
  type BranchShape,
  type BranchWish,
  type DeviceRoots,
  type DraftNetwork,
  type DraftNetworkLimits,
  draftElementsMax,
} from "./drafters/draft-network.ts";
export type { DrafterFiles } from "./drafters/drafter-files.ts";
export { Eagle3 } from "./drafters/eagle3.ts";
export type { Eagle3Parts } from "./drafters/eagle3-context.ts";
export { describeEagle3, EAGLE3_KV_LAYERS, type Eagle3Spec } from "./drafters/eagle3-spec.ts";
export { type Eagle3Weights, loadEagle3Weights } from "./drafters/eagle3-weights.ts";
export {
  type DraftContext,
  type KvDraftLimits,
  type KvDraftNetwork,
  type KvShape,
  seesAll,
} from "./drafters/kv-draft-network.ts";
export { Medusa, type MedusaParts } from "./drafters/medusa.ts";
export { describeMedusa, type MedusaSpec } from "./drafters/medusa-spec.ts";
export { type Choices, type HeadAccuracies, medusaPaths } from "./drafters/medusa-tree.ts";
export { loadMedusaWeights, type MedusaWeights } from "./drafters/medusa-weights.ts";
export { ReDrafter } from "./drafters/redrafter.ts";
export type { ReDrafterParts } from "./drafters/redrafter-buffers.ts";
export {
  checkBase,
  type DraftedBase,
  describeReDrafter,
  type MadeFor,
  type ReDrafterSpec,
} from "./drafters/redrafter-spec.ts";
export {
  baseFingerprint,
  loadReDrafterWeights,
  type ReDrafterWeights,
} from "./drafters/redrafter-weights.ts";
export {
  branchNodes,
  levelStride,
  type StartedChains,
  type StartedTrees,
  type TreeNodes,
} from "./drafters/started-trees.ts";
export { Encoder, type EncoderInput, type EncoderOptions } from "./encoder.ts";
export type { EncoderLimits } from "./encoder-buffers.ts";
export type { EncoderSpec } from "./encoder-spec.ts";
export { type EncoderWeights, loadEncoderWeights } from "./encoder-weights.ts";
export {
  type KvLayerGroup,
  type KvLayerPlace,
  type KvLayout,
  type KvLayoutOptions,
  kvLayout,
  plainLayout,
} from "./kv-layout.ts";
export { kvScales, type ScaledCache, type ScaledCheckpoint } from "./kv-scales.ts";
export { type LayerRange, layerRanges, partLayout, partOf } from "./layer-range.ts";
export { type ScoreActivation, scoreActivation } from "./pair-scoring.ts";
export {
  isMeanAlone,
  meanPooling,
  type PoolingMode,
  type PoolingSpec,
  RowPool,
} from "./pooling.ts";
export {
  plainEmbedding,
  type SentenceSource,
  type TextEmbedding,
  type TextPrompts,
  textEmbedding,
} from "./pooling-config.ts";
export { randomWeights } from "./random-weights.ts";
export { describeModel, modelTypes } from "./registry.ts";
export {
  type RopeTableOptions,
  ropeAttentionFactor,
  ropeFrequencies,
  ropeTable,
} from "./rope.ts";
export type { StepInput, StepTables } from "./step-input.ts";
export {
  cacheWindow,
  checkStreaming,
  type DecoderWindow,
  layerWindow,
  type Streaming,
} from "./streaming.ts";
export { type WarmUpOptions, type WarmUpProgress, warmUp } from "./warm-up.ts";
export type { WeightSources, WeightSupply } from "./weight-loader.ts";
