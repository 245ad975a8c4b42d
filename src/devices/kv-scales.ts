import { assert } from "#base";
import type { KvBlockOptions, KvScales } from "./device.ts";
import type { KvFormat } from "./device-data.ts";

/** Whether numbers are 8 bits, multiples of a scale. */
export function isScaled(format: KvFormat): boolean {
  return format === "i8" || format === "fp8";
}

/** The scales of a layer's keys and values; `none` twice where each token has its own. */
export function layerScales(
  scales: KvScales | null,
  layer: number,
  none: number,
): readonly [key: number, value: number] {
  if (scales === null) return [none, none];
  const [key, value] = [scales.key[layer], scales.value[layer]];
  assert(key !== undefined && value !== undefined, `Cannot scale layer ${layer}: no scale`);
  return [key, value];
}

/**
 * The calibrated scales of a cache, checked; null where each token has its own, or none is needed.
 */
export function checkedScales(options: KvBlockOptions): KvScales | null {
  const { scales, format, layers } = options;
  if (scales === undefined) return null;
  assert(isScaled(format), `Cannot scale keys and values of ${format}: i8 or fp8 wanted`);
  for (const ofLayers of [scales.key, scales.value]) {
    // A cache whose layers are in several groups has more layers than a block of it.
    const good = ofLayers.length >= layers && ofLayers.every((scale) => scale > 0);
    assert(good, `Cannot scale ${layers} layers by ${ofLayers.join(", ")}`);
  }
  return scales;
}
