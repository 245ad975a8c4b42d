/**
 * Everything beside tokens that a decoder's keys and values depend on: identifies stored blocks.
 */
import type { Checkpoint } from "#checkpoint";
import type { Device, WeightFormat } from "#devices";
import type { EngineOptions } from "#engine/protocol";
import type { FingerprintInput } from "#engine/tiers";
import {
  type DecoderSpec,
  type KvLayout,
  type LayerSpec,
  layerWindow,
  ropeAttentionFactor,
  ropeFrequencies,
  type Streaming,
} from "#models";
import { servedTokens, streamingOf } from "./attention-window.ts";

/** A decoder as it is about to run. */
export interface KvIdentityParts {
  readonly options: EngineOptions;
  readonly checkpoint: Checkpoint;
  readonly spec: Pick<DecoderSpec, "positions" | "contextTokensMax"> & {
    readonly layers: readonly Pick<LayerSpec, "window">[];
  };
  readonly device: Device;
  readonly weightFormat: WeightFormat;
  /** `KvPool.layout` of its cache. */
  readonly layout: string;
  /** Of each layer: `KvLayout.places`. */
  readonly places: KvLayout["places"];
  /** What its keys and values see of a sequence. Default: what the options say. */
  readonly streaming?: Streaming | null;
  /** Length of the longest served sequence. Default: what the options say. */
  readonly servedTokens?: number;
  /** A drafter whose keys and values are in the blocks, too. Default: null, none. */
  readonly drafter?: FingerprintInput | null;
}

/**
 * Computed values, not options: different options with the same effect share stored blocks. An
 * option that reaches a kernel of a forward pass must have a part in here;
 * `test/engine/fingerprint-audit.test.ts` checks this for every option.
 */
export function kvIdentity(parts: KvIdentityParts): FingerprintInput {
  const { options, checkpoint, spec, device, weightFormat, layout, places } = parts;
  const { drafter = null, servedTokens: served = servedTokens(options, spec) } = parts;
  const { arithmetic } = device;
  const { randomWeights } = options;
  const { streaming = streamingOf(options) } = parts;
  return {
    ...{ checkpoint, arithmetic, weightFormat, layout, randomWeights },
    layerPlaces: places.map(({ group, layer }) => [group, layer] as const),
    rope: ropeOf(spec, served),
    layerWindows: spec.layers.map((layer) => layerWindow(layer, streaming)),
    sinkTokens: streaming?.sinkTokens ?? 0,
    drafter,
  };
}

function ropeOf(
  { positions }: Pick<DecoderSpec, "positions">,
  tokens: number,
): FingerprintInput["rope"] {
  if (positions.kind !== "rope") return null;
  return {
    frequencies: ropeFrequencies(positions, tokens),
    attentionFactor: ropeAttentionFactor(positions),
  };
}
