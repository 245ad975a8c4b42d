/**
 * A reader who follows a document in one terminal: its commands are run in order, in an empty
 * folder, with the built `perigee`. Servers stay until the document ends or another one takes their
 * port; a request without one asks a server of the bundled model. Ports are moved to free ones.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { perigeeWords, type ShownCommand, simpleCommands } from "./shell-lines.ts";

/** What a command printed. */
export interface CommandResult {
  /** Null: it serves. */
  readonly code: number | null;
  readonly output: string;
}

const MAIN = resolve("dist/cli/main.js");
const DEFAULT_PORT = 8000;
const READY = / at https?:\/\//;
const READY_MS = 60_000;
const STOP_MS = 10_000;
const COMMAND_MS = 60_000;

/** The model that would have to be downloaded is replaced by the bundled one. */
export function withBundled(text: string): string {
  return text.replace(/\b(Qwen\/Qwen2\.5-0\.5B-Instruct|qwen2\.5:0\.5b)\b/g, "models/pocket");
}

interface Server {
  readonly port: number;
  readonly process: ChildProcess;
  readonly said: () => string;
  /** Settles when it serves, or has ended; rejects where neither comes. */
  readonly ready: Promise<void>;
}

export class ReaderSession {
  readonly #folder = mkdtempSync(join(tmpdir(), "perigee-reader-"));
  readonly #shell: Terminal;
  readonly #shift: number;
  readonly #environment: NodeJS.ProcessEnv;
  #servers: Server[] = [];

  /** `files`: of the clone, by path, which the reader has in the folder, too. */
  static async start(files: readonly string[]): Promise<ReaderSession> {
    return new ReaderSession(files, await freeShift());
  }

