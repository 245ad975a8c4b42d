/** A request that was answered or given up, as metrics count it. */
export interface EndedRequest {
  readonly method: string;
  /** The path of the route that took it; null where there is none. */
  readonly route: string | null;
  readonly status: number;
}
