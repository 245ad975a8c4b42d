/**
 * refused: the peer does not serve us, or not this read · unknown_offer: it has no such offer, any
 * more · timed_out: the deadline passed · corrupt: what arrived is not what was sent or asked for ·
 * closed: the connection or our client ended · aborted: by the signal · failed: the offer ended
 * without its pieces.
 */
export type TransferErrorCode =
  | "refused"
  | "unknown_offer"
  | "timed_out"
  | "corrupt"
  | "closed"
  | "aborted"
  | "failed";

/** A read that did not succeed. The caller recomputes what it wanted to read. */
export class TransferError extends Error {
  override readonly name = "TransferError";
  readonly code: TransferErrorCode;

  constructor(code: TransferErrorCode, message: string, cause?: unknown) {
    super(message.slice(0, MESSAGE_LENGTH_MAX), cause === undefined ? undefined : { cause });
    this.code = code;
  }
}

/** A peer's reason may be of any length. */
const MESSAGE_LENGTH_MAX = 500;
