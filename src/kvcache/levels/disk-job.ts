import type { BlockId } from "#kvcache/contents";

/** The metadata of a block's file on disk: enough to find the block again. */
export interface BlockFile {
  /**
   * Digest of the whole history up to and including this block: 16 to 64 lower-case hex digits. Two
   * contents with one key would replace each other, so it should be a collision-resistant digest
   * (`sha256_cbor`), whatever the algorithm of the events is.
   */
  readonly key: string;
  /** The key of the block that this one continues; null at the root of its scope. */
  readonly parentKey: string | null;
  /** Sharing scope, as `BlockTable.scope`. */
  readonly scope: string;
  /** Further identity (multimodal keys, extra ids); "" where there is none. */
  readonly extra: string;
  /** [1..blockTokens]. Not changed any more. */
  readonly tokens: Int32Array;
  /** The block's priority when it is restored: 0 to `PRIORITY_MAX`. */
  readonly priority: number;
}

/**
 * A transfer between host memory and disk, or a deletion. Jobs run beside the steps: host blocks of
 * a read or a write stay held until the job is reported as finished. Jobs with one key run in the
 * order in which they were given.
 */
export type DiskJob =
  | {
      readonly kind: "write" | "read";
      readonly host: BlockId;
      readonly disk: BlockId;
      readonly file: BlockFile;
    }
  | { readonly kind: "delete"; readonly disk: BlockId; readonly file: BlockFile };

/** How a job ended. Not `ok`: the file does not hold the block, unless it is `unreadable`. */
export interface FinishedDiskJob {
  readonly job: DiskJob;
  readonly ok: boolean;
  /**
   * For a read that is not `ok`: the file's contents are unknown, since the system or the device
   * failed. It may be whole, so it and its block's entry stay.
   */
  readonly unreadable?: boolean;
}
