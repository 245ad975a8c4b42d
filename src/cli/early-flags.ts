/**
 * V8's flags of this process that must be set before its heap has been collected in idle time, so
 * this module is imported first, and by the process's own file alone.
 *
 * A router: V8 makes the heap of a process small when it seems to be idle, three times in a row
 * or, since version 12, twice, and a router with a few requests a second seems so between any two
 * of them. Each time takes some 70 ms of processor time on all threads; once is enough. V8 counts
 * these times, the first of which is at least 8 s behind a start, and ends a process (`Check
 * failed`) that lowers the limit below what was counted.
 */
import { setFlagsFromString } from "node:v8";

/** V8 prints an error for a flag that it does not have. */
const flag =
  Number.parseInt(process.versions.v8, 10) < 12
    ? "--memory-reducer-single-gc"
    : "--memory-reducer-gc-count=1";

// Words before the command are flags and their values: a `route` among these costs nothing.
if (process.argv.slice(2).includes("route")) setFlagsFromString(flag);
