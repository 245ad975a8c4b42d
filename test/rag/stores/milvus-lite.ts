/** A real Milvus for tests: Milvus Lite as a server, where Python 3.12 is. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { openStore } from "#rag/stores";

const environment = spawnSync(
  "test/peers/python-venv.sh",
  ["milvus", "milvus-lite==3.2.2", "pymilvus==3.0.2"],
  { encoding: "utf8" },
);

/** Why there is none; null: there is one. */
export const noMilvus: string | null =
  environment.status === 0 ? null : (environment.stderr.trim().split("\n").at(-1) ?? "no Python");

export class MilvusLite {
  readonly folder: string;
  readonly port: number;
  #process: ChildProcess | null = null;

  private constructor(folder: string, port: number) {
    this.folder = folder;
    this.port = port;
  }

  /** Starts a server with an empty folder. */
  static async start(): Promise<MilvusLite> {
    const lite = new MilvusLite(await mkdtemp(join(tmpdir(), "milvus-lite-")), await freePort());
    try {
      await lite.restart();
    } catch (error) {
      await lite.close();
      throw error;
    }
    return lite;
  }

  /** Starts it again at the same port, with what its folder has. */
  async restart(): Promise<void> {
    const program = join(environment.stdout.trim(), "bin/milvus-lite");
    const words = ["server", "--data-dir", this.folder, "--host", "127.0.0.1", "--port"];
    const child = spawn(program, [...words, String(this.port)], {
      stdio: ["ignore", "pipe", "ignore"],
      env: { ...process.env, PYTHONUNBUFFERED: "1" },
    });
    this.#process = child;
    for await (const line of createInterface({ input: child.stdout })) {
      if (!line.includes("listening")) continue;
      // Nothing more is read: what it still says must not hold it up.
      child.stdout.resume();
      await (await openStore(this.url)).close();
      return;
    }
    throw new Error(`Milvus Lite ended with ${child.exitCode}`);
  }

  get url(): string {
    return `milvus://127.0.0.1:${this.port}`;
  }

  /** Ends the server; its folder stays. */
  async stop(): Promise<void> {
    const child = this.#process;
    this.#process = null;
    if (child === null || child.exitCode !== null) return;
    const exited = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await exited;
  }

  async close(): Promise<void> {
    await this.stop();
    await rm(this.folder, { recursive: true, force: true });
  }
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === "string") throw new Error("It listens at a port");
  return address.port;
}
