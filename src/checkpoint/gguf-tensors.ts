/** All weights of a GGUF file, under transformers' names and in transformers' layout. */
import { EngineError } from "#base";
import type { FileBytes } from "./file-bytes.ts";
import {
  type GgufFamily,
  type GgufPart,
  ggufNaming,
  ggufPartOf,
  type Names,
  nameOf,
} from "./gguf-architectures.ts";
import type { GgufHeader, GgufTensor } from "./gguf-header.ts";
import { type GgufLayout, ggufExperts, ggufWeight } from "./gguf-weights.ts";
import { invalidFile } from "./invalid-file.ts";
import type { NamedWeight } from "./named-weight.ts";

/** Tables that the configuration is made from, see gguf-rope.ts. They are not weights. */
const ROPE_TABLES: ReadonlySet<string> = new Set([
  ...["rope_freqs", "rope_factors_long", "rope_factors_short", "attn_rot_embd"],
]);

export interface GgufModelShape {
  readonly family: GgufFamily;
  readonly heads: number;
  readonly kvHeads: number;
}

/** Maps every tensor. Throws UNSUPPORTED_MODEL for one that is unknown in the family. */
export function ggufTensors(
  file: FileBytes,
  header: GgufHeader,
  shape: GgufModelShape,
): ReadonlyMap<string, NamedWeight> {
  const weights = new Map<string, NamedWeight>();
  for (const tensor of header.tensors.values()) {
    for (const weight of weightsOf(file, tensor, shape)) {
      if (weights.has(weight.name)) {
        const field = `tensor ${tensor.name}`;
        const must = "must be the only one of its meaning";
        throw invalidFile({ path: file.path, field, must, actual: `another ${weight.name}` });
      }
      weights.set(weight.name, weight);
    }
  }
  return weights;
}

function weightsOf(
  file: FileBytes,
  tensor: GgufTensor,
  shape: GgufModelShape,
): readonly NamedWeight[] {
  const place = ggufPartOf(tensor.name);
  if (ROPE_TABLES.has(place.part)) return [];
  const naming = ggufNaming(shape.family);
  if (place.layer === null) {
    const name = nameOf(naming.model, place.part);
    if (name === null) throw unknownTensor(file.path, tensor, shape.family);
    return [
      ggufWeight(file, tensor, { name: name + place.suffix, layout: layoutOf(place, shape) }),
    ];
  }
  const prefix = `${naming.layerPrefix}${place.layer}.`;
  const experts = nameOf(naming.experts, place.part);
  if (experts !== null) {
    return ggufExperts(file, tensor).map((weight, expert) => ({
      ...weight,
      name: prefix + experts.replace("*", String(expert)) + place.suffix,
    }));
  }
  const part = nameOf(naming.layer, place.part) ?? oldExpert(place.part, naming.experts);
  if (part === null) throw unknownTensor(file.path, tensor, shape.family);
  const name = prefix + part + place.suffix;
  return [ggufWeight(file, tensor, { name, layout: layoutOf(place, shape) })];
}

/** Files of 2023 have a tensor for each expert: `ffn_gate.5` for `ffn_gate_exps`. */
function oldExpert(part: string, experts: Names | undefined): string | null {
  const [, kind, expert = ""] = /^(ffn_(?:gate|up|down))\.(\d+)$/.exec(part) ?? [];
  return nameOf(experts, `${kind}_exps`)?.replace("*", expert) ?? null;
}

/** How llama.cpp's converter changes each family's weights. */
function layoutOf(place: GgufPart, shape: GgufModelShape): GgufLayout {
  const { family, heads, kvHeads } = shape;
  if (family === "llama" || family === "mistral" || family === "mixtral") {
    if (place.part === "attn_q") return { kind: "interleaved", heads };
    if (place.part === "attn_k") return { kind: "interleaved", heads: kvHeads };
  }
  if (family === "gemma2" && place.part.endsWith("_norm")) return { kind: "plus-one" };
  const inLayer = place.layer !== null && place.suffix === ".weight";
  if (family === "gpt2" && inLayer && !place.part.endsWith("_norm")) return { kind: "transposed" };
  return { kind: "plain" };
}

function unknownTensor(path: string, tensor: GgufTensor, family: GgufFamily): EngineError {
  return new EngineError(
    "UNSUPPORTED_MODEL",
    `Cannot load ${path}: every tensor must be one that ${family} models have, current value is ` +
      `${tensor.name.slice(0, 100)}; this variant of the architecture is not supported`,
    { param: tensor.name.slice(0, 100) },
  );
}
