/**
 * V8's flags of this process that must be set before its heap has been collected in idle time, so
 * this module is imported first, and by the process's own file alone.
 *
 * A router: V8 makes the heap of a process small when it seems to be idle, up to three times in a
 * row, and a router with a few requests a second seems so between any two of them. Each time takes
 * some 70 ms of processor time on all threads; once is enough. V8 counts these times, the first of
 * which is at least 8 s behind a start, and ends a process (`Check failed`) that lowers the limit
 * below what was counted.
 */
import { setFlagsFromString } from "node:v8";

if (process.argv[2] === "route") setFlagsFromString("--memory-reducer-single-gc");
