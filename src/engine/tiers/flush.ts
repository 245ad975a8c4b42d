/** Carries out a flush: what is cached is written to disk before the memory goes. */
import type { Clock, Timer } from "#base";
import type { FlushReport } from "#engine/protocol";
import type { KvCache } from "#kvcache";
import type { LevelMover } from "./level-mover.ts";

/** What a flush works on. */
export interface FlushParts {
  readonly cache: KvCache;
  readonly mover: Pick<LevelMover, "idle" | "oneEnded" | "takeFinished">;
  readonly bytesPerBlock: number;
  readonly clock: Clock;
  readonly timer: Timer;
  /** Carries out what the bookkeeping decided. */
  readonly carryOut: () => void;
}

/**
 * Writes for at most `limitMs`; a few writes that have begun by then are still finished. No step
 * may run, nor any transfer with other engines. Null: there is no disk level. Rejects where blocks
 * could not be moved.
 */
export async function flushToDisk(parts: FlushParts, limitMs: number): Promise<FlushReport | null> {
  const { cache, mover, clock } = parts;
  const startMs = clock.nowMs();
  const isOver = () => clock.nowMs() - startMs >= limitMs;
  cache.advance(startMs);
  parts.carryOut();
  const isQuiet = await within(parts, limitMs, mover.idle());
  record(parts);
  const flush = cache.startFlush();
  if (flush === null) return null;
  try {
    while (isQuiet) {
      if (!isOver()) flush.writeSome();
      parts.carryOut();
      if (flush.underWay === 0) break;
      await mover.oneEnded();
      record(parts);
    }
  } finally {
    flush.end();
  }
  const { written, noRoom, failed, left } = flush.counts;
  return {
    ...{ blocks: written, bytes: written * parts.bytesPerBlock, ms: clock.nowMs() - startMs },
    ...{ leftForTime: left, leftForRoom: noRoom, failed },
  };
}

function record({ cache, mover }: FlushParts): void {
  for (const job of mover.takeFinished()) cache.finishDiskJob(job);
}

/** Whether `done` settles within the time. */
async function within({ timer }: FlushParts, ms: number, done: Promise<void>): Promise<boolean> {
  let cancel = () => {};
  const late = new Promise<boolean>((resolve) => {
    cancel = timer.after(ms, () => resolve(false));
  });
  const inTime = await Promise.race([done.then(() => true), late]);
  cancel();
  return inTime;
}
