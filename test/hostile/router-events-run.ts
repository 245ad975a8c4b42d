/** A router's process, and servers that announce nonsense to it: vLLM's, SGLang's and our own kind. */
import { createServer, type Server, type ServerResponse } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { encode } from "@msgpack/msgpack";
import { EnginePublisher } from "../support/engine-publisher.ts";
import { FleetProcess } from "../support/fleet-process.ts";
import { dice, nastyEvent } from "../support/nasty-events.ts";

const INDEX_BYTES_MAX = 32 * 2 ** 20;
/** Beside the index: what a process of Node keeps between two collections. */
const GROWTH_BYTES_MAX = 224 * 2 ** 20;
/** Lines of one kind of one feed come every 10 s at most. */
const LINES_MAX = 120;
const TOLD_MS = 30_000;
const PIECE = 50;
/** Hosts of their own: engines publish at port 5557. */
const HOSTS = { vllm: "127.7.7.1", sglang: "127.7.7.2" } as const;

export interface EventsReport {
  /** What must not be; none: all is well. */
  readonly problems: readonly string[];
  readonly grownMib: number;
  readonly lines: number;
}

type Below = (limit: number) => number;

/** `root`: the folder whose `dist` is run. `batches`: of each dialect. */
export async function runHostileEvents(root: string, batches: number): Promise<EventsReport> {
  const below = dice(batches);
  const strangers = await Strangers.start(below, batches);
  const list = strangers.urls.flatMap((url) => ["--worker", url]);
  const flags = ["--port", "0", "--index-bytes-max", `${INDEX_BYTES_MAX}`];
  const router = await FleetProcess.start(["route", ...flags, ...list], { root });
  const problems: string[] = [];
  try {
    const before = router.residentBytes;
    let most = before;
    await askForIds(router.url);
    for (let sent = 0; sent < batches && router.isAlive; sent += PIECE) {
      await strangers.publish(Math.min(PIECE, batches - sent));
      await sleep(1);
      most = Math.max(most, router.residentBytes);
    }
    await strangers.told(() => router.isAlive);
    most = Math.max(most, router.residentBytes);
    if (!router.isAlive) problems.push(`it has ended: ${router.log.slice(-3).join("\n")}`);
    else problems.push(...(await lifeProblems(router.url)));
    const lines = router.log.filter((line) => /"level":(40|50)/.test(line));
    if (!lines.some((line) => /KV events/.test(line))) problems.push("no line tells of it");
    if (lines.length > LINES_MAX) problems.push(`${lines.length} lines`);
    const grown = most - before;
    if (grown > GROWTH_BYTES_MAX) problems.push(`${grown} bytes more than before`);
    if (!strangers.wereAllTold) problems.push(`not all were followed: ${strangers.state}`);
    return { problems, grownMib: Math.round(grown / 2 ** 20), lines: lines.length };
  } finally {
    await router.end("SIGKILL");
    await strangers.close();
  }
}

