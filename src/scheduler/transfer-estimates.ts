import type { LoadChoice } from "#kvcache";

/** Costs of moving and computing contents, as measured so far. `LoadCost` implements this. */
export interface TransferEstimates {
  /** Milliseconds of computing `tokens` from position `start` on; null: not known yet. */
  recomputeMs(tokens: number, start?: number): number | null;
  /** Milliseconds of moving `blocks` to host memory and back; null: not known yet. */
  swapMs(blocks: number): number | null;
  /** Whether fetching stored blocks takes less time than computing the same positions. */
  loadPays(choice: LoadChoice): boolean;
}
