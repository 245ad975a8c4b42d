/**
 * Start messages of `perigee serve` on standard error: plain lines on a terminal, JSON elsewhere,
 * as in the server's log, so that a log collector can parse every line.
 */
import { pino } from "pino";
import { plainText } from "./terminal-text.ts";

const STANDARD_ERROR = 2;

/** Writes one message; `fields` are further members of the JSON line. */
export type Announce = (message: string, fields?: Readonly<Record<string, unknown>>) => void;

/** Writers of start lines and warnings. */
export interface StartLines {
  readonly say: Announce;
  readonly warn: Announce;
}

/** Lines for a terminal or for a log collector. Written at once, at any log level. */
export function startLines(terminal: boolean = process.stderr.isTTY === true): StartLines {
  if (terminal) {
    return {
      say: (message) => process.stderr.write(`perigee: ${plainText(message)}\n`),
      warn: (message) => process.stderr.write(`warning: ${plainText(message)}\n`),
    };
  }
  const log = pino({}, pino.destination({ dest: STANDARD_ERROR, sync: true }));
  return {
    say: (message, fields = {}) => log.info(fields, message),
    warn: (message, fields = {}) => log.warn(fields, message),
  };
}
