/** What is left in all books when nothing runs any more. */
import { setTimeout as sleep } from "node:timers/promises";
import { type Json, json } from "../support/json.ts";
import type { ChaosFleet } from "./chaos-fleet.ts";

const LOOK_MS = 100;
const ANSWER_MS = 5000;

/** Waits until routers know all workers; what does not come true. */
export async function restLeft(fleet: ChaosFleet, patienceMs: number): Promise<string[]> {
  const wanted = fleet.workers.length;
  return await settle(patienceMs, async () => {
    const found: string[] = [];
    for (const { name, process } of fleet.routers) {
      const ready = valuesOf(await metricsOf(process.url), "workers").get('{state="ready"}') ?? 0;
      if (ready !== wanted) found.push(`${name} knows ${ready} of ${wanted} workers`);
      const open = [...valuesOf(await metricsOf(process.url), "breaker_state")];
      for (const [labels, state] of open) {
        if (state === 2) found.push(`${name}: the breaker of ${labels} is open`);
      }
    }
    return found;
  });
}

/** Waits until all books are at zero: of routers, of workers, in Redis; what is left in them. */
export async function booksLeft(
  fleet: ChaosFleet,
  patienceMs: number,
): Promise<{ problems: string[] } & FleetCounts> {
  let [migrations, retries] = [0, 0];
  let blocks: Record<string, Peers> = {};
  const problems = await settle(patienceMs, async () => {
    const found: string[] = [];
    [migrations, retries] = [0, 0];
    for (const { name, process } of fleet.routers) {
      const metrics = await metricsOf(process.url);
      for (const [book, labels, value] of bookValues(metrics)) {
        if (value !== 0) found.push(`${name}: ${book}${labels} is ${value}`);
      }
      migrations += sumOf(metrics, "migrations_total");
      retries += sumOf(metrics, "retries_total");
    }
    const workers = await workersLeft(fleet);
    blocks = workers.blocks;
    const roles = await rolesLeft(fleet);
    return [...found, ...workers.found, ...roles, ...(await sharedLeft(fleet))];
  });
  return { problems, migrations, retries, blocks };
}

/** What processes that live at the end have counted. */
export interface FleetCounts {
  readonly migrations: number;
  readonly retries: number;
  /** That workers took from others and gave to them, by kind of worker. */
  readonly blocks: Readonly<Record<string, Peers>>;
}

const BOOKS = ["open_reservations", "leaked_reservations", "requests_in_work"];
const WORKER_BOOKS = ["worker_requests", "worker_decoding", "worker_uncached_tokens"];

function* bookValues(metrics: string): Generator<[string, string, number]> {
  for (const book of [...BOOKS, ...WORKER_BOOKS]) {
    const values = valuesOf(metrics, book);
    if (values.size === 0) yield [book, " is missing", Number.NaN];
    for (const [labels, value] of values) yield [book, labels, value];
  }
}

interface Peers {
  readonly received: number;
  readonly sent: number;
}

interface Level {
  readonly level: string;
  readonly held: number;
}

/** What they hold, and the blocks that those which live now took from others and gave them. */
async function workersLeft({
  workers,
}: ChaosFleet): Promise<{ found: string[]; blocks: Record<string, Peers> }> {
  const found: string[] = [];
  const blocks: Record<string, Peers> = {};
  for (const { kind, node } of workers) {
    const info = await infoOf(`${node.process.url}/server_info`);
    const left = Number(info.requests_in_work) + Number(info.stats?.heldBlocks);
    if (left !== 0) found.push(`${node.name}: ${left} requests and blocks are held`);
    const cache: { readonly peers?: Peers; readonly levels?: readonly Level[] } =
      info.stats?.cache ?? {};
    const { received = 0, sent = 0 } = blocks[kind] ?? {};
    const { peers = { received: 0, sent: 0 } } = cache;
    blocks[kind] = { received: received + peers.received, sent: sent + peers.sent };
    for (const { level, held } of cache.levels ?? []) {
      if (held !== 0) found.push(`${node.name}: the level ${level} holds ${held} blocks`);
    }
  }
  return { found, blocks };
}

/** Roles that routers believe in and workers do not have. */
async function rolesLeft({ routers, workers }: ChaosFleet): Promise<string[]> {
  const found: string[] = [];
  const roles = new Map<unknown, unknown>();
  for (const { node } of workers) {
    const info = await infoOf(`${node.process.url}/worker_info`);
    roles.set(node.name, info.role);
  }
  for (const { name, process } of routers) {
    const { workers: known } = await infoOf(`${process.url}/server_info`);
    for (const { id, role } of known as unknown as readonly { id: string; role: string }[]) {
      const own = roles.get(id);
      if (own !== role) found.push(`${name} takes ${id} for ${role}, it is ${own}`);
    }
  }
  return found;
}

async function infoOf(url: string): Promise<Json> {
  return await json(fetch(url, { signal: AbortSignal.timeout(ANSWER_MS) }));
}

/** The shared books of routers that live. */
async function sharedLeft({ redis }: ChaosFleet): Promise<string[]> {
  const client = redis.client();
  try {
    const live = new Set(await client.hkeys("perigee:books:routers"));
    const found: string[] = [];
    for (const key of await client.keys("perigee:books:worker:*")) {
      for (const [router, text] of Object.entries(await client.hgetall(key))) {
        if (live.has(router) && text !== "0 0 0") found.push(`Redis: ${key} has ${text}`);
      }
    }
    return found;
  } finally {
    client.disconnect();
  }
}

async function settle(patienceMs: number, look: () => Promise<string[]>): Promise<string[]> {
  const untilMs = performance.now() + patienceMs;
  for (;;) {
    const found = await look().catch((error: unknown) => [String(error)]);
    if (found.length === 0 || performance.now() > untilMs) return found;
    await sleep(LOOK_MS);
  }
}

async function metricsOf(url: string): Promise<string> {
  const response = await fetch(`${url}/metrics`, { signal: AbortSignal.timeout(ANSWER_MS) });
  return await response.text();
}

/** Values of a router's metric by their labels. */
export function valuesOf(metrics: string, name: string): Map<string, number> {
  const values = new Map<string, number>();
  const line = new RegExp(`^perigee_router_${name}(\\{.*\\})? (\\S+)$`, "gm");
  for (const [, labels = "", value] of metrics.matchAll(line)) values.set(labels, Number(value));
  return values;
}

function sumOf(metrics: string, name: string): number {
  return [...valuesOf(metrics, name).values()].reduce((sum, value) => sum + value, 0);
}
