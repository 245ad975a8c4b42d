import { EngineError } from "#base";
import type { Device, DeviceTensor, WeightFormat, WeightMatrix, WeightSource } from "#devices";
import { bytesOf, formatShape, type Shape } from "#tensor";
import type { NormWeights } from "../decoder-weights.ts";
import { type LinearWeights, WeightLoader, type WeightSupply } from "../weight-loader.ts";
import { type DrafterFiles, tokenMapOf } from "./drafter-files.ts";
import type { Eagle3Spec } from "./eagle3-spec.ts";

/** All weights of an EAGLE-3 on a device. Letters: `Eagle3Spec`, Q query and K key columns. */
export interface Eagle3Weights {
  readonly format: WeightFormat;
  /** [V, H]: its own, or the base's. */
  readonly tokens: WeightMatrix;
  /** [B] each, or one of [N * B], or none: `Eagle3Spec.inputNorm`. */
  readonly inputNorms: readonly NormWeights[];
  /** [H, N * B]. */
  readonly fusion: LinearWeights;
  readonly embeddingNorm: NormWeights;
  readonly hiddenNorm: NormWeights;
  /** [Q + 2 K, H] each: queries, keys and values are the sum of both, the first one's biased. */
  readonly attention: { readonly embedding: LinearWeights; readonly hidden: LinearWeights };
  /** [3 K, H] each: what a step stores, by rows of `Eagle3Context`. */
  readonly context: {
    readonly hiddenKeys: LinearWeights;
    readonly hiddenValues: LinearWeights;
    readonly embedding: LinearWeights;
  };
  /** [D]. */
  readonly queryNorm: DeviceTensor | null;
  readonly keyNorm: DeviceTensor | null;
  readonly attentionOutput: LinearWeights;
  readonly feedForwardNorm: NormWeights;
  /** [2 F, H]: gate, up; and [H, F]. */
  readonly feedForward: { readonly input: LinearWeights; readonly output: LinearWeights };
  readonly finalNorm: NormWeights;
  /** [draft vocabulary, H]. */
  readonly head: LinearWeights;
  /** [draft vocabulary] i32: the base's token of each drafted one; null: the same. */
  readonly tokenMap: DeviceTensor | null;
  readonly parameters: number;
}

export interface Eagle3Files extends DrafterFiles {
  readonly has: (name: string) => boolean;
}

export interface Eagle3Sources {
  readonly files: Eagle3Files;
  readonly format: WeightFormat;
  /** [V, B]: the base's, for a checkpoint without any. */
  readonly baseTokens: WeightMatrix;
}

/** Names that other writers give to the layer and to what is around it. */
const ALIASES: readonly (readonly [string, readonly string[]])[] = [
  ["midlayer.", ["layers.0.", "model.midlayer.", "model.layers.0."]],
  ["", ["model."]],
];
/** What a drafter of several tokens at once needs, which would draft nonsense here. */
const UNSUPPORTED = ["mask_hidden", "model.mask_hidden"];

/**
 * Packs an EAGLE-3's weights in `format`. Sources of the names: SafeAILab/EAGLE, SpecForge and
 * vLLM's speculators. `t2d` is not read: `d2t` says the same. Throws CHECKPOINT_INVALID, which
 * names the tensor, UNSUPPORTED_MODEL and OUT_OF_MEMORY.
 */
export function loadEagle3Weights(
  device: Device,
  spec: Eagle3Spec,
  { files, format, baseTokens }: Eagle3Sources,
): Eagle3Weights {
  refuseTensors(files);
  const { hiddenSize, baseHiddenSize, taps, draftVocabularySize, vocabularySize } = spec;
  const sources = halved(aliased(files.tensors), hiddenSize);
  const loader = new WeightLoader(device, "", { sources, format });
  const norm = (module: string, size = hiddenSize): NormWeights => {
    const weight = loader.tensor(`${module}.weight`, [size]);
    return { kind: "rms", epsilon: spec.normEpsilon, weightOffset: 0, weight };
  };
  const linear = (module: string, rows: number, columns: number, bias = false): LinearWeights =>
    loader.linear({ modules: [module], bias }, { rows: [rows], columns }, format);
  const hasTokens = namesOf("embed_tokens.weight").some(files.has);
  if (!hasTokens && hiddenSize !== baseHiddenSize) throw noTokens(files.path, spec);
  return {
    format,
    tokens: hasTokens ? linear("embed_tokens", vocabularySize, hiddenSize).weight : baseTokens,
    inputNorms: inputNormNames(spec).map(([module, size]) => norm(module, size)),
    fusion: linear("fc", hiddenSize, taps.length * baseHiddenSize),
    embeddingNorm: norm("midlayer.input_layernorm"),
    hiddenNorm: norm("midlayer.hidden_norm"),
    ...attentionOf(loader, spec, format),
    feedForwardNorm: norm("midlayer.post_attention_layernorm"),
    feedForward: feedForwardOf(loader, spec, format),
    finalNorm: norm("norm"),
    head: linear("lm_head", draftVocabularySize, hiddenSize),
    tokenMap: uploadedMap(device, tokenMapOf(spec, files)),
    parameters: loader.parameters,
  };
}

type Attention = "attention" | "context" | "queryNorm" | "keyNorm" | "attentionOutput";

