/** A Redis of a test's own, where the machine has one: `redis-server` or `valkey-server`. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Redis } from "ioredis";

const PROGRAM = ["redis-server", "valkey-server"].find(
  (name) => spawnSync(name, ["--version"]).status === 0,
);

/** Why tests with Redis are skipped; null: they are not. */
export const NO_REDIS: string | null =
  PROGRAM === undefined ? "needs redis-server or valkey-server 7.0 or newer in PATH" : null;

/** The program's name, where there is one. */
export const REDIS_PROGRAM: string = PROGRAM ?? "redis-server";

/** Keeps nothing on disk: it starts empty each time. */
export class TestRedis {
  readonly port: number;
  readonly #folder = mkdtempSync(join(tmpdir(), "perigee-redis-"));
  readonly #password: string | null;
  readonly #env: Readonly<Record<string, string>>;
  #process: ChildProcess | null = null;

  private constructor(
    port: number,
    password: string | null,
    env: Readonly<Record<string, string>>,
  ) {
    this.port = port;
    this.#password = password;
    this.#env = env;
  }

  /** `env`: further variables of its environment. */
  static async start(
    password: string | null = null,
    env: Readonly<Record<string, string>> = {},
  ): Promise<TestRedis> {
    const redis = new TestRedis(await freePort(), password, env);
    await redis.start();
    return redis;
  }

  get url(): string {
    const access = this.#password === null ? "" : `:${this.#password}@`;
    return `redis://${access}127.0.0.1:${this.port}`;
  }

  /** Settles when it answers. */
  async start(): Promise<void> {
    const options = ["--port", `${this.port}`, "--bind", "127.0.0.1", "--save", "", "--dir"];
    const access = this.#password === null ? [] : ["--requirepass", this.#password];
    this.#process = spawn(REDIS_PROGRAM, [...options, this.#folder, ...access], {
      stdio: "ignore",
      env: { ...process.env, ...this.#env },
    });
    const client = this.client();
    await client.ping();
    client.disconnect();
  }

  /** A connection for the test itself. */
  client(): Redis {
    const client = new Redis(this.url, { retryStrategy: () => 20, maxRetriesPerRequest: null });
    client.on("error", () => {});
    return client;
  }

  /** What it had is lost. */
  async kill(): Promise<void> {
    await end(this.#process, "SIGKILL");
    this.#process = null;
  }

  /** It is silent, with its connections open, or goes on. */
  signal(signal: "SIGSTOP" | "SIGCONT"): void {
    this.#process?.kill(signal);
  }

  async close(): Promise<void> {
    await this.kill();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

async function end(child: ChildProcess | null, signal: NodeJS.Signals): Promise<void> {
  if (child === null || child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill(signal);
  await ended;
}

/** A port that was free a moment ago. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === "string") throw new Error("It listens at a port");
  return address.port;
}
