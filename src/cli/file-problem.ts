import { EngineError, messageOf } from "#base";

const CAUSES: Readonly<Record<string, string>> = {
  ENOENT: "it does not exist",
  EACCES: "this user may not",
  EPERM: "this user may not",
  EISDIR: "it is a folder",
  ENOTDIR: "what should be its folder is a file",
  ENOSPC: "the disk is full",
  EROFS: "the disk is read-only",
};

export interface FileFailure {
  readonly action: "read" | "write";
  readonly file: string;
  readonly wanted: string;
  readonly cause: unknown;
}

/** IO error for a file that cannot be used, with a message instead of the system's code. */
export function fileProblem({ action, file, wanted, cause }: FileFailure): EngineError {
  const isMissing = codeOf(cause) === "ENOENT";
  const folder = action === "write" && isMissing ? "its folder does not exist" : undefined;
  const problem = folder ?? CAUSES[codeOf(cause)] ?? messageOf(cause);
  return new EngineError("IO", `Cannot ${action} ${file}: wanted ${wanted}, ${problem}`, { cause });
}

/** The system's error code; empty if there is none. */
export function codeOf(cause: unknown): string {
  return cause instanceof Error && "code" in cause ? String(cause.code) : "";
}
