/** A stream as driver calls take it. */
export interface StreamHandle {
  /** CUstream. */
  readonly handle: bigint;
}
