/**
 * The layers of src/, low to high: which folder may import which. ARCHITECTURE.md prints this table
 * and `tidy` keeps the two equal.
 *
 * @type {Readonly<Record<string, readonly string[]>>}
 */
export const LAYERS = {
  base: [],
  charts: [],
  tensor: ["base"],
  chat: ["base"],
  tokenizer: ["base", "tensor"],
  checkpoint: ["base", "tensor"],
  devices: ["base", "tensor"],
  kvcache: ["base"],
  models: ["base", "tensor", "devices"],
  sampling: ["base", "tensor", "devices"],
  scheduler: ["base", "kvcache"],
  speculative: ["base"],
  transfer: ["base"],
  engine: [
    "base",
    "tensor",
    "chat",
    "tokenizer",
    "checkpoint",
    "devices",
    "kvcache",
    "models",
    "sampling",
    "scheduler",
    "speculative",
    "transfer",
  ],
  server: ["base", "chat", "kvcache", "transfer", "engine"],
  cluster: ["base", "kvcache", "transfer", "engine", "server"],
  rag: ["base", "kvcache", "engine", "server"],
  simulator: ["base", "charts", "kvcache", "scheduler", "engine/loop", "engine/mock", "cluster"],
  cli: [
    "base",
    "charts",
    "tensor",
    "checkpoint",
    "devices",
    "kvcache",
    "engine",
    "server",
    "cluster",
    "rag",
    "simulator",
  ],
};

/**
 * The rooms of large layers, low to high: which room may import the doors of which others. Files
 * at the top of a layer stand above its rooms, and other layers see the layer's own door only.
 * ARCHITECTURE.md prints this table, too.
 *
 * @type {Readonly<Record<string, Readonly<Record<string, readonly string[]>>>>}
 */
export const ROOMS = {
  kvcache: {
    contents: [],
    naming: ["contents"],
    eviction: ["contents"],
    events: ["contents", "naming"],
    levels: ["contents", "eviction", "events"],
  },
  "devices/cuda": {
    driver: [],
    kernels: ["driver"],
    memory: ["driver", "kernels"],
    graphs: ["driver"],
    weights: ["driver", "memory"],
    products: ["driver", "kernels", "memory", "graphs"],
    ops: ["driver", "kernels", "memory", "weights", "products"],
  },
  engine: {
    protocol: [],
    tiers: ["protocol"],
    loop: ["protocol"],
    forward: ["protocol", "loop"],
    mock: ["protocol", "loop"],
    exchange: ["protocol", "tiers"],
    pipeline: ["protocol", "loop"],
    caller: ["protocol"],
    thread: ["protocol", "tiers", "loop", "forward", "mock", "exchange", "pipeline", "caller"],
  },
  cluster: {
    protocol: [],
    index: ["protocol"],
    routing: ["protocol"],
    conductor: ["protocol", "routing"],
    http: [],
    redis: [],
    feeds: ["protocol", "http", "redis"],
    membership: ["protocol", "http", "redis"],
    router: ["protocol", "index", "routing", "conductor", "http", "redis", "feeds", "membership"],
  },
  rag: {
    texts: [],
    embedders: [],
    stores: ["texts"],
    readers: ["texts"],
    chunks: ["texts"],
    ingest: ["texts", "embedders", "stores", "readers", "chunks"],
    answering: ["texts", "embedders", "stores"],
    service: ["texts", "embedders", "stores", "readers", "ingest", "answering"],
    http: ["texts", "embedders", "stores", "readers", "ingest", "answering", "service"],
  },
};

/**
 * Rooms that may import fewer layers than theirs: the step loop runs without devices and models, so
 * that simulators can run it, and the caller's thread has neither.
 *
 * @type {Readonly<Record<string, readonly string[]>>}
 */
export const ROOM_LAYERS = {
  "engine/loop": ["base", "tokenizer", "kvcache", "sampling", "scheduler", "speculative"],
  "engine/mock": ["base", "kvcache", "sampling"],
  "engine/exchange": ["base", "kvcache", "sampling", "transfer"],
  "engine/caller": ["base", "chat", "tokenizer", "checkpoint", "kvcache", "sampling"],
  "cluster/protocol": [],
  "cluster/index": ["base", "kvcache"],
  "cluster/routing": ["base", "kvcache"],
  "cluster/conductor": ["base"],
  "cluster/http": ["base"],
  "cluster/redis": ["base"],
  "cluster/feeds": ["base", "kvcache"],
  "rag/texts": [],
  "rag/stores": ["base"],
  "rag/readers": ["base"],
  "rag/chunks": [],
  "rag/embedders": ["base", "engine"],
  "rag/ingest": ["base"],
  "rag/answering": ["base", "kvcache", "engine"],
};

/**
 * Circles of files that are left, by types alone. No new one may come.
 *
 * @type {readonly (readonly string[])[]}
 */
export const KNOWN_CIRCLES = [
  // A sequence knows its group, and a group its sequences.
  ["src/scheduler/sequence-group.ts", "src/scheduler/sequence.ts"],
];

/** Folders that talk to the outside: time, chance, timers, console and environment are theirs. */
export const EDGES = [
  "transfer",
  "server",
  "cli",
  "cluster/http",
  "cluster/feeds",
  "cluster/membership",
  "cluster/router",
  "rag",
];
