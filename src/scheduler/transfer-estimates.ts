import type { LoadChoice } from "#kvcache";

/** What moving and computing contents costs, as measured so far. `LoadCost` is one. */
export interface TransferEstimates {
  /** Milliseconds of computing `tokens` from position `start` on; null: not known yet. */
  recomputeMs(tokens: number, start?: number): number | null;
  /** Milliseconds of moving `blocks` to host memory and back; null: not known yet. */
  swapMs(blocks: number): number | null;
  /** Whether fetching stored blocks takes less time than computing the same positions. */
  loadPays(choice: LoadChoice): boolean;
}