  private constructor(files: readonly string[], shift: number) {
    this.#shift = shift;
    const programs = join(this.#folder, ".programs");
    this.#environment = {
      ...process.env,
      PATH: `${programs}:${process.env.PATH}`,
      CURL_HOME: programs,
      PERIGEE_DEVICE: "cpu",
      PERIGEE_OFFLINE: "1",
    };
    mkdirSync(programs);
    const node = `exec "${process.execPath}" "${MAIN}" "$@"`;
    this.#program(programs, "perigee", node);
    this.#program(programs, "npx", `[ "$1" = perigee ] || exit 127; shift; ${node}`);
    writeFileSync(join(programs, ".curlrc"), "fail-with-body\nsilent\nshow-error\n");
    for (const name of ["models", "examples"]) symlinkSync(resolve(name), this.#path(name));
    for (const name of ["keys.txt", "admin-keys.txt"]) writeFileSync(this.#path(name), "a-key\n");
    writeFileSync(this.#path("perigee.yaml"), "model: models/pocket\n");
    for (const file of files) cpSync(resolve(file), this.#path(file), { recursive: true });
    this.#shell = new Terminal(this.#folder, this.#environment);
  }

  #path(name: string): string {
    return join(this.#folder, name);
  }

  #program(folder: string, name: string, line: string): void {
    writeFileSync(join(folder, name), `#!/bin/sh\n${line}\n`);
    chmodSync(join(folder, name), 0o755);
  }

  /**
   * Runs one command. Servers start side by side: what shows their output, asks them or takes their
   * port waits until they serve.
   */
  async run({ command, shown }: ShownCommand): Promise<CommandResult> {
    const text = withBundled(this.#moved(command));
    const file = /^cat (\S+)$/.exec(text)?.[1];
    if (file !== undefined && shown !== null) {
      writeFileSync(this.#path(file), withBundled(this.#moved(shown)));
      return { code: 0, output: withBundled(shown) };
    }
    if (servedPort(text) !== null) return await this.#serve(text, shown !== null);
    if (/\bcurl\b/.test(text) && this.#servers.length === 0) {
      await this.#serve("perigee serve", true);
    }
    await this.settle();
    return await this.#shell.run(text, COMMAND_MS);
  }

  /** Ports that the page names, as the free ones that stand for them. */
  #moved(text: string): string {
    return text.replace(
      /(\b127\.0\.0\.1:|localhost:|\*:|--port[ =]|-p |\bport: )(\d{4,5})\b/g,
      (_, before: string, port: string) => `${before}${Number(port) + this.#shift}`,
    );
  }

  /** Until all servers serve; rejects where one ended. */
  async settle(): Promise<void> {
    for (const { ready, process: child, said } of this.#servers) {
      await ready;
      if (child.exitCode !== null) throw new Error(`ended with ${child.exitCode}:\n${said()}`);
    }
  }

  async #serve(text: string, isShown: boolean): Promise<CommandResult> {
    const port = servedPort(text) ?? DEFAULT_PORT;
    const moved = port === DEFAULT_PORT ? port + this.#shift : port;
    const earlier = this.#servers.filter((server) => server.port === moved);
    if (earlier.length > 0) await this.settle();
    await this.#stop(earlier);
    const server = this.#start(text, moved);
    this.#servers.push(server);
    if (isShown) await this.settle();
    return { code: null, output: plainLines(server.said()) };
  }

  #start(text: string, port: number): Server {
    const line = text.replace(/(\s#[^\n]*|\s*&\s*)+$/, "");
    // A file of settings has its own port, which a variable would win over.
    const own = /--config\b/.test(line) ? {} : { PERIGEE_PORT: String(port) };
    const child = spawn("bash", ["-c", line], {
      cwd: this.#folder,
      env: { ...this.#environment, ...own },
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
    });
    let log = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (chunk) => {
        log += chunk;
      });
    }
    const said = () => log;
    const ready = untilReady(child, said);
    // Looked at when it is waited for.
    ready.catch(() => {});
    return { port, process: child, said, ready };
  }

  async #stop(servers: readonly Server[]): Promise<void> {
    this.#servers = this.#servers.filter((server) => !servers.includes(server));
    await Promise.all(servers.map(({ process: child }) => stopped(child)));
  }

  /** Ends all servers, and removes the folder. */
  async close(): Promise<void> {
    await this.#stop(this.#servers);
    await this.#shell.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** The port of a command that serves until it is ended, 8000 where none is named; null: others. */
export function servedPort(command: string): number | null {
  for (const words of simpleCommands(command)) {
    const [name, ...rest] = perigeeWords(words) ?? [];
    const serves = name === "serve" || name === "worker" || name === "route";
    const ends = rest.some((word) => /^--(print-config|explain|help)$/.test(word));
    if (!serves || ends) continue;
    const place = rest.indexOf("--port");
    return place === -1 ? DEFAULT_PORT : Number(rest[place + 1]);
  }
  return null;
}

/** Lines of a log as a terminal shows them. */
function plainLines(log: string): string {
  return log.replace(/^\{.*"msg":"((?:[^"\\]|\\.)*)".*\}$/gm, "perigee: $1");
}

/** Until a process said or did something; false: not within the time. */
function seen(child: ChildProcess, isDone: () => boolean, limitMs: number): Promise<boolean> {
  const sources = [child.stdout, child.stderr].filter((stream) => stream !== null);
  return new Promise((settle) => {
    const end = (result: boolean) => {
      clearTimeout(timer);
      for (const source of sources) source.off("data", look);
      child.off("exit", look);
      settle(result);
    };
    const look = () => {
      if (isDone()) end(true);
    };
    const timer = setTimeout(() => end(false), limitMs);
    for (const source of sources) source.on("data", look);
    child.on("exit", look);
    look();
  });
}

async function untilReady(child: ChildProcess, said: () => string): Promise<void> {
  const isDone = () => READY.test(said()) || child.exitCode !== null;
  if (await seen(child, isDone, READY_MS)) return;
  throw new Error(`A server did not become ready: ${said()}`);
}

/** Ends a process and those that it started. */
async function stopped(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
  const { pid } = child;
  const ended = once(child, "exit");
  const timer = setTimeout(() => process.kill(-pid, "SIGKILL"), STOP_MS);
  process.kill(-pid, "SIGTERM");
  await ended;
  clearTimeout(timer);
}

/** So far from each named port is a free one: all of a page move together. */
async function freeShift(): Promise<number> {
  const [first, last] = [10_000, 40_000];
  for (;;) {
    const shift = first + Math.floor(Math.random() * (last - first));
    const named = [8000, 8001, 8002, 8003, 8004, 8100, 8101, 8200, 8201, 8202, 8301, 8302, 6379];
    const free = await Promise.all(named.map((port) => isFree(port + shift)));
    if (free.every(Boolean)) return shift;
  }
}

function isFree(port: number): Promise<boolean> {
  const server = createServer();
  return new Promise((settle) => {
    server.once("error", () => settle(false));
    server.listen(port, "127.0.0.1", () => server.close(() => settle(true)));
  });
}

/** One bash, which keeps variables from command to command. */
class Terminal {
  readonly #bash: ChildProcess;
  #output = "";

  constructor(folder: string, environment: NodeJS.ProcessEnv) {
    this.#bash = spawn("bash", ["--noprofile", "--norc"], {
      cwd: folder,
      env: environment,
      detached: true,
    });
    for (const stream of [this.#bash.stdout, this.#bash.stderr]) {
      stream?.on("data", (chunk) => {
        this.#output += chunk;
      });
    }
  }

  /** Runs a line with nothing on its standard input. */
  async run(command: string, limitMs: number): Promise<CommandResult> {
    this.#output = "";
    const end = "-- the end of a command:";
    const isBackground = /&\s*$/.test(command);
    const line = isBackground ? `${command}\n` : `{ ${command}\n} </dev/null\n`;
    this.#bash.stdin?.write(`${line}echo "${end} $?"\n`);
    const ended = () => new RegExp(`${end} (\\d+)\\n`).exec(this.#output);
    const isDone = () => ended() !== null || this.#bash.exitCode !== null;
    if (!(await seen(this.#bash, isDone, limitMs))) {
      throw new Error(`A command did not end: ${command}\n${this.#output}`);
    }
    // A shell that ended itself said no code.
    const [whole = "", code = "1"] = ended() ?? [];
    return { code: Number(code), output: this.#output.replace(whole, "") };
  }

  async close(): Promise<void> {
    await stopped(this.#bash);
  }
}
