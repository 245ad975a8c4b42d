/** A request that was answered or aborted, for the metrics. */
export interface EndedRequest {
  readonly method: string;
  /** The path of the matching route; null if there is none. */
  readonly route: string | null;
  readonly status: number;
}
