/**
 * Which layers keep their keys and values in the same blocks.
 *
 * A block has the keys and values of P positions for the layers of one group. A model whose layers
 * all see the same positions has one group. In Gemma-2 every second layer sees 4,096 positions
 * only: its layers make two groups, each sequence has a block table per group, and the blocks of
 * the second group are released when they fall out of the window.
 *
 *   layers        0       1      2       3      4       5
 *   window        4096    all    4096    all    4096    all
 *   group         1       0      1       0      1       0
 *   in its block  0       0      1       1      2       2
 *
 * All blocks are equally large, so that one pool serves all groups: a block has as many layers as
 * the smallest class of equal windows, and larger classes make several groups. Source: the hybrid
 * KV cache of vLLM 0.9, whose groups are made the same way.
 */
import type { DecoderSpec } from "./decoder-spec.ts";
import { cacheWindow, type DecoderWindow, layerWindow, type Streaming } from "./streaming.ts";

/** Layers whose keys and values are in the same blocks. */
export interface KvLayerGroup {
  /** Layers of the model, ascending: the i-th one is layer i of a block. */
  readonly layers: readonly number[];
  /** Positions of a sequence that its layers see; null: all. */
  readonly window: DecoderWindow | null;
}

/** The groups of a decoder's layers, the one that sees most first. */
export interface KvLayout {
  readonly groups: readonly KvLayerGroup[];
  /** Layers that a block has room for: those of the largest group. */
  readonly layersPerBlock: number;
  /** By layer of the model: where its keys and values are. */
  readonly places: readonly KvLayerPlace[];
}

/** Where a layer's keys and values are. */
export interface KvLayerPlace {
  /** Index of `KvLayout.groups`. */
  readonly group: number;
  /** Index among the layers of a block. */
  readonly layer: number;
}

/** Options of a layout. */
export interface KvLayoutOptions {
  readonly streaming?: Streaming | null;
  /** Tokens of the longest sequence: a larger window is none. Default: no limit. */
  readonly servedTokens?: number;
}

/** Most room for layers that a block may leave unused, as a share of all. */
const UNUSED_MAX = 0.1;
/** Most groups: each costs a block table and a row of slots per step. */
const GROUPS_MAX = 16;

/**
 * The groups of a decoder: layers of equal windows together, unless blocks would have too much
 * unused room. Independent of memory, so that results never depend on the pool.
 */
export function kvLayout(spec: DecoderSpec, options: KvLayoutOptions = {}): KvLayout {
  const { streaming = null, servedTokens = Number.POSITIVE_INFINITY } = options;
  const sinkTokens = streaming?.sinkTokens ?? 0;
  const classes = layersByWindow(spec, streaming, servedTokens);
  const size = layersOfBlock(classes.map(({ layers }) => layers.length));
  if (size === null) {
    return layoutOf([{ layers: [...spec.layers.keys()], window: cacheWindow(spec, streaming) }]);
  }
  return layoutOf(
    classes.flatMap(({ layers, tokens }) => {
      const window = tokens === null ? null : { tokens, sinkTokens };
      return inParts(layers, Math.ceil(layers.length / size)).map((part) => ({
        layers: part,
        window,
      }));
    }),
  );
}

/** One group that keeps all positions: right for every decoder, with the most memory. */
export function plainLayout(spec: DecoderSpec): KvLayout {
  return layoutOf([{ layers: [...spec.layers.keys()], window: null }]);
}

/** Layers that see the same positions. */
interface LayerClass {
  readonly layers: number[];
  /** Positions that they see; null: all. */
  readonly tokens: number | null;
}

/** The layers of each window, the widest window first. */
function layersByWindow(
  spec: DecoderSpec,
  streaming: Streaming | null,
  servedTokens: number,
): readonly LayerClass[] {
  const classes = new Map<number | null, number[]>();
  for (const [index, layer] of spec.layers.entries()) {
    const window = layerWindow(layer, streaming);
    const tokens = window === null || window >= servedTokens ? null : window;
    const others = classes.get(tokens);
    if (others === undefined) classes.set(tokens, [index]);
    else others.push(index);
  }
  const width = (tokens: number | null) => tokens ?? Number.POSITIVE_INFINITY;
  return [...classes]
    .map(([tokens, layers]) => ({ tokens, layers }))
    .sort((a, b) => (width(a.tokens) < width(b.tokens) ? 1 : -1));
}

/**
 * Layers of a block that wastes little room: the most, since few groups cost least. Null: all
 * layers are in one group, because their windows are equal or no size is good.
 */
function layersOfBlock(counts: readonly number[]): number | null {
  if (counts.length < 2) return null;
  const layers = counts.reduce((sum, count) => sum + count, 0);
  for (let size = Math.min(...counts); size > 0; size--) {
    const groups = counts.reduce((sum, count) => sum + Math.ceil(count / size), 0);
    if (groups > GROUPS_MAX) return null;
    if (groups * size <= layers * (1 + UNUSED_MAX)) return size;
  }
  return null;
}

/** `layers` in `count` runs whose lengths differ by one at most. */
function inParts(layers: readonly number[], count: number): number[][] {
  const start = (part: number) => Math.ceil((part * layers.length) / count);
  return Array.from({ length: count }, (_, part) => layers.slice(start(part), start(part + 1)));
}

function layoutOf(groups: readonly KvLayerGroup[]): KvLayout {
  const places: KvLayerPlace[] = [];
  for (const [group, { layers }] of groups.entries()) {
    for (const [index, layer] of layers.entries()) places[layer] = { group, layer: index };
  }
  const layersPerBlock = Math.max(...groups.map(({ layers }) => layers.length));
  return { groups, layersPerBlock, places };
}
