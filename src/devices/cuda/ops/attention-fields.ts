import type { ParamKind } from "#devices/cuda/kernels";
import { KV_LAYER, kvPoolOf, tensorOf, vectorOf } from "#devices/cuda/memory";
import { sinkWindowOf } from "../../attention-sinks.ts";
import type { AttentionBatch, PagedAttentionInput } from "../../ops.ts";

/** `AttentionRows` of native/cuda/attention-rows.h. */
const ATTENTION_ROWS: readonly ParamKind[] = [
  ...(["pointer", "pointer", "pointer", "pointer", "i32", "i32", "i32", "i32"] as const),
];

/** `AttentionInput` of native/cuda/attention-input.h. */
export const ATTENTION_INPUT: readonly ParamKind[] = [
  ...(["pointer", "pointer"] as const),
  ...KV_LAYER,
  ...ATTENTION_ROWS,
  ...(["pointer", "i64", "i32", "i32", "f32", "f32"] as const),
];

/**
 * The fields of `ATTENTION_INPUT`. `decodeRows`: most rows (query heads of one kv head, over all
 * query tokens) of a sequence that the decode kernel handles; 0: it is not launched.
 */
export function attentionFields(
  input: PagedAttentionInput,
  decodeRows: number,
): readonly (bigint | number | null)[] {
  const { count, heads, batch } = input;
  const cache = kvPoolOf(input.cache);
  const columns = heads * cache.headDim;
  const sinks = sinkWindowOf(input);
  const blocksPerTable = batch.blockTables.shape[1] ?? 0;
  return [
    tensorOf(input.query, "f32", count, columns).address,
    sinks === null ? null : tensorOf(sinks.query, "f32", count, columns).address,
    ...cache.layerParams(input),
    vectorOf(batch.queryStarts, "i32", batch.sequences + 1),
    vectorOf(batch.contextLengths, "i32", batch.sequences),
    ...treeFields(batch, count),
    sinks?.recentTokens ?? input.window ?? 0,
    sinks?.tokens ?? 0,
    tensorOf(batch.blockTables, "i32", batch.sequences, blocksPerTable).address,
    blocksPerTable,
    heads,
    decodeRows,
    input.scale,
    input.softcap ?? 0,
  ];
}

/** Address of the tree mask, where trees start, sequences, and words per row of the mask. */
function treeFields(batch: AttentionBatch, count: number): readonly (bigint | number | null)[] {
  const { treeMask, treeStarts, sequences } = batch;
  if (treeMask === undefined) return [null, null, sequences, 0];
  const words = treeMask.shape[1] ?? 1;
  const starts = treeStarts === undefined ? null : vectorOf(treeStarts, "i32", sequences);
  return [tensorOf(treeMask, "u32", count, words).address, starts, sequences, words];
}
