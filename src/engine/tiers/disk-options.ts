import type { Clock, Timer } from "#base";
import type { FileShape } from "./block-file.ts";
import type { DiskFiles } from "./disk-files.ts";

/** Settings of a store. */
export interface DiskStoreOptions extends FileShape {
  /** The folder of all models' stores. Made where it does not exist. */
  readonly dir: string;
  /** Most blocks of an earlier run that are kept. The cache's bookkeeping counts later ones. */
  readonly capacityBlocks: number;
  readonly clock: Clock;
  /** Ends the wait for a folder that does not answer, as on a network disk that is gone. */
  readonly timer: Timer;
  /** Receives everything that an operator should know, a sentence each. */
  readonly warn: (message: string) => void;
  /** Receives the bytes that were read and the time of that, overlapping reads counted once. */
  readonly onRead?: (bytes: number, ms: number) => void;
  /** The machine's own by default. */
  readonly files?: DiskFiles;
}
