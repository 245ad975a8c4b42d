import type { Device, DeviceTensor, WeightFormat, WeightMatrix } from "#devices";
import type { EncoderModel } from "./architecture.ts";
import type { NormWeights } from "./decoder-weights.ts";
import type { EncoderSpec } from "./encoder-spec.ts";
import { type LinearWeights, WeightLoader, type WeightOptions } from "./weight-loader.ts";
import type { EncoderLayerNames, EncoderNames } from "./weight-names.ts";

/** One layer: attention, its norm, feed-forward, its norm. */
export interface EncoderLayerWeights {
  readonly qkv: LinearWeights;
  readonly attentionOutput: LinearWeights;
  readonly attentionNorm: NormWeights;
  readonly input: LinearWeights;
  readonly output: LinearWeights;
  readonly outputNorm: NormWeights;
}

/** All weights of an encoder on a device. */
export interface EncoderWeights {
  readonly format: WeightFormat;
  /** [V, E]. */
  readonly tokens: WeightMatrix;
  /** [positions, E] f32, the embedding of token type 0 already added. */
  readonly positions: DeviceTensor;
  readonly embeddingNorm: NormWeights;
  readonly layers: readonly EncoderLayerWeights[];
  /** Elements in the checkpoint's tensors that are used. */
  readonly parameters: number;
}

/** Packs in `format`. Throws CHECKPOINT_INVALID, which names the tensor, and OUT_OF_MEMORY. */
export function loadEncoderWeights(
  device: Device,
  model: EncoderModel,
  options: WeightOptions,
): EncoderWeights {
  const { spec, names } = model;
  const { format } = options;
  const loader = new WeightLoader(device, names.optionalPrefix, options);
  const table = { rows: [spec.vocabularySize], columns: spec.hiddenSize };
  const { weight: tokens } = loader.linear({ modules: [names.tokens], bias: false }, table, format);
  const positions = loadPositions(loader, spec, names);
  const embeddingNorm = loadNorm(loader, spec, names.embeddingNorm);
  const layers = Array.from({ length: spec.layers }, (_, index) =>
    loadLayer(loader, spec, { names: names.layer(index), format }),
  );
  return { format, tokens, positions, embeddingNorm, layers, parameters: loader.parameters };
}

function loadPositions(loader: WeightLoader, spec: EncoderSpec, names: EncoderNames): DeviceTensor {
  const { hiddenSize, contextTokensMax, tokenTypes } = spec;
  const shape = [contextTokensMax, hiddenSize];
  const positions = loader.floats(`${names.positions}.weight`, shape);
  const types = loader.floats(`${names.tokenTypes}.weight`, [tokenTypes, hiddenSize]);
  const typed = positions.map((value, i) => value + (types[i % hiddenSize] ?? 0));
  return loader.upload(typed, shape);
}

function loadNorm(loader: WeightLoader, spec: EncoderSpec, module: string): NormWeights {
  return {
    kind: "layer",
    epsilon: spec.epsilon,
    weight: loader.tensor(`${module}.weight`, [spec.hiddenSize]),
    bias: loader.tensor(`${module}.bias`, [spec.hiddenSize]),
  };
}

function loadLayer(
  loader: WeightLoader,
  spec: EncoderSpec,
  { names, format }: { readonly names: EncoderLayerNames; readonly format: WeightFormat },
): EncoderLayerWeights {
  const { hiddenSize, feedForwardSize } = spec;
  const width = spec.heads * spec.headDim;
  const linear = (module: EncoderLayerNames["qkv"], rows: number[], columns: number) =>
    loader.linear(module, { rows, columns }, format);
  return {
    qkv: linear(names.qkv, [width, width, width], hiddenSize),
    attentionOutput: linear(names.attentionOutput, [hiddenSize], width),
    attentionNorm: loadNorm(loader, spec, names.attentionNorm),
    input: linear(names.input, [feedForwardSize], hiddenSize),
    output: linear(names.output, [hiddenSize], feedForwardSize),
    outputNorm: loadNorm(loader, spec, names.outputNorm),
  };
}
