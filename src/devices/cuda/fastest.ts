import type { CudaDriver } from "./driver.ts";
import { CudaEvent } from "./event.ts";
import type { CudaStream } from "./stream.ts";

/** Runs that are timed, after one that is not: it loads the code. The shortest one counts. */
const timedRuns = 4;

/** What is compared. */
export interface Race<T> {
  readonly candidates: readonly T[];
  /** Enqueues one run; false where the candidate cannot run. */
  enqueue(candidate: T): boolean;
  /** Enqueues what makes all runs begin alike. */
  prepare(): void;
}

/**
 * The candidate that takes the GPU the shortest; null when none can run. Waits for the stream, so
 * not inside a capture.
 */
export function fastest<T>(driver: CudaDriver, stream: CudaStream, race: Race<T>): T | null {
  const [start, end] = [new CudaEvent(driver, true), new CudaEvent(driver, true)];
  let best: { candidate: T; ms: number } | null = null;
  for (const candidate of race.candidates) {
    if (!race.enqueue(candidate)) continue;
    const times = Array.from({ length: timedRuns }, () => {
      race.prepare();
      start.record(stream);
      race.enqueue(candidate);
      end.record(stream);
      end.wait();
      return end.elapsedMs(start);
    });
    const ms = Math.min(...times);
    if (best === null || ms < best.ms) best = { candidate, ms };
  }
  start.destroy();
  end.destroy();
  return best?.candidate ?? null;
}
