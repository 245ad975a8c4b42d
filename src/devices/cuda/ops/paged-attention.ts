import { assert } from "#base";
import { activationOf, kvPoolOf } from "#devices/cuda/memory";
import type { PagedAttentionInput } from "../../ops.ts";
import { attendDecode, canAttendDecode, decodeRowsOf } from "./attend-decode.ts";
import { attendExact } from "./attend-exact.ts";
import { attendPrefill, canAttendPrefill } from "./attend-prefill.ts";
import type { CudaContext } from "./context.ts";
import { checkedHeadDim } from "./head-dim.ts";

/**
 * Attention by the kernels on tensor cores where they support the input, else by the exact ones.
 * The choice depends on shapes and formats alone, so that a captured step makes the same choice.
 */
export function pagedAttention(context: CudaContext, input: PagedAttentionInput): void {
  const { count, heads, batch } = input;
  const cache = kvPoolOf(input.cache);
  activationOf(input.out, count, heads * checkedHeadDim(cache.headDim));
  assert(
    heads % cache.kvHeads === 0,
    `Cannot share ${cache.kvHeads} kv heads among ${heads} query heads: a multiple wanted`,
  );
  const decodes = canAttendDecode(input);
  const prefills = canAttendPrefill(context, input);
  const decodeRows = decodes ? decodeRowsOf(input) : 0;
  const rowsMax = batch.queryLengthMax * (heads / cache.kvHeads);
  const allDecode = decodes && (batch.queryLengthMax === 1 || rowsMax <= decodeRows);
  if (!allDecode && !prefills) {
    attendExact(context, input);
    return;
  }
  if (decodes) attendDecode(context, input, { decodeRows });
  if (!allDecode) attendPrefill(context, input, decodeRows);
}
