/** Runs the built `perigee` as a user does. */
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";

const main = "dist/cli/main.js";

/** Is there a build to run? */
export const built: boolean = existsSync(main);

export interface Ran {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunOptions {
  /** Written to standard input, which is then closed. */
  readonly input?: string;
  readonly environment?: Readonly<Record<string, string>>;
  /** Sent when standard output first says something. */
  readonly signal?: NodeJS.Signals;
}

/** Waits for the end of `perigee ...words`; output is piped, so there is no terminal. */
export function perigee(words: readonly string[], options: RunOptions = {}): Promise<Ran> {
  const { input = "", environment = {}, signal } = options;
  const child = spawn(process.execPath, [main, ...words], {
    env: { ...process.env, ...environment },
  });
  let stdout = "";
  let stderr = "";
  child.stdout.on("data", (chunk) => {
    if (stdout === "" && signal !== undefined) child.kill(signal);
    stdout += chunk;
  });
  child.stderr.on("data", (chunk) => {
    stderr += chunk;
  });
  child.stdin.end(input);
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => resolve({ code, stdout, stderr }));
  });
}

/** JSON lines of an output. */
export function jsonLines(text: string): Record<string, unknown>[] {
  return text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
}
