/** Standard output, including slow pipes, closed pipes and full disks. */
import { write } from "node:fs";
import { promisify } from "node:util";
import { messageOf } from "#base";
import { EXIT_FAILED } from "./exit-codes.ts";
import { codeOf, fileProblem } from "./file-problem.ts";
import { shownText } from "./terminal-text.ts";

const STANDARD_OUTPUT = 1;
/** Time between attempts to write to a full non-blocking pipe. */
const RETRY_MS = 5;

const writeTo = promisify(write);

/**
 * Writes text, on a terminal without control characters, and settles when the reader has taken it:
 * a streaming caller awaits it, and the stream pauses in the engine. `process.stdout` would block
 * the whole thread. Throws IO for a full disk.
 */
export async function print(text: string): Promise<void> {
  let rest = Buffer.from(shownText(text));
  while (rest.length > 0) {
    try {
      const { bytesWritten } = await writeTo(STANDARD_OUTPUT, rest);
      rest = rest.subarray(bytesWritten);
    } catch (cause) {
      if (codeOf(cause) === "EAGAIN") await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      else throw leave(cause);
    }
  }
}

/** Failures of `process.stdout` end the process with one line instead of a stack. */
export function watchStandardOutput(): void {
  process.stdout.on("error", (cause) => {
    process.stderr.write(`perigee: ${messageOf(leave(cause))}\n`);
    process.exit(EXIT_FAILED);
  });
}

/** A closed pipe (`perigee … | head`) is the reader's choice, not a failure. */
function leave(cause: unknown): Error {
  if (codeOf(cause) === "EPIPE") process.exit(0);
  const file = "standard output";
  return fileProblem({ action: "write", file, wanted: "a file that can be written", cause });
}
