/** Metrics that are read at each scrape: state of workers, books, index, hit rate. */
import type { FastifyInstance } from "fastify";
import { Gauge } from "prom-client";
import type { RouterContext } from "./context.ts";

const BREAKER_VALUES = { closed: 0, "half-open": 1, open: 2 } as const;

interface Value {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

type Read = (context: RouterContext) => readonly Value[];

const one = (value: number): readonly Value[] => [{ labels: {}, value }];

/** Name without prefix, help, and how it is read. */
const GAUGES: readonly (readonly [string, string, readonly string[], Read])[] = [
  ["requests_in_work", "Requests in work.", [], ({ relays }) => one(relays.size)],
  [
    "queue_requests",
    "Requests that wait in the router, since all workers are full.",
    [],
    ({ tools }) => one(tools.room.count),
  ],
  [
    "body_bytes",
    "Bytes of the bodies of requests in work.",
    [],
    ({ bodies }) => one(bodies.heldBytes),
  ],
  ["queue_bytes", "Bytes of their bodies.", [], ({ tools }) => one(tools.room.bytes)],
  [
    "worker_full",
    "1: the worker gets no request that can wait.",
    ["worker"],
    ({ membership, dispatcher }) =>
      [...membership.workers.keys()].map((worker) => ({
        labels: { worker },
        value: dispatcher.fullness(worker) === null ? 0 : 1,
      })),
  ],
  [
    "workers",
    "Workers by state.",
    ["state"],
    ({ membership }) =>
      (["ready", "draining", "unreachable"] as const).map((state) => ({
        labels: { state },
        value: [...membership.workers.values()].filter((member) => member.state === state).length,
      })),
  ],
  [
    "breaker_state",
    "Circuit breaker of a worker: 0 closed, 1 half-open, 2 open.",
    ["worker"],
    (context) =>
      [...context.links.all].map(({ info, breaker }) => ({
        labels: { worker: info.id },
        value: BREAKER_VALUES[breaker.state],
      })),
  ],
  ["worker_requests", "Requests at a worker.", ["worker"], books("requests")],
  ["worker_decoding", "Requests of a worker that decode.", ["worker"], books("decoding")],
  [
    "worker_uncached_tokens",
    "Prompt tokens that a worker has still to compute.",
    ["worker"],
    books("uncachedTokens"),
  ],
  ["worker_held_blocks", "Blocks that a worker's requests hold.", ["worker"], books("heldBlocks")],
  [
    "open_reservations",
    "Requests in the books of load; 0 where nothing runs.",
    [],
    ({ dispatcher }) => one(dispatcher.books.openCount),
  ],
  [
    "leaked_reservations",
    "Requests whose end the books were never told; not 0: a bug.",
    [],
    ({ dispatcher }) => one(dispatcher.books.leakedCount),
  ],
  [
    "index_bytes",
    "Bytes of the index, by part.",
    ["part"],
    ({ caches, ceiling }) => {
      const { exact, approximate, predicted } = caches.stats();
      const parts = Object.entries({ exact, approximate, predicted, ceiling: ceiling.stats() });
      return parts.map(([part, { bytes }]) => ({ labels: { part }, value: bytes }));
    },
  ],
  [
    "index_blocks",
    "Blocks of workers in the index.",
    [],
    ({ caches }) => one(caches.stats().exact.memberships),
  ],
  [
    "event_changes",
    "Changes that a worker's cache has announced.",
    ["worker"],
    ({ caches }) =>
      caches
        .reports()
        .map(({ workerId, changes }) => ({ labels: { worker: workerId }, value: changes })),
  ],
  [
    "prompts",
    "Prompts by where their tokens came from; text: nothing is known but the text.",
    ["from"],
    ({ hits }) =>
      Object.entries(hits.counts.origins).map(([from, value]) => ({ labels: { from }, value })),
  ],
  [
    "index_lookups",
    "Prompts that the index was asked for, and how it answered.",
    ["answer"],
    ({ hits: { counts } }) => [
      { labels: { answer: "found" }, value: counts.answered },
      { labels: { answer: "nothing" }, value: counts.asked - counts.answered },
    ],
  ],
  [
    "token_mismatches_total",
    "Prompts of which a worker counts other tokens than the router.",
    [],
    ({ hits }) => one(hits.counts.mismatched),
  ],
  [
    "announced_prompts",
    "Prompts whose blocks a worker announced as the router has them, and prompts of which it " +
      "announced other blocks only.",
    ["as"],
    ({ hits: { announced } }) => [
      { labels: { as: "computed" }, value: announced.confirmed },
      { labels: { as: "other" }, value: announced.differing },
    ],
  ],
  [
    "prompt_tokens_total",
    "Tokens of prompts: all, those that were cached, and those that one cache without end with " +
      "perfect routing would have had.",
    ["kind"],
    ({ ceiling }) => {
      const { promptTokens, hitTokens, ceilingTokens } = ceiling.stats();
      return [
        { labels: { kind: "all" }, value: promptTokens },
        { labels: { kind: "cached" }, value: hitTokens },
        { labels: { kind: "ceiling" }, value: ceilingTokens },
      ];
    },
  ],
  [
    "lost_tokens_total",
    "Tokens of the ceiling that were not cached, by cause.",
    ["cause"],
    ({ ceiling }) => {
      const { lost } = ceiling.stats();
      return Object.entries(lost).map(([cause, value]) => ({ labels: { cause }, value }));
    },
  ],
];

function books(field: "requests" | "decoding" | "uncachedTokens" | "heldBlocks"): Read {
  return ({ membership, dispatcher }) =>
    [...membership.workers.keys()].map((worker) => ({
      labels: { worker },
      value: dispatcher.books.viewOf(worker, null)[field],
    }));
}

export function metricsRoute(app: FastifyInstance, context: RouterContext): void {
  const { registry } = context;
  for (const [name, help, labelNames, read] of GAUGES) {
    new Gauge({
      ...{ name: `perigee_router_${name}`, help, labelNames: [...labelNames] },
      registers: [registry],
      collect() {
        this.reset();
        for (const { labels, value } of read(context)) this.set(labels, value);
      },
    });
  }
  app.get("/metrics", async (_request, reply) => {
    reply.header("content-type", registry.contentType);
    return registry.metrics();
  });
}
