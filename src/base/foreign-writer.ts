/** The owner and mode of a file or folder, as the system reports them. */
export interface Ownership {
  readonly uid: number;
  /** With the permission bits. */
  readonly mode: number;
}

const OTHERS_WRITE = 0o022;

/**
 * Describes which other users than `userId` can change a file or folder; null: none but the
 * system's administrator. On a system without user ids (`userId` undefined) that is unknown: null.
 */
export function foreignWriter(found: Ownership, userId: number | undefined): string | null {
  if (userId === undefined) return null;
  if (found.uid !== userId) return "it belongs to another user";
  return (found.mode & OTHERS_WRITE) === 0 ? null : "others may write to it";
}
