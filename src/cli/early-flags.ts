/**
 * Sets V8's flags of this process before its heap has been collected in idle time, so this module
 * is imported first, and by the process's own file alone: V8 counts such collections, the first of
 * which is at least 8 s behind a start, and ends a process (`Check failed`) that lowers the limit
 * below what was counted.
 */
import { setFlagsFromString } from "node:v8";
import { v8Flags } from "./v8-flags.ts";

for (const flag of v8Flags(process.argv.slice(2), process.versions.v8)) setFlagsFromString(flag);
