/** Failures of the file system and of SQLite as a store's errors, with a remedy. */
import { EngineError, messageOf } from "#base";

const DAMAGED = /malformed|not a database|ends before row/i;
/** SQLite's layer over files does not tell why a write failed. */
const FULL = /ENOSPC|EDQUOT|EFBIG|is full|disk I\/O error/;
const FORBIDDEN = /EACCES|EPERM|EROFS|readonly|unable to open|Could not open/;

/** What a caller is told about anything thrown; errors of ours are as they are. */
export function folderError(action: string, folder: string, thrown: unknown): EngineError {
  if (thrown instanceof EngineError) return thrown;
  const message = messageOf(thrown);
  if (DAMAGED.test(message)) {
    return new EngineError(
      "CORPUS_INVALID",
      `Cannot ${action}: files of ${folder} must be whole, current value is ${message}; restore ` +
        "them from a copy, or remove the corpus and ingest again",
      { cause: thrown },
    );
  }
  return new EngineError(
    "STORE_UNAVAILABLE",
    `Cannot ${action}: ${folder} must be usable, current value is ${message}; ${remedyOf(message)}`,
    { cause: thrown },
  );
}

function remedyOf(message: string): string {
  if (FULL.test(message))
    return "make room and try again, or check the disk: what was stored is kept";
  if (FORBIDDEN.test(message)) return "allow this user to write there";
  return "check the disk and try again";
}
