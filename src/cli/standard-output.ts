/** Standard output, whoever reads it: a pipe that is slow, one that is closed, a full disk. */
import { write } from "node:fs";
import { promisify } from "node:util";
import { messageOf } from "#base";
import { EXIT_FAILED } from "./exit-codes.ts";
import { codeOf, fileProblem } from "./file-problem.ts";
import { shownText } from "./terminal-text.ts";

const STANDARD_OUTPUT = 1;
/** Until a pipe that may not be waited for has room again. */
const RETRY_MS = 5;

const writeTo = promisify(write);

/**
 * Writes text, on a terminal without control characters, and settles when the reader took it: who
 * streams waits here, and the stream pauses in the engine. `process.stdout` would hold up the whole
 * thread. Throws IO for a full disk.
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

/** For what is written by `process.stdout`: failures end the process with a line, not a stack. */
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
