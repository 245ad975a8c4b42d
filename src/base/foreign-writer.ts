/** Whose a file or folder is: of what the system says of it, the fields that matter. */
export interface Ownership {
  readonly uid: number;
  /** With the permission bits. */
  readonly mode: number;
}

const OTHERS_WRITE = 0o022;

/**
 * Who besides `userId` can change a file or folder, in words; null: nobody but the system's
 * administrator. On a system without user ids (`userId` undefined) nothing is known, which is null.
 */
export function foreignWriter(found: Ownership, userId: number | undefined): string | null {
  if (userId === undefined) return null;
  if (found.uid !== userId) return "it belongs to another user";
  return (found.mode & OTHERS_WRITE) === 0 ? null : "others may write to it";
}
