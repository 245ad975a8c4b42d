/** The `quantization_config` of compressed-tensors: one scheme for all quantised matrices. */
import type { QuantizationFields } from "./quantization-fields.ts";
import type { CompressedQuantization } from "./weight-quantization.ts";

const LAYOUTS: ReadonlyMap<unknown, CompressedQuantization["layout"]> = new Map([
  ["pack-quantized", "packed"],
  ["int-quantized", "bytes"],
  // The same tensors, by the name of the format's general form.
  ["naive-quantized", "bytes"],
]);

/**
 * Reads and checks it. Activations stay floats, whatever it says of them. Throws UNSUPPORTED_MODEL
 * or CHECKPOINT_INVALID.
 */
export function compressedQuantization(fields: QuantizationFields): CompressedQuantization {
  refuseTransforms(fields);
  const groups = fields.inner("config_groups");
  const [first, ...others] = groups.names.map((name) => groupOf(fields, groups.inner(name)));
  if (first === undefined) throw fields.invalid("config_groups", "must have a group");
  const text = JSON.stringify(first);
  if (others.every((other) => JSON.stringify(other) === text)) return first;
  const must = "must have one scheme for all matrices";
  throw fields.refused("config_groups", must, `${others.length + 1} groups that differ`);
}

function refuseTransforms(fields: QuantizationFields): void {
  for (const name of ["sparsity_config", "transform_config"]) {
    if (fields.of(name) === undefined) continue;
    const inner = fields.inner(name);
    const isFlat = inner.of("config_groups") === undefined;
    const groups = isFlat ? inner : inner.inner("config_groups");
    if (groups.names.length === 0 || inner.of("format") === "dense") continue;
    throw fields.refused(name, "must be empty");
  }
}

function groupOf(fields: QuantizationFields, group: QuantizationFields): CompressedQuantization {
  const own = group.of("format") === undefined ? fields : group;
  const layout = LAYOUTS.get(own.of("format"));
  if (layout === undefined) {
    throw own.refused("format", "must be pack-quantized or int-quantized");
  }
  const weights = group.inner("weights");
  const bits = weights.of("num_bits");
  if (bits !== 4 && bits !== 8) throw weights.refused("num_bits", "must be 4 or 8");
  if ((weights.of("type") ?? "int") !== "int") throw weights.refused("type", "must be int");
  if (weights.of("dynamic") === true) throw weights.refused("dynamic", "must be false");
  const symmetric = weights.of("symmetric") ?? true;
  if (typeof symmetric !== "boolean") throw weights.invalid("symmetric", "must be a boolean");
  return { method: "compressed-tensors", layout, bits, symmetric, ...scalesOf(weights) };
}

function scalesOf(
  weights: QuantizationFields,
): Pick<CompressedQuantization, "scales" | "groupColumns"> {
  const hasGroups = weights.of("group_size") !== undefined && weights.of("group_size") !== -1;
  switch (weights.of("strategy") ?? (hasGroups ? "group" : "tensor")) {
    case "group":
      return { scales: "group", groupColumns: weights.groupColumns("group_size") };
    case "channel":
      return { scales: "row", groupColumns: null };
    case "tensor":
      return { scales: "matrix", groupColumns: null };
    default:
      throw weights.refused("strategy", "must be group, channel or tensor");
  }
}
