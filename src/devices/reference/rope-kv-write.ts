import { at } from "#tensor";
import type { RopeKvWriteInput } from "../ops.ts";
import { hostKvPool } from "./host-kv-pool.ts";
import { f32, f32Rows, i32 } from "./host-tensor.ts";
import { rmsNormInPlace } from "./norm.ts";
import { rotateInPlace } from "./rotate-heads.ts";

/**
 * Splits each token's row into heads, normalises and rotates queries and keys, and writes keys and
 * values to the token's slot. `qkv` itself is unchanged. Keys are rotated by the token's own
 * position also with sinks: cached keys are never rotated again.
 */
export function ropeKvWrite(input: RopeKvWriteInput): void {
  const cache = hostKvPool(input.cache);
  const { kvHeads, headDim } = cache;
  const qkv = f32Rows(input.qkv, (input.heads + 2 * kvHeads) * headDim);
  const query = f32Rows(input.query, input.heads * headDim);
  const sinkQuery = input.sinkQuery && f32Rows(input.sinkQuery.out, input.heads * headDim);
  const positions = i32(input.positions);
  const slots = i32(input.slots);
  for (let t = 0; t < input.count; t++) {
    const row = qkv.row(t);
    const head = (index: number) => row.slice(index * headDim, (index + 1) * headDim);
    const position = at(positions, t);
    const angles = ropeRow(input, position);
    const sinkAngles = ropeRow(input, Math.min(position, input.sinkQuery?.positionMax ?? position));

    for (let h = 0; h < input.heads; h++) {
      query.row(t).set(positioned(head(h), angles, input.queryNorm, input), h * headDim);
      if (sinkQuery === undefined) continue;
      sinkQuery.row(t).set(positioned(head(h), sinkAngles, input.queryNorm, input), h * headDim);
    }
    const slot = at(slots, t);
    if (slot < 0) continue;
    for (let k = 0; k < kvHeads; k++) {
      const key = positioned(head(input.heads + k), angles, input.keyNorm, input);
      const value = head(input.heads + kvHeads + k);
      const { layer, scaleLayer = layer } = input;
      cache.store({ layer, scaleLayer, slot, kvHead: k }, key, value);
    }
  }
}

/** The table's row for `position`; null without rope. */
function ropeRow({ rope }: RopeKvWriteInput, position: number): Float32Array | null {
  return rope === undefined ? null : f32Rows(rope).row(position);
}

function positioned(
  head: Float32Array,
  angles: Float32Array | null,
  norm: RopeKvWriteInput["queryNorm"],
  input: RopeKvWriteInput,
): Float32Array {
  if (norm !== undefined) rmsNormInPlace(head, f32(norm), input.normEpsilon ?? 0);
  if (angles !== null) rotateInPlace(head, angles);
  return head;
}
