import type { OutputPart } from "./output-part.ts";

/** Reads calls in one notation, from behind the mark that opens them to their end. */
export interface CallReader {
  /** Whether a call has begun. */
  readonly called: boolean;
  /** Takes text; returns what is behind the end of the calls, null where they have not ended. */
  push(text: string, parts: OutputPart[]): string | null;
  /** Ends the calls; returns the text that turned out to be none, "" where all of it was calls. */
  finish(parts: OutputPart[]): string;
}
