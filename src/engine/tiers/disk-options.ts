import type { Clock, Timer } from "#base";
import type { FileShape } from "./block-file.ts";
import type { DiskFiles } from "./disk-files.ts";

/** Settings of a store. */
export interface DiskStoreOptions extends FileShape {
  /** Where the stores of all models are. Made where it does not exist. */
  readonly dir: string;
  /** Most blocks of an earlier run that are kept. The store's books count what comes later. */
  readonly capacityBlocks: number;
  readonly clock: Clock;
  /** Ends the wait for a folder that does not answer, as on a network disk that is gone. */
  readonly timer: Timer;
  /** Hears of everything that an operator should know, a sentence each. */
  readonly warn: (message: string) => void;
  /** Hears how many bytes were read and how long that took, overlapping reads counted once. */
  readonly onRead?: (bytes: number, ms: number) => void;
  /** The machine's own by default. */
  readonly files?: DiskFiles;
}
