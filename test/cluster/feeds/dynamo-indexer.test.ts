/** Dynamo's own indexer as a reader of our ZeroMQ events: does it find what the cache has? */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, expect, test } from "vitest";
import { VllmEventEncoder } from "#kvcache";
import { ZmqKvPublisher } from "../../../src/server/kv-events/zmq-publisher.ts";
import { CacheHistory } from "../../support/cache-history.ts";
import { freePort } from "../../support/redis-server.ts";

const VENV = spawnSync("test/peers/dynamo-venv.sh", { encoding: "utf8", timeout: 300_000 });
const PYTHON = VENV.stdout.trim();
/** Why the peer is not run; null: it is. */
const NO_PEER =
  VENV.status === 0 ? null : `no ai-dynamo-runtime: ${VENV.stderr.trim().slice(-200)}`;

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/** The indexer, and what it answers. */
class DynamoIndexer {
  readonly url: string;
  readonly #process: ChildProcess;

  private constructor(url: string, process: ChildProcess) {
    this.url = url;
    this.#process = process;
  }

  static async start(): Promise<DynamoIndexer> {
    const port = await freePort();
    const options = ["-m", "dynamo.indexer", "--port", `${port}`, "--threads", "1"];
    const child = spawn(PYTHON, options, { stdio: "ignore" });
    const indexer = new DynamoIndexer(`http://127.0.0.1:${port}`, child);
    closing.push(() => indexer.close());
    await expect.poll(() => indexer.isUp(), { timeout: 20_000 }).toBe(true);
    return indexer;
  }

  async isUp(): Promise<boolean> {
    return await fetch(`${this.url}/health`).then(
      ({ ok }) => ok,
      () => false,
    );
  }

  async post(path: string, body: object): Promise<unknown> {
    const answer = await fetch(this.url + path, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model_name: "toy", ...body }),
    });
    expect(answer.ok).toBe(true);
    return await answer.json();
  }

  /** Leading tokens that worker 1 has: on any level, and on the device alone. */
  async matched(tokenIds: readonly number[]): Promise<{ all: number; device: number }> {
    const answer = (await this.post("/query", { token_ids: tokenIds })) as {
      readonly instances?: Readonly<Record<string, { longest_matched: number; gpu: number }>>;
    };
    const { longest_matched: all = 0, gpu: device = 0 } = answer.instances?.["1"] ?? {};
    return { all, device };
  }

  async close(): Promise<void> {
    const ended = once(this.#process, "exit");
    this.#process.kill();
    await ended;
  }
}

const skip = { skip: NO_PEER !== null, timeout: 120_000 };
const reason = NO_PEER === null ? "" : ` (${NO_PEER})`;

async function startPublisher(): Promise<ZmqKvPublisher> {
  const publisher = await ZmqKvPublisher.start({
    endpoint: "tcp://*:*",
    replayEndpoint: "tcp://*:*",
    topic: "",
    nowSeconds: () => Date.now() / 1000,
  });
  closing.push(() => publisher.close());
  return publisher;
}

const local = (endpoint: string | null) => endpoint?.replace("0.0.0.0", "127.0.0.1");

// Its `scores` count the device alone: they differ from `cached_tokens` where host memory is hit.
test.each([
  ["without a host level", 0],
  ["with a host level", 80],
])(
  `[CL28] dynamo.indexer agrees 120 times of 120, %s${reason}`,
  skip,
  async (_name, hostBlocks) => {
    const publisher = await startPublisher();
    const indexer = await DynamoIndexer.start();
    await indexer.post("/register", {
      instance_id: 1,
      block_size: 4,
      endpoint: local(publisher.endpoint),
      replay_endpoint: local(publisher.replayEndpoint),
    });
    await sleep(500);
    const history = new CacheHistory(4, { hostBlocks }, { adapters: false, salts: false });
    const encoder = new VllmEventEncoder(history.blockTokens);
    const wrong: string[] = [];
    let deviceOnly = 0;
    for (let round = 0; round < 120; round++) {
      for (let step = 0; step < 25; step++) {
        await publisher.publish(history.step().flatMap((event) => encoder.encode(event) ?? []));
      }
      const prompt = history.prompt();
      const cached = history.cachedTokens(prompt);
      // Events travel on their own; what is not there soon does not come.
      let matched = await indexer.matched(prompt);
      for (let tries = 0; tries < 20 && matched.all !== cached; tries++) {
        await sleep(20);
        matched = await indexer.matched(prompt);
      }
      if (matched.all !== cached) wrong.push(`${matched.all} of ${cached}`);
      if (matched.device === cached) deviceOnly++;
    }
    expect(wrong).toEqual([]);
    expect(deviceOnly === 120).toBe(hostBlocks === 0);
  },
);
