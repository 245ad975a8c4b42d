/** Books of load that several routers keep together, so that they act as one. */

/** What all routers together have handed to one worker and not got back. */
export interface SharedLoad {
  readonly requests: number;
  readonly uncachedTokens: number;
  readonly heldBlocks: number;
}

/**
 * One worker that may take a request. Between the router's look at the loads and the reservation,
 * other routers may have reserved: the keeper of the books corrects each cost by what came in,
 * `costMs + perUncachedTokenMs * newUncachedTokens + perRequestMs * newRequests`, new against
 * `seen`, and takes the least, the first of equals.
 */
export interface SharedBid {
  /** The worker's id and epoch: reservations of an earlier start are void. */
  readonly worker: string;
  readonly epoch: string;
  /** As the router counted it, on the loads in `seen`. */
  readonly costMs: number;
  readonly perUncachedTokenMs: number;
  readonly perRequestMs: number;
  readonly seen: SharedLoad;
  /** What is booked where this bid wins. */
  readonly uncachedTokens: number;
  readonly heldBlocks: number;
}

/** Who got the request. */
export interface SharedAnswer {
  /** Index into the bids. */
  readonly chosen: number;
  /** Of every bid's worker, after the reservation, in the order of the bids. */
  readonly loads: readonly SharedLoad[];
}

/**
 * Reservations that all routers see. Every one ends: by `release`, with the router's own lease
 * where it dies, with the worker's epoch, or where it was not renewed in time. Calls of one id
 * take effect in their order; the ones without an answer never throw.
 */
export interface SharedBooks {
  /**
   * Chooses and books at once. Rejects where the books cannot be reached. A router that went on
   * without the answer releases the id.
   */
  reserve(id: string, bids: readonly SharedBid[]): Promise<SharedAnswer>;
  /** The prompt is computed: its uncached tokens are no load any more. */
  firstToken(id: string): void;
  /** The request goes on and now holds this many blocks. */
  renew(id: string, heldBlocks: number): void;
  release(id: string): void;
}
