import { EngineError } from "#base";
import type { Device, WeightFormat, WeightMatrix, WeightSource } from "#devices";
import { type LinearWeights, WeightLoader, type WeightSupply } from "../weight-loader.ts";
import { type DrafterFiles, tokenMapOf } from "./drafter-files.ts";
import type { MedusaSpec } from "./medusa-spec.ts";

/** Most heads: of a tree's paths none is longer. */
const HEADS_MAX = 63;

/** One head. Letters: `MedusaSpec`. */
export interface MedusaHead {
  /** [H, H] and [H] each. */
  readonly layers: readonly LinearWeights[];
  /** [draft vocabulary, H], or the base's own output layer. */
  readonly output: LinearWeights;
}

/** All weights of a Medusa on a device. */
export interface MedusaWeights {
  readonly format: WeightFormat;
  readonly heads: readonly MedusaHead[];
  readonly hiddenSize: number;
  readonly draftVocabularySize: number;
  /** [draft vocabulary]: the base's token of each drafted one; null: the same. */
  readonly tokenMap: Int32Array | null;
  readonly parameters: number;
}

/** The base's sizes, and its output layer for heads that have none of their own. */
export interface MedusaBase {
  readonly hiddenSize: number;
  readonly vocabularySize: number;
  readonly output: LinearWeights;
}

export interface MedusaFiles extends DrafterFiles {
  readonly has: (name: string) => boolean;
}

/**
 * Packs a Medusa's weights in `format`. Sources: FasterDecoding/Medusa's checkpoints of version 1,
 * and of version 2, whose heads share the base's output layer; vLLM's names for both. The heads are
 * counted in the file, since some configurations state a wrong number. Throws CHECKPOINT_INVALID,
 * which names the tensor, and OUT_OF_MEMORY.
 */
export function loadMedusaWeights(
  device: Device,
  spec: MedusaSpec,
  {
    files,
    format,
    base,
  }: { readonly files: MedusaFiles; readonly format: WeightFormat; readonly base: MedusaBase },
): MedusaWeights {
  const { layers } = spec;
  const { hiddenSize, vocabularySize } = base;
  const draftVocabularySize = spec.draftVocabularySize ?? vocabularySize;
  const has = (name: string): boolean => namesOf(name, layers).some(files.has);
  let count = 0;
  while (count < HEADS_MAX && has(`${count}.0.linear.weight`)) count++;
  if (count === 0)
    throw invalidTensor(files.path, "0.0.linear.weight", "is missing: no head has it");
  const sources = aliased(files.tensors, layers);
  const loader = new WeightLoader(device, "", { sources, format });
  const square = { rows: [hiddenSize], columns: hiddenSize };
  const shared = new Map<WeightSource, WeightMatrix>();
  const outputOf = (head: number): LinearWeights => {
    const module = `${head}.${layers}`;
    if (!has(`${module}.weight`)) {
      if (draftVocabularySize === vocabularySize) return base.output;
      const why =
        "is missing: heads without one have the model's vocabulary, not a draft vocabulary";
      throw invalidTensor(files.path, `${module}.weight`, why);
    }
    // One output layer of all heads is packed once.
    const source = sources.get(`${module}.weight`, [draftVocabularySize, hiddenSize]);
    const known = source === undefined ? undefined : shared.get(source);
    if (known !== undefined) return { weight: known };
    const shape = { rows: [draftVocabularySize], columns: hiddenSize };
    const output = loader.linear({ modules: [module], bias: false }, shape, format);
    if (source !== undefined) shared.set(source, output.weight);
    return output;
  };
  const heads = Array.from({ length: count }, (_, head) => ({
    layers: Array.from({ length: layers }, (_, layer) => {
      const module = `${head}.${layer}.linear`;
      return loader.linear({ modules: [module], bias: has(`${module}.bias`) }, square, format);
    }),
    output: outputOf(head),
  }));
  const sizes = { draftVocabularySize, vocabularySize };
  const tokenMap = tokenMapOf(sizes, files);
  const { parameters } = loader;
  return { format, heads, hiddenSize, draftVocabularySize, tokenMap, parameters };
}

function invalidTensor(path: string, name: string, what: string): EngineError {
  const message = `Cannot load ${path}: tensor ${name} ${what}`;
  return new EngineError("CHECKPOINT_INVALID", message, { param: `tensor ${name}` });
}

function aliased(sources: WeightSupply, layers: number): WeightSupply {
  return {
    size: sources.size,
    get: (name, shape) => {
      for (const candidate of namesOf(name, layers)) {
        const found = sources.get(candidate, shape);
        if (found !== undefined) return found;
      }
      return undefined;
    },
  };
}

/** What writers call a tensor: version 1's own names, with a prefix, and vLLM's. */
function namesOf(name: string, layers: number): readonly string[] {
  const [head = "", part = "", ...rest] = name.split(".");
  const others =
    Number(part) === layers
      ? [`lm_heads.${head}.weight`, "lm_head.weight"]
      : [`blocks.${head}.layers.${part}.${rest.at(-1)}`];
  const plain = [name, ...others];
  return [...plain, ...["medusa_head.", "medusa_heads."].flatMap((p) => plain.map((n) => p + n))];
}
