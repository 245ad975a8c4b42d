/** A master, a replica and three sentinels that watch them, where the machine has Redis. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Redis } from "ioredis";
import { freePort, REDIS_PROGRAM } from "./redis-server.ts";
import { until } from "./until.ts";

const NAME = "fleet.one";
const DOWN_MS = 500;
const FAILOVER_MS = 3000;
const PASSWORD = "se:cret/1";

export class RedisSentinels {
  /** As users write it: with the master's password. */
  readonly url: string;
  readonly #folder: string;
  readonly #servers: ReadonlyMap<number, ChildProcess>;
  readonly #sentinels: readonly number[];

  private constructor(
    folder: string,
    servers: ReadonlyMap<number, ChildProcess>,
    sentinels: readonly number[],
  ) {
    this.#folder = folder;
    this.#servers = servers;
    this.#sentinels = sentinels;
    const hosts = sentinels.map((port) => `127.0.0.1:${port}`).join(",");
    this.url = `redis+sentinel://:${encodeURIComponent(PASSWORD)}@${hosts}/${NAME}`;
  }

  /** Settles when the sentinels know the replica and each other. */
  static async start(): Promise<RedisSentinels> {
    const folder = mkdtempSync(join(tmpdir(), "perigee-sentinels-"));
    const ports: number[] = [];
    while (ports.length < 5) {
      const port = await freePort();
      if (!ports.includes(port)) ports.push(port);
    }
    const [master = 0, replica = 0, ...sentinels] = ports;
    const servers = new Map<number, ChildProcess>();
    const run = (port: number, lines: readonly string[], ...words: string[]) => {
      const file = join(folder, `${port}.conf`);
      writeFileSync(file, [`port ${port}`, "bind 127.0.0.1", `dir ${folder}`, ...lines].join("\n"));
      servers.set(port, spawn(REDIS_PROGRAM, [file, ...words], { stdio: "ignore" }));
    };
    const own = [`requirepass ${PASSWORD}`, `masterauth ${PASSWORD}`, 'save ""'];
    run(master, own);
    run(replica, [...own, `replicaof 127.0.0.1 ${master}`]);
    for (const port of sentinels) {
      const watched = [
        `sentinel monitor ${NAME} 127.0.0.1 ${master} 2`,
        `sentinel auth-pass ${NAME} ${PASSWORD}`,
        `sentinel down-after-milliseconds ${NAME} ${DOWN_MS}`,
        `sentinel failover-timeout ${NAME} ${FAILOVER_MS}`,
      ];
      run(port, watched, "--sentinel");
    }
    const started = new RedisSentinels(folder, servers, sentinels);
    await until("sentinels know all", () => started.#areComplete());
    return started;
  }

  /** Of the master that the sentinels name now. */
  async masterPort(): Promise<number> {
    for (const port of this.#sentinels) {
      const answer = await this.#ask(port, "get-master-addr-by-name").catch(() => null);
      if (Array.isArray(answer)) return Number(answer[1]);
    }
    return 0;
  }

  /** The master dies; settles when another one is named. */
  async loseMaster(): Promise<void> {
    const port = await this.masterPort();
    const child = this.#servers.get(port);
    child?.kill("SIGKILL");
    await this.#another(port);
  }

  /** The master is silent, its connections stay open; settles when another one is named. */
  async silenceMaster(): Promise<() => void> {
    const port = await this.masterPort();
    const child = this.#servers.get(port);
    child?.kill("SIGSTOP");
    await this.#another(port);
    return () => child?.kill("SIGCONT");
  }

  /** An operator changes places; the old master lives, and is a replica then. */
  async changePlaces(): Promise<void> {
    const port = await this.masterPort();
    const [first = 0] = this.#sentinels;
    await until("it is begun", async () => {
      const answer = await this.#ask(first, "failover").catch(() => null);
      return answer === "OK";
    });
    await this.#another(port);
  }

  async close(): Promise<void> {
    for (const child of this.#servers.values()) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      const ended = once(child, "exit");
      child.kill("SIGKILL");
      await ended;
    }
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #another(port: number): Promise<void> {
    const changed = async () => ![port, 0].includes(await this.masterPort());
    await until("another one is master", changed);
  }

  async #areComplete(): Promise<boolean> {
    for (const port of this.#sentinels) {
      const others = await this.#ask(port, "sentinels").catch(() => []);
      const replicas = await this.#ask(port, "replicas").catch(() => []);
      const count = (list: unknown) => (Array.isArray(list) ? list.length : 0);
      if (count(others) !== this.#sentinels.length - 1 || count(replicas) !== 1) return false;
    }
    return true;
  }

  async #ask(port: number, what: string): Promise<unknown> {
    const client = new Redis({ port, host: "127.0.0.1", retryStrategy: () => null });
    client.on("error", () => {});
    try {
      return await client.call("sentinel", what, NAME);
    } finally {
      client.disconnect();
    }
  }
}
