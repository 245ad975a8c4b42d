import { assert } from "#base";
import type { KvBlockOptions, KvScales } from "./device.ts";
import type { KvFormat } from "./device-data.ts";

/** Whether numbers are 8 bits, multiples of a scale. */
export function isScaled(format: KvFormat): boolean {
  return format === "i8" || format === "fp8";
}

/**
 * The calibrated scales of a cache, checked; null where each token has its own, or none is needed.
 */
export function checkedScales(options: KvBlockOptions): KvScales | null {
  const { scales, format, layers } = options;
  if (scales === undefined) return null;
  assert(isScaled(format), `Cannot scale keys and values of ${format}: i8 or fp8 wanted`);
  for (const ofLayers of [scales.key, scales.value]) {
    const good = ofLayers.length === layers && ofLayers.every((scale) => scale > 0);
    assert(good, `Cannot scale ${layers} layers by ${ofLayers.join(", ")}`);
  }
  return scales;
}
