import type { PagedAttentionInput } from "../../ops.ts";
import type { CudaContext } from "../context.ts";

/** Whether the kernel for sequences with few query rows takes this input. */
export function canAttendDecode(_context: CudaContext, _input: PagedAttentionInput): boolean {
  return false;
}

/** Most rows of a sequence that `attendDecode` takes: `decodeRows` of `AttentionInput`. */
export function decodeRowsOf(_input: PagedAttentionInput): number {
  return 16;
}

/** Attends for the sequences that are decoded (`isDecode` of native/cuda/attention-split.h). */
export function attendDecode(
  _context: CudaContext,
  _input: PagedAttentionInput,
  _decodeRows: number,
): void {}
