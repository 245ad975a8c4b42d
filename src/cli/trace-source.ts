import { parseTrace, readTrace, type Trace, traceLines } from "#simulator";

/** The trace of a command line: a file, or standard input for `-`. Throws as `readTrace` does. */
export function readTraceSource(path: string, blockTokens: number): Promise<Trace> {
  if (path !== "-") return readTrace(path, blockTokens);
  const name = "of standard input";
  return parseTrace(traceLines(process.stdin, name), { path: name, blockTokens });
}
