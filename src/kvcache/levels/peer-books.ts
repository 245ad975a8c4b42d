import type { BlockId } from "#kvcache/contents";
import { BlockReceives, type EndedReceive } from "./block-receives.ts";
import { BlockSends } from "./block-sends.ts";
import type { CacheBooks } from "./cache-books.ts";
import type { FinishedPeerJob, PeerJob } from "./peer-job.ts";

/** Blocks that travelled, since the start. */
export interface PeerStats {
  readonly sent: number;
  readonly received: number;
  /** That were to come, and did not: they were computed here. */
  readonly missed: number;
}

/** Blocks on their way to other engines, and from them. */
export class PeerBooks {
  readonly sends: BlockSends;
  readonly receives: BlockReceives;

  constructor(books: CacheBooks, shape: { blockTokens: number; groups: number }) {
    this.sends = new BlockSends(books, shape);
    this.receives = new BlockReceives(books, shape);
  }

  get stats(): PeerStats {
    const { receivedBlocks: received, missedBlocks: missed } = this.receives;
    return { sent: this.sends.sentBlocks, received, missed };
  }

  /** Whether there are jobs to start. */
  get hasJobs(): boolean {
    return this.sends.hasJobs || this.receives.hasJobs;
  }

  /** The jobs to start once all moves that were taken before are carried out. */
  takeJobs(): readonly PeerJob[] {
    return [...this.sends.takeJobs(), ...this.receives.takeJobs()];
  }

  /** Reports the end of a job. Returns a receiving transfer that is complete with it, if any. */
  finish(finished: FinishedPeerJob): EndedReceive | null {
    if (finished.job.kind === "receive") return this.receives.finish(finished);
    this.sends.finish(finished);
    return null;
  }

  /**
   * Releases the device's blocks that transfers hold, for a sequence that needs them where nothing
   * else runs. Returns the sending transfers that ended with it; null: nothing was held.
   */
  yieldDevice(): readonly number[] | null {
    const ended = this.sends.yieldDevice();
    const yielded = this.receives.yieldDevice();
    return yielded || ended.length > 0 ? ended : null;
  }

  /** Blocks that transfers hold. */
  *pinned(): Iterable<BlockId> {
    yield* this.sends.pinned();
    yield* this.receives.pinned();
  }
}
