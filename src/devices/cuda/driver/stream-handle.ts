/** What calls of the driver name a stream by. */
export interface StreamHandle {
  /** CUstream. */
  readonly handle: bigint;
}
