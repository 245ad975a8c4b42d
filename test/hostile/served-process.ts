/** `perigee serve` of the bundled model, in a process of its own. */
import { type ChildProcess, spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { json } from "../support/json.ts";
import { killAtExit } from "../support/kill-at-exit.ts";

const startTimeoutMs = 60_000;
const stopTimeoutMs = 60_000;
const settleTimeoutMs = 90_000;
const bytesPerKib = 1024;

/**
 * float32, because its tokens never depend on the batch; no more sequences at a time than two cores
 * compute in a tenth of a second, and a pool that holds all of them at their longest: whose blocks
 * are taken by others waits by design, for as long as these run; everything that clients can be
 * allowed; short deadlines; and a cache of grammars that the first requests fill, since one of
 * 64 MiB still grows long after them.
 */
const SEQUENCES = 24;
const CONTEXT_TOKENS = 1024;
/** Of the bundled model in float32. */
const BYTES_PER_TOKEN = 12 * 1024;
const POOL_BYTES = (SEQUENCES + 1) * CONTEXT_TOKENS * BYTES_PER_TOKEN;
const FLAGS = [
  ...["--running-sequences-max", String(SEQUENCES), "--kv-pool-bytes", String(POOL_BYTES)],
  ...["--context-tokens-max", String(CONTEXT_TOKENS), "--port", "0"],
  ...["--device", "cpu", "--dtype", "float32"],
  ...["--enable-request-id-headers", "--cors-origins", "*", "--allow-request-chat-template"],
  ...["--text-deadline-ms", "3000", "--write-timeout-ms", "8000"],
  ...["--grammar-cache-bytes-max", String(4 * 2 ** 20), "--speculative", "redrafter"],
  // Requests that name lookup leave their outputs here, by their salts.
  ...["--speculative-earlier-bytes", String(2 ** 20)],
];

export class ServedProcess {
  readonly url: string;
  readonly #child: ChildProcess;
  readonly #log: string[];

  private constructor(child: ChildProcess, url: string, log: string[]) {
    this.#child = child;
    this.url = url;
    this.#log = log;
  }

  /** `root`: the folder whose `dist` is run. */
  static async start(root: string, flags: readonly string[] = []): Promise<ServedProcess> {
    const words = ["dist/cli/main.js", "serve", "models/pocket", ...FLAGS, ...flags];
    const child = spawn(process.execPath, words, {
      cwd: root,
      stdio: ["ignore", "ignore", "pipe"],
    });
    killAtExit(child);
    const log: string[] = [];
    const url = await new Promise<string>((resolve, reject) => {
      const timer = setTimeout(
        () => reject(new Error("The server does not start")),
        startTimeoutMs,
      );
      child.once("exit", (code) => reject(new Error(`Exit ${code}:\n${log.join("\n")}`)));
      let rest = "";
      child.stderr?.setEncoding("utf8").on("data", (chunk: string) => {
        const lines = `${rest}${chunk}`.split("\n");
        rest = lines.pop() ?? "";
        for (const line of lines) keep(log, line);
        const match = /serving .* at (http:\S+)/.exec(lines.join("\n"));
        if (match?.[1] === undefined) return;
        clearTimeout(timer);
        resolve(match[1]);
      });
    });
    child.removeAllListeners("exit");
    return new ServedProcess(child, url, log);
  }

  get alive(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** The newest lines of its log. */
  get log(): readonly string[] {
    return this.#log;
  }

  /** Memory of the process, then of each that it started; 0 where the system does not tell. */
  residentBytesEach(): number[] {
    const parents = processParents();
    const { pid } = this.#child;
    if (pid === undefined) return [];
    const family = [pid];
    // Children are appended while the loop runs.
    for (const parent of family) family.push(...(parents.get(parent) ?? []));
    return family.map(residentBytesOf);
  }

  /**
   * Waits until no request is in work and no block is held; what is left after a while. Null: the
   * process has ended.
   */
  async settled(): Promise<{ readonly requests: number; readonly heldBlocks: number } | null> {
    const deadlineMs = performance.now() + settleTimeoutMs;
    let left = { requests: Number.NaN, heldBlocks: Number.NaN };
    while (this.alive && performance.now() < deadlineMs) {
      try {
        const signal = AbortSignal.timeout(settleTimeoutMs);
        const info = await json(fetch(`${this.url}/server_info`, { signal }));
        const heldBlocks = Number(info.stats?.heldBlocks);
        left = { requests: Number(info.requests_in_work), heldBlocks };
        if (left.requests + heldBlocks === 0) return left;
      } catch {
        // It is ending, or does not answer: the loop's conditions tell.
      }
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    return this.alive ? left : null;
  }

  /** Ends it as an operator does; its exit code, null where it had to be killed. */
  async stop(): Promise<number | null> {
    if (!this.alive) return this.#child.exitCode;
    const ended = new Promise<void>((resolve) => this.#child.once("exit", () => resolve()));
    this.#child.kill("SIGTERM");
    const timer = setTimeout(() => this.#child.kill("SIGKILL"), stopTimeoutMs);
    await ended;
    clearTimeout(timer);
    return this.#child.exitCode;
  }

  /** Ends it at once. */
  kill(): void {
    this.#child.kill("SIGKILL");
  }
}

const linesMax = 2_000;

function keep(log: string[], line: string): void {
  log.push(line);
  if (log.length > linesMax) log.shift();
}

/** Children by parent, where the system has /proc. */
function processParents(): Map<number, number[]> {
  const children = new Map<number, number[]>();
  for (const name of listed("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const parent = /^PPid:\s+(\d+)/m.exec(statusOf(Number(name)))?.[1];
    if (parent === undefined) continue;
    children.set(Number(parent), [...(children.get(Number(parent)) ?? []), Number(name)]);
  }
  return children;
}

function residentBytesOf(pid: number): number {
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(statusOf(pid))?.[1] ?? 0) * bytesPerKib;
}

function listed(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return []; // not Linux
  }
}

function statusOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/status`, "utf8");
  } catch {
    return ""; // it has ended
  }
}
