/**
 * The text of a file of settings. Any path may be given: what has no end, gives nothing, or is no
 * text is refused, and nothing waits for long.
 */
import { closeSync, constants, fstatSync, openSync, readSync } from "node:fs";
import { EngineError } from "#base";
import { codeOf, fileProblem } from "../file-problem.ts";

/** Far above the text of all settings together. */
const BYTES_MAX = 256 * 2 ** 10;
/** How long a pipe may keep its text back. */
const PIPE_MS_MAX = 10_000;
const POLL_MS = 10;

/** Where something stands in a file; both count from 1. */
export interface Place {
  readonly line: number;
  readonly column: number;
}

/** A failure that names file and place. */
export function refusal(file: string, place: Place, problem: string): EngineError {
  const where = `line ${place.line}, column ${place.column}`;
  return new EngineError("INVALID_ARGUMENT", `Cannot use ${file}, ${where}: ${problem}`, {
    param: "--config",
  });
}

/**
 * The text, decoded from UTF-8. Throws IO where it cannot be read, INVALID_ARGUMENT where it is too
 * long or no text. `pipeMsMax`: how long a pipe may keep its text back.
 */
export function readSettingsText(file: string, pipeMsMax: number = PIPE_MS_MAX): string {
  const bytes = readBytes(file, pipeMsMax);
  if (isBinary(bytes)) {
    throw new EngineError(
      "INVALID_ARGUMENT",
      `Cannot use ${file}: must be a YAML file of settings, it is no text but a binary file`,
      { param: "--config" },
    );
  }
  if (bytes.length > BYTES_MAX) {
    throw new EngineError(
      "INVALID_ARGUMENT",
      `Cannot use ${file}: must have at most ${BYTES_MAX} bytes, current value is more; a file ` +
        "of settings has some lines, is it another file?",
      { param: "--config" },
    );
  }
  const text = bytes.toString("utf8");
  const again = Buffer.from(text, "utf8");
  if (again.equals(bytes)) return text;
  const place = placeOf(bytes.subarray(0, firstDifference(bytes, again)));
  throw refusal(file, place, "must be text in UTF-8; save the file with that encoding");
}

/** Of UTF-16, which is text in another encoding. */
const UTF_16_MARKS = [Buffer.from([0xff, 0xfe]), Buffer.from([0xfe, 0xff])];

/** Whether it has bytes that are in no text file: those below the tab. */
function isBinary(bytes: Buffer): boolean {
  if (UTF_16_MARKS.some((mark) => bytes.subarray(0, 2).equals(mark))) return false;
  return bytes.some((byte) => byte < 0x09);
}

/** At most one byte more than a file may have. */
function readBytes(file: string, pipeMsMax: number): Buffer {
  const bytes = Buffer.alloc(BYTES_MAX + 1);
  let length = 0;
  try {
    // Opening a pipe into which nothing writes would wait for ever.
    const handle = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      const deadlineMs = performance.now() + pipeMsMax;
      // A pipe is read in pieces.
      for (let read = 1; read > 0 && length < bytes.length; length += read) {
        read = readPiece(handle, bytes.subarray(length), { isFirst: length === 0, deadlineMs });
      }
    } finally {
      closeSync(handle);
    }
  } catch (cause) {
    if (cause instanceof SilentPipe) throw silentPipe(file, pipeMsMax);
    throw fileProblem({ action: "read", file, wanted: "a YAML file of settings", cause });
  }
  return bytes.subarray(0, length);
}

class SilentPipe extends Error {}

/** Waits for what a pipe has not given yet; 0 at the end. */
function readPiece(
  handle: number,
  into: Buffer,
  { isFirst, deadlineMs }: { readonly isFirst: boolean; readonly deadlineMs: number },
): number {
  for (;;) {
    try {
      const read = readSync(handle, into, 0, into.length, null);
      // A pipe that is not opened for writing yet ends at once.
      if (read > 0 || !isFirst || !fstatSync(handle).isFIFO()) return read;
    } catch (cause) {
      if (codeOf(cause) !== "EAGAIN") throw cause;
    }
    if (performance.now() >= deadlineMs) throw new SilentPipe();
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, POLL_MS);
  }
}

function silentPipe(file: string, pipeMsMax: number): EngineError {
  const found = `it is a pipe that gave nothing for ${pipeMsMax / 1000} s`;
  const remedy = "name a file, or start first what writes into the pipe";
  return new EngineError(
    "IO",
    `Cannot read ${file}: wanted a YAML file of settings, ${found}; ${remedy}`,
    { param: "--config" },
  );
}

function firstDifference(a: Buffer, b: Buffer): number {
  let place = 0;
  while (place < a.length && a[place] === b[place]) place++;
  return place;
}

/** Behind these bytes. */
function placeOf(before: Buffer): Place {
  const lines = before.toString("utf8").split("\n");
  return { line: lines.length, column: (lines.at(-1)?.length ?? 0) + 1 };
}
