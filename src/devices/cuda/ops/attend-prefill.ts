import type { PagedAttentionInput } from "../../ops.ts";
import type { CudaContext } from "../context.ts";

/** Whether the kernel for sequences with many query rows takes this input. */
export function canAttendPrefill(_context: CudaContext, _input: PagedAttentionInput): boolean {
  return false;
}

/**
 * Attends for the sequences that are not decoded (`isDecode` of native/cuda/attention-split.h).
 * `decodeRows` goes to `attentionFields`.
 */
export function attendPrefill(
  _context: CudaContext,
  _input: PagedAttentionInput,
  _decodeRows: number,
): void {}
