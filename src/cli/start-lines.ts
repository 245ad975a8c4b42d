/**
 * What `perigee serve` says about itself on standard error: plain lines on a terminal, JSON
 * elsewhere, as the server's log is, so that whoever collects the log can parse every line.
 */
import { pino } from "pino";
import { plainText } from "./terminal-text.ts";

const STANDARD_ERROR = 2;

/** Says one thing; `fields` are further members of the JSON line. */
export type Announce = (message: string, fields?: Readonly<Record<string, unknown>>) => void;

/** Where start lines and warnings go. */
export interface StartLines {
  readonly say: Announce;
  readonly warn: Announce;
}

/** Lines for a terminal or for a collector of JSON. Written at once, whatever the log level is. */
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
