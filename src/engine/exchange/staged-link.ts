/** Blocks that several stages have a part of, each on its own device: each stage sends its own. */
import type { StageOffer } from "#engine/protocol";
import type { PeerLink } from "#engine/tiers";
import type { PeerTraffic } from "./peer-traffic.ts";

/** The stages behind this one, as an exchange uses them. */
export interface OfferingStages {
  /** Offers of a transfer at each of them, in order. */
  offer(shape: {
    readonly transfer: number;
    readonly pieces: number;
    readonly deadlineMs: number;
  }): Promise<readonly StageOffer[]>;
  /** The pieces that were not sent will not be. */
  endOffer(transfer: number, reason: string): void;
  /** Settles when no piece of the transfer is read any more. */
  offersEnded(transfer: number): Promise<void>;
  /** Settles when their parts of a piece were sent; false: they are not wanted any more. */
  sent(transfer: number, piece: number): Promise<boolean>;
}

/** The link of a stage: a block was sent when all stages have sent their parts of it. */
export function stagedLink(
  traffic: PeerTraffic,
  next: Pick<OfferingStages, "sent"> | null,
): PeerLink {
  if (next === null) return traffic;
  return {
    send: async (job, parts) => {
      const theirs = next.sent(job.transfer, job.piece);
      const [own, others] = await Promise.all([traffic.send(job, parts), theirs]);
      return own && others;
    },
    receive: (job, parts) => traffic.receive(job, parts),
    sent: () => traffic.sent(),
    fetched: () => traffic.fetched(),
    expose: (first, bytes) => traffic.expose(first, bytes),
    share: (bytes) => traffic.share(bytes),
    place: (description, bytes) => traffic.place(description, bytes),
    sendPlaced: (job, places) => traffic.sendPlaced(job, places),
    receivePlaced: (job, bytes, pull) => traffic.receivePlaced(job, bytes, pull),
    onForgotten: (forgotten) => traffic.onForgotten(forgotten),
  };
}