/** From the first prompt of ids on, events of our own kind are read; the strangers answer none. */
async function askForIds(url: string): Promise<void> {
  await fetch(`${url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "own", prompt: [1, 2, 3], max_tokens: 1 }),
    signal: AbortSignal.timeout(TOLD_MS),
  });
}

async function lifeProblems(url: string): Promise<string[]> {
  const alive = await fetch(`${url}/health/live`, { signal: AbortSignal.timeout(TOLD_MS) });
  const metrics = await (await fetch(`${url}/metrics`)).text();
  const found = alive.status === 200 ? [] : [`/health/live answers ${alive.status}`];
  let bytes = 0;
  for (const [, value] of metrics.matchAll(
    /^perigee_router_index_bytes\{part="exact"\} (\S+)$/gm,
  )) {
    bytes += Number(value);
  }
  if (bytes > INDEX_BYTES_MAX) found.push(`an index of ${bytes} bytes`);
  // Nonsense hides no sense: each dialect's good events were counted.
  const counted = metrics.match(/^perigee_router_event_changes\{.*\} [1-9]/gm) ?? [];
  if (counted.length < 3) found.push(`changes of ${counted.length} workers`);
  return found;
}

class Strangers {
  readonly urls: string[] = [];
  readonly #below: Below;
  readonly #batches: number;
  readonly #servers: Server[] = [];
  readonly #publishers: EnginePublisher[] = [];
  #streamed = 0;
  #serial = 0;

  private constructor(below: Below, batches: number) {
    this.#below = below;
    this.#batches = batches;
  }

  static async start(below: Below, batches: number): Promise<Strangers> {
    const strangers = new Strangers(below, batches);
    for (const owner of ["vllm", "sglang"] as const) {
      const endpoint = `tcp://${HOSTS[owner]}:5557`;
      strangers.#publishers.push(await EnginePublisher.start({ endpoint }));
      await strangers.#serve(HOSTS[owner], engineAnswers(owner));
    }
    await strangers.#serve("127.0.0.1", { "/worker_info": "own" }, (response) => {
      strangers.#stream(response);
    });
    return strangers;
  }

  get wereAllTold(): boolean {
    return this.#streamed >= this.#batches;
  }

  get state(): string {
    return `${this.#streamed} streamed`;
  }

  async publish(count: number): Promise<void> {
    for (let at = 0; at < count; at++) {
      for (const publisher of this.#publishers) await publisher.send(this.#batch());
    }
  }

  /** Waits until readers of streams have had their events. */
  async told(isWanted: () => boolean): Promise<void> {
    const untilMs = performance.now() + TOLD_MS + this.#batches * 20;
    while (!this.wereAllTold && isWanted() && performance.now() < untilMs) await sleep(20);
    await sleep(500);
  }

  async close(): Promise<void> {
    for (const server of this.#servers) {
      server.closeAllConnections();
      server.close();
    }
    for (const publisher of this.#publishers) await publisher.close();
  }

  /** Nonsense, and a block that is one: without end each is another one. */
  #batch(): Uint8Array {
    const below = this.#below;
    const events = Array.from({ length: 1 + below(4) }, () => nastyEvent(below));
    const tokens = Array.from({ length: 16 }, () => below(4000));
    events.push(["BlockStored", [++this.#serial], null, tokens, 16, null, "GPU"]);
    const bytes = encode([1.5, events, null], { useBigInt64: true });
    if (below(5) === 0) bytes[below(bytes.length)] = below(256);
    return below(20) === 0 ? bytes.slice(0, below(40)) : bytes;
  }

  async #serve(
    host: string,
    answers: Readonly<Record<string, unknown>>,
    events: (response: ServerResponse) => void = (response) => void response.writeHead(404).end(),
  ): Promise<void> {
    const server = createServer((request, response) => {
      request.resume();
      const [path = ""] = (request.url ?? "").split("?");
      const answer = answers[path];
      if (path.startsWith("/kv_cache_events")) events(response);
      else if (request.url?.endsWith("?follow=on")) this.#followed(response, ownInfo(host, server));
      else if (answer === undefined) response.writeHead(404).end("{}");
      else response.end(answer === "own" ? JSON.stringify(ownInfo(host, server)) : answer);
    });
    await new Promise<void>((resolve) => server.listen(0, host, resolve));
    this.#servers.push(server);
    this.urls.push(`http://${host}:${portOf(server)}`);
  }

  /**
   * Our own dialect: messages that are none, then the end of the connection. Most streams begin
   * with a block that is one: those of which nothing can be read are asked for ever more rarely.
   */
  #stream(response: ServerResponse): void {
    const below = this.#below;
    response.writeHead(200, { "content-type": "text/event-stream" });
    if (below(8) > 0) response.write(this.#snapshot());
    for (let count = 0; count < PIECE; count++) {
      this.#streamed++;
      const event = JSON.stringify(nastyEvent(below), (_, value) =>
        typeof value === "bigint" ? 7 : value,
      );
      const kind = ["", "event: snapshot\n", "event: reset\n", "event: \0\n"][below(4)];
      response.write(`id: ${below(9)}-${below(1e9)}\n${kind}data: ${event}\n\n`);
    }
    response.end(below(2) === 0 ? "data: {" : "");
  }

  /** What it says of itself: most often nonsense, in lines of any length, some without end. */
  #followed(response: ServerResponse, info: object): void {
    const below = this.#below;
    response.write(`${JSON.stringify(info)}\n`);
    const timer = setInterval(() => {
      const text = JSON.stringify({ ...info, [["load", "kv", "epoch"][below(3)] ?? ""]: below(9) });
      const lines = ["\n", "{", `${text}\n`, `${text}\n`.repeat(1 + below(200)), "\0\n"];
      response.write(lines[below(lines.length)] ?? "x".repeat(below(2 ** 16)));
      if (below(50) === 0) response.end();
    }, 5);
    response.once("close", () => clearInterval(timer));
  }

  #snapshot(): string {
    const tokens = Array.from({ length: 16 }, () => this.#below(4000));
    const block = {
      ...{ block_hash: ++this.#serial, parent_hash: null, token_ids: tokens },
      ...{ cache_level: 0, priority: 35 },
    };
    const part = {
      ...{ first: true, last: true, next_event_id: 1, num_blocks_per_cache_level: [1000] },
      blocks: [block],
    };
    return `id: 0-a\nevent: snapshot\ndata: ${JSON.stringify(part)}\n\n`;
  }
}

function engineAnswers(owner: string): Record<string, unknown> {
  const models = { object: "list", data: [{ id: owner, owned_by: owner, max_model_len: 4096 }] };
  const metrics = 'a 1\nvllm:cache_config_info{block_size="16",num_gpu_blocks="1000"} 1.0\n';
  const info = { version: "0.5.9", page_size: 16, max_total_num_tokens: 16_000 };
  return {
    "/v1/models": JSON.stringify(models),
    "/health": "",
    "/version": '{"version":"1.2.0"}',
    ...(owner === "vllm" && { "/metrics": metrics }),
    ...(owner === "sglang" && { "/server_info": JSON.stringify(info) }),
  };
}

function ownInfo(host: string, server: Server): object {
  const url = `http://${host}:${portOf(server)}`;
  const load = { runningRequests: 0, waitingRequests: 0, blocksUsed: 0, uncachedTokens: 0 };
  return {
    ...{ id: url, url, epoch: "1", kind: "perigee", version: "0", models: ["own"], load },
    ...{ fingerprint: "strange", contextTokensMax: 4096, state: "ready" },
    kv: { blockTokens: 16, blocks: [1000], groupWindows: [null] },
  };
}

function portOf(server: Server): number {
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("It listens at a port");
  return address.port;
}