/** Everything of the attention: matrices of 2 H columns are read as those of either half. */
function attentionOf(
  loader: WeightLoader,
  spec: Eagle3Spec,
  format: WeightFormat,
): Pick<Eagle3Weights, Attention> {
  const { hiddenSize, heads, kvHeads, headDim, attentionBias, queryKeyNorm } = spec;
  const rowsOf = { q: heads * headDim, k: kvHeads * headDim, v: kvHeads * headDim };
  const stacked = (
    parts: readonly (keyof typeof rowsOf)[],
    half: "embedding" | "hidden",
  ): LinearWeights =>
    loader.linear(
      {
        modules: parts.map((part) => `midlayer.self_attn.${part}_proj.${half}`),
        bias: attentionBias && half === "embedding",
      },
      { rows: parts.map((part) => rowsOf[part]), columns: hiddenSize },
      format,
    );
  const headNorm = (name: string): DeviceTensor | null =>
    queryKeyNorm ? loader.tensor(`midlayer.self_attn.${name}.weight`, [headDim]) : null;
  return {
    attention: {
      embedding: stacked(["q", "k", "v"], "embedding"),
      hidden: stacked(["q", "k", "v"], "hidden"),
    },
    context: {
      hiddenKeys: stacked(["k", "k", "k"], "hidden"),
      hiddenValues: stacked(["k", "k", "v"], "hidden"),
      embedding: stacked(["k", "k", "v"], "embedding"),
    },
    queryNorm: headNorm("q_norm"),
    keyNorm: headNorm("k_norm"),
    attentionOutput: loader.linear(
      { modules: ["midlayer.self_attn.o_proj"], bias: attentionBias },
      { rows: [hiddenSize], columns: heads * headDim },
      format,
    ),
  };
}

function feedForwardOf(
  loader: WeightLoader,
  { hiddenSize, feedForwardSize, feedForwardBias: bias }: Eagle3Spec,
  format: WeightFormat,
): Eagle3Weights["feedForward"] {
  const modules = ["midlayer.mlp.gate_proj", "midlayer.mlp.up_proj"];
  const input = { rows: [feedForwardSize, feedForwardSize], columns: hiddenSize };
  const output = { rows: [hiddenSize], columns: feedForwardSize };
  return {
    input: loader.linear({ modules, bias }, input, format),
    output: loader.linear({ modules: ["midlayer.mlp.down_proj"], bias }, output, format),
  };
}

function inputNormNames(spec: Eagle3Spec): readonly (readonly [module: string, size: number])[] {
  const { inputNorm, taps, baseHiddenSize } = spec;
  if (inputNorm === "joined") return [["input_norm", taps.length * baseHiddenSize]];
  if (inputNorm === "none") return [];
  return taps.map((_, place) => [`fc_norm.${place}`, baseHiddenSize] as const);
}

function uploadedMap(device: Device, map: Int32Array | null): DeviceTensor | null {
  if (map === null) return null;
  const tensor = device.allocate("i32", [map.length]);
  device.write(tensor, map);
  return tensor;
}

function refuseTensors({ path, has }: Eagle3Files): void {
  const found = UNSUPPORTED.find(has);
  if (found === undefined) return;
  throw new EngineError(
    "UNSUPPORTED_MODEL",
    `Cannot draft with ${path}: tensor ${found} is that of a drafter of several tokens at once, ` +
      "which does not run here; use an EAGLE-3 that drafts one by one",
    { param: `tensor ${found}` },
  );
}

function noTokens(path: string, { hiddenSize, baseHiddenSize }: Eagle3Spec): EngineError {
  return new EngineError(
    "CHECKPOINT_INVALID",
    `Cannot load ${path}: it must have a tensor embed_tokens.weight, since its hidden size, ` +
      `${hiddenSize}, is not the model's, ${baseHiddenSize}`,
    { param: "embed_tokens.weight" },
  );
}

function namesOf(name: string): string[] {
  const found = ALIASES.find(([prefix]) => name.startsWith(prefix));
  const [prefix, others] = found ?? ["", []];
  return [name, ...others.map((other) => other + name.slice(prefix.length))];
}

function aliased(sources: WeightSupply): WeightSupply {
  return {
    size: sources.size,
    get: (name, shape) => {
      for (const candidate of namesOf(name)) {
        const found = sources.get(candidate, shape);
        if (found !== undefined) return found;
      }
      return undefined;
    },
  };
}

const HALF = /^(.*)\.(embedding|hidden)\.(weight|bias)$/;

/**
 * Adds the halves of matrices of 2 H columns: `NAME.embedding.weight` and `NAME.hidden.weight` are
 * the left and the right one of `NAME.weight`.
 */
function halved(sources: WeightSupply, hiddenSize: number): WeightSupply {
  return {
    size: sources.size,
    get: (name, shape) => {
      const [, module, half, kind] = HALF.exec(name) ?? [];
      if (module === undefined) return sources.get(name, shape);
      if (kind === "bias") return sources.get(`${module}.bias`, shape);
      const whole: Shape = [shape[0] ?? 0, 2 * hiddenSize];
      const source = sources.get(`${module}.weight`, whole);
      const first = half === "hidden" ? hiddenSize : 0;
      return source && columnsOf(source, first, hiddenSize);
    },
  };
}

/** Columns `first` up to `first + count` of a matrix of twice as many. */
function columnsOf(source: WeightSource, first: number, count: number): WeightSource {
  const { name, dtype, shape } = source;
  const [rows = 0, columns = 0] = shape;
  if (shape.length !== 2 || columns !== 2 * count) {
    throw new EngineError(
      "CHECKPOINT_INVALID",
      `Cannot load ${name}: it must have ${2 * count} columns, for an embedding and a hidden ` +
        `state, current value is ${formatShape(shape)}`,
      { param: name },
    );
  }
  const bytes = (): Uint8Array => {
    const size = bytesOf(dtype);
    const read = source.bytes();
    const found = new Uint8Array(rows * count * size);
    for (let row = 0; row < rows; row++) {
      const start = (row * columns + first) * size;
      found.set(read.subarray(start, start + count * size), row * count * size);
    }
    return found;
  };
  return { name, dtype, shape: [rows, count], bytes, discard: () => source.discard() };
}
