import { assert } from "#base";
import { at } from "#tensor";
import { type SinkWindow, sinkWindowOf } from "../attention-sinks.ts";
import type { PagedAttentionInput } from "../ops.ts";
import { attend, type Seen } from "./attend.ts";
import { hostKvPool } from "./host-kv-pool.ts";
import { f32Rows, i32, type RowSink, rowSink, u32 } from "./host-tensor.ts";

/** One sequence's part of a step. */
interface Span {
  readonly sequence: number;
  /** Its query rows: from `start` up to `end`. */
  readonly start: number;
  readonly end: number;
  /** Tokens in the cache, those of the query rows included. */
  readonly contextLength: number;
}

/** An op's input, with its checked sinks. */
interface Attention extends PagedAttentionInput {
  readonly sinkWindow: SinkWindow | null;
}

/**
 * Attention over keys and values in blocks. Sources: Kwon et al. 2023, "Efficient memory management
 * for large language model serving with PagedAttention"; Xiao et al. 2023, "Efficient streaming
 * language models with attention sinks".
 */
export function pagedAttention(input: PagedAttentionInput): void {
  const { batch } = input;
  const attention = { ...input, sinkWindow: sinkWindowOf(input) };
  const starts = i32(batch.queryStarts);
  const lengths = i32(batch.contextLengths);
  const out = rowSink(input.out);
  for (let sequence = 0; sequence < batch.sequences; sequence++) {
    const start = at(starts, sequence);
    const end = at(starts, sequence + 1);
    attendSpan(attention, { sequence, start, end, contextLength: at(lengths, sequence) }, out);
  }
}

function attendSpan(attention: Attention, span: Span, out: RowSink): void {
  const { heads, scale, softcap, sinkWindow } = attention;
  const { headDim, kvHeads } = attention.cache;
  const query = f32Rows(attention.query, heads * headDim);
  const sinkQuery = f32Rows(sinkWindow?.query ?? attention.query, heads * headDim);
  const groupHeads = heads / kvHeads; // query heads that share one kv head
  for (let row = span.start; row < span.end; row++) {
    const places = seenPlaces(attention, span, row);
    const slots = places.map((place) => slotOf(attention, span, place));
    const count = places.filter((place) => place < (sinkWindow?.tokens ?? 0)).length;
    const outRow = new Float32Array(heads * headDim);
    for (let kvHead = 0; kvHead < kvHeads; kvHead++) {
      const seen = seenBy(attention, kvHead, slots);
      for (let head = kvHead * groupHeads; head < (kvHead + 1) * groupHeads; head++) {
        const [start, end] = [head * headDim, (head + 1) * headDim];
        const sinks = { count, query: sinkQuery.row(row).subarray(start, end) };
        const queryHead = query.row(row).subarray(start, end);
        outRow.set(attend(queryHead, seen, { scale, softcap, sinks }), start);
      }
    }
    out.store(row, outRow);
  }
}

/**
 * Places in the sequence that a query row attends to, rising. The last row's own place is the last.
 */
function seenPlaces(attention: Attention, span: Span, row: number): number[] {
  if (span.contextLength === 0) return [];
  const firstNew = span.contextLength - (span.end - span.start);
  assert(firstNew >= 0, `Cannot attend: sequence ${span.sequence} has more rows than context`);
  const own = firstNew + row - span.start;
  const { treeStarts } = attention.batch;
  const treeStart = treeStarts === undefined ? firstNew : at(i32(treeStarts), span.sequence);
  assert(
    treeStart <= firstNew,
    `Cannot attend: the tree of sequence ${span.sequence} begins later`,
  );
  const newPlaces: number[] = [];
  for (let place = treeStart; place <= own; place++) {
    if (!isHidden(attention, row, place - treeStart)) newPlaces.push(place);
  }
  const { sinkWindow, window } = attention;
  const recent = sinkWindow?.recentTokens ?? window;
  const position = treeStart + newPlaces.length - 1;
  const first = recent === undefined ? 0 : Math.max(0, position - recent + 1);
  const places: number[] = [];
  for (let place = 0; place < Math.min(first, sinkWindow?.tokens ?? 0); place++) places.push(place);
  for (let place = first; place < treeStart; place++) places.push(place);
  return [...places, ...newPlaces.filter((place) => place >= first)];
}

/** Bit `other` of row `row` of the tree mask; false where there is none. */
function isHidden(input: PagedAttentionInput, row: number, other: number): boolean {
  const { treeMask } = input.batch;
  if (treeMask === undefined) return false;
  const words = treeMask.shape[1] ?? 1;
  const word = u32(treeMask)[row * words + (other >>> 5)] ?? 0;
  return other < words * 32 && ((word >>> (other & 31)) & 1) === 1;
}

function slotOf(input: PagedAttentionInput, span: Span, place: number): number {
  const { blockTokens } = input.cache;
  const pitch = input.batch.blockTables.shape[1] ?? 0;
  const index = span.sequence * pitch + Math.floor(place / blockTokens);
  const block = at(i32(input.batch.blockTables), index);
  return block * blockTokens + (place % blockTokens);
}

function seenBy(input: PagedAttentionInput, kvHead: number, slots: readonly number[]): Seen {
  const cache = hostKvPool(input.cache);
  return {
    keys: slots.map((slot) => cache.key(input.layer, slot, kvHead)),
    values: slots.map((slot) => cache.value(input.layer, slot, kvHead)),
  };
}
