/** Runs `perigee`: the built one as a user does, or in this process. */
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { vi } from "vitest";
import { run } from "../../src/cli/run.ts";
import { full } from "../support/full.ts";

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

/**
 * The same in this process, without the time that a process takes to start: for words that read no
 * standard input, stream no text and leave no server. The long run has a process for each.
 */
export async function perigeeInside(words: readonly string[]): Promise<Ran> {
  if (full) return perigee(words);
  const [stdout, stderr] = [capture(process.stdout), capture(process.stderr)];
  try {
    const code = await run(words);
    return { code, stdout: stdout.text(), stderr: stderr.text() };
  } finally {
    for (const one of [stdout, stderr]) one.end();
  }
}

function capture(stream: NodeJS.WriteStream) {
  const chunks: string[] = [];
  const spy = vi.spyOn(stream, "write").mockImplementation((chunk) => {
    chunks.push(String(chunk));
    return true;
  });
  return { text: () => chunks.join(""), end: () => spy.mockRestore() };
}

/** JSON lines of an output. */
export function jsonLines(text: string): Record<string, unknown>[] {
  return text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
}
