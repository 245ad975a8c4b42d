import { assert } from "#base";
import { sinkWindowOf } from "../../attention-sinks.ts";
import type { AttentionBatch, PagedAttentionInput } from "../../ops.ts";
import type { CpuContext } from "../context.ts";
import { activationOf, tensorOf, vectorOf } from "../handles.ts";
import { kvPoolOf } from "../kv-pool.ts";
import { Params } from "../params.ts";

const params = new Params(27);

/** Calls the kernel with `PagedAttentionParams` (native/cpu/paged-attention.cpp). */
export function pagedAttention({ kernels, pool }: CpuContext, input: PagedAttentionInput): void {
  const { count, heads, batch } = input;
  const cache = kvPoolOf(input.cache);
  assert(
    heads % cache.kvHeads === 0,
    `Cannot share ${cache.kvHeads} kv heads among ${heads} query heads: a multiple wanted`,
  );
  const columns = heads * cache.headDim;
  const out = activationOf(input.out, count, columns);
  const { sequences } = batch;
  const sinks = sinkWindowOf(input);
  const blocksPerTable = batch.blockTables.shape[1] ?? 0;
  kernels.paged_attention(
    params.fill(
      pool,
      out.address,
      out.formatCode,
      tensorOf(input.query, "f32", count, columns).address,
      heads,
      ...cache.layerParams(input),
      sequences,
      vectorOf(batch.queryStarts, "i32", sequences + 1),
      vectorOf(batch.contextLengths, "i32", sequences),
      tensorOf(batch.blockTables, "i32", sequences, blocksPerTable).address,
      blocksPerTable,
      ...treeFields(batch, count),
      input.scale,
      sinks?.recentTokens ?? input.window ?? 0,
      input.softcap ?? 0,
      sinks === null ? null : tensorOf(sinks.query, "f32", count, columns).address,
      sinks?.tokens ?? 0,
    ),
  );
}

/** Address and words per row of the tree mask, and where trees start; null, 0, null without one. */
function treeFields(batch: AttentionBatch, count: number): readonly (bigint | number | null)[] {
  const { treeMask, treeStarts, sequences } = batch;
  if (treeMask === undefined) return [null, 0, null];
  const words = treeMask.shape[1] ?? 1;
  const starts = treeStarts === undefined ? null : vectorOf(treeStarts, "i32", sequences);
  return [tensorOf(treeMask, "u32", count, words).address, words, starts];
}
