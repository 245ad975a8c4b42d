/** `perigee worker` and `perigee route` as processes of their own. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { killAtExit } from "./kill-at-exit.ts";

const START_MS = 90_000;
const LINES_MAX = 5_000;
const BYTES_PER_KIB = 1024;

export interface FleetProcessOptions {
  /** Further variables of its environment. */
  readonly env?: Readonly<Record<string, string>>;
  /** The folder whose `dist` is run; a test's own working directory where none is given. */
  readonly root?: string;
  /** Told of each line of its log. */
  readonly onLine?: (line: string) => void;
}

export class FleetProcess {
  readonly url: string;
  readonly #child: ChildProcess;
  readonly #log: string[];

  private constructor(child: ChildProcess, url: string, log: string[]) {
    this.#child = child;
    this.url = url;
    this.#log = log;
  }

  /** Settles when it listens. `words`: the command line behind `perigee`. */
  static async start(
    words: readonly string[],
    { env = {}, root, onLine = () => {} }: FleetProcessOptions = {},
  ): Promise<FleetProcess> {
    const child = spawn(process.execPath, ["dist/cli/main.js", ...words], {
      ...(root !== undefined && { cwd: root }),
      env: { ...process.env, ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    killAtExit(child);
    const log: string[] = [];
    const url = await new Promise<string>((resolve, reject) => {
      const fail = (what: string) => reject(new Error(`${words[0]} ${what}:\n${log.join("\n")}`));
      const timer = setTimeout(() => fail("does not start"), START_MS);
      child.once("exit", (code, signal) => fail(`ended with ${code ?? signal}`));
      for (const stream of [child.stdout, child.stderr]) {
        if (stream === null) continue;
        createInterface({ input: stream }).on("line", (line) => {
          log.push(line);
          if (log.length > LINES_MAX) log.shift();
          onLine(line);
          const match = /(?:serving \S+|routing) at (https?:\/\/[^\s"]+)/.exec(line);
          if (match?.[1] === undefined) return;
          clearTimeout(timer);
          resolve(match[1]);
        });
      }
    });
    return new FleetProcess(child, url, log);
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  get isAlive(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** The newest lines of its log. */
  get log(): readonly string[] {
    return this.#log;
  }

  /** 0 where the system does not tell, or it has ended. */
  get residentBytes(): number {
    try {
      const status = readFileSync(`/proc/${this.#child.pid}/status`, "utf8");
      return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1] ?? 0) * BYTES_PER_KIB;
    } catch {
      return 0;
    }
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** Sends a signal and waits for the end; the exit code, null where the signal ended it. */
  async end(signal: NodeJS.Signals): Promise<number | null> {
    if (!this.isAlive) return this.#child.exitCode;
    const ended = once(this.#child, "exit");
    this.#child.kill(signal);
    this.#child.kill("SIGCONT");
    await ended;
    return this.#child.exitCode;
  }
}
