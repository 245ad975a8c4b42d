/**
 * A part of a decoder: some of its layers, behind each other. Parts that are run one after the
 * other, each with the hidden states of the one before, compute what the whole decoder does.
 */
import { assert } from "#base";
import type { DecoderModel } from "./architecture.ts";
import type { DecoderSpec } from "./decoder-spec.ts";
import type { KvLayout } from "./kv-layout.ts";

/** Layers `first` up to `end`, which is not one of them. */
export interface LayerRange {
  readonly first: number;
  readonly end: number;
}

/**
 * The layers of each of `parts` parts, whose numbers differ by one at most; the last one, which
 * also has the output layer, has the fewest. Null: there are fewer layers than parts.
 */
export function layerRanges(layers: number, parts: number): readonly LayerRange[] | null {
  if (parts > layers) return null;
  const least = Math.floor(layers / parts);
  const longer = layers - least * parts;
  const start = (part: number) => part * least + Math.min(part, longer);
  return Array.from({ length: parts }, (_, part) => ({ first: start(part), end: start(part + 1) }));
}

/** The part of a decoder with these layers. */
export function partOf(model: DecoderModel, range: LayerRange): DecoderModel {
  const { spec, names } = model;
  return {
    kind: "decoder",
    spec: partSpec(spec, range),
    names: { ...names, layer: (index) => names.layer(range.first + index) },
  };
}

function partSpec(spec: DecoderSpec, { first, end }: LayerRange): DecoderSpec {
  const { length } = spec.layers;
  assert(first >= 0 && first < end && end <= length, `Cannot take layers ${first} to ${end}`);
  const part = { begins: first === 0, ends: end === length };
  return { ...spec, layers: spec.layers.slice(first, end), part };
}

/** Where a part's layers keep keys and values: in the blocks of the whole decoder's groups. */
export function partLayout(layout: KvLayout, { first, end }: LayerRange): KvLayout {
  const groups = layout.groups.map(({ layers, window }) => ({
    layers: layers.filter((layer) => layer >= first && layer < end).map((layer) => layer - first),
    window,
  }));
  const places = layout.places.slice(first, end).map(({ group }, index) => ({
    group,
    layer: groups[group]?.layers.indexOf(index) ?? 0,
  }));
  const layersPerBlock = Math.max(...groups.map(({ layers }) => layers.length));
  return { groups, layersPerBlock, places };
}
