import type { BlockId } from "#kvcache/contents";

/** What a file on disk says of the block in it: enough to find the block again. */
export interface BlockFile {
  /**
   * Digest of the whole history up to and including this block: 16 to 64 lower-case hex digits.
   * Two contents with one key would take each other's place, so it should be a digest that nobody
   * can make collide (`sha256_cbor`), whatever the rule of the events is.
   */
  readonly key: string;
  /** The key of the block that this one continues; null at the root of its scope. */
  readonly parentKey: string | null;
  /** Whose prefixes may share it, as `BlockTable.scope`. */
  readonly scope: string;
  /** What else is part of its identity (multimodal keys, extra ids); "" where nothing is. */
  readonly extra: string;
  /** [1..blockTokens]. Nobody changes it any more. */
  readonly tokens: Int32Array;
  /** What the block is worth when it comes back: 0 to `PRIORITY_MAX`. */
  readonly priority: number;
}

/**
 * What is to happen between host memory and disk. Jobs run beside the steps: host blocks of a read
 * or a write stay held until the job is reported as finished. Jobs with one key run in the order
 * in which they were given.
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
   * Of a read that is not `ok`: nobody saw what the file holds, since the system or the device
   * failed. It may be whole, so it and the books' entry stay.
   */
  readonly unreadable?: boolean;
}
