/**
 * Metrics of the KV cache: per level (device, host, disk), per reason, per direction. Metrics that
 * vLLM has, too, are repeated with vLLM's names and labels.
 */
import type {
  CacheLevelReport,
  CacheReport,
  EngineStats,
  KvEventSource,
  MoveDirection,
} from "#engine";
import type { Metric, Sample } from "./metric.ts";

/** Null if the count does not apply to the level, which then has no series. */
type LevelCount = (level: CacheLevelReport) => number | null;

/** Label values for the directions of block transfers. */
const DIRECTIONS: readonly (readonly [MoveDirection, string])[] = [
  ["copy", "device_to_device"],
  ["offload", "device_to_host"],
  ["onboard", "host_to_device"],
  ["diskWrite", "host_to_disk"],
  ["diskRead", "disk_to_host"],
];

/** vLLM's label values for the two directions of its offloading. */
const TRANSFER_TYPES: readonly (readonly [MoveDirection, string])[] = [
  ["offload", "GPU_to_CPU"],
  ["onboard", "CPU_to_GPU"],
];

/** Gauges of the cache. A model without a cache has no series. */
export function cacheGauges(): readonly Metric[] {
  return [
    {
      name: "kv_cache_blocks",
      help: "KV blocks by level and state: free, held by sequences, or cached for reuse.",
      labelNames: ["level", "state"],
      samples: fromCache(({ levels }) =>
        levels.flatMap(({ level, free, held, cached }) => [
          { labels: { level, state: "free" }, value: free },
          { labels: { level, state: "held" }, value: held },
          { labels: { level, state: "cached" }, value: cached },
        ]),
      ),
    },
  ];
}

/** Counters of the cache. */
export function cacheCounters(events: KvEventSource): readonly Metric[] {
  return [
    ...levelCounters(),
    ...moveCounters(),
    ...schedulingCounters(),
    ...eventCounters(events),
    ...vllmCounters(),
  ];
}

function levelCounters(): readonly Metric[] {
  return [
    perLevel("kv_cache_hit_tokens_total", "Prompt tokens found in a level.", (level) => {
      return level.hitTokens;
    }),
    perLevel("kv_cache_offloaded_blocks_total", "Blocks copied to the next level.", (level) => {
      return level.level === "disk" ? null : level.offloaded;
    }),
    perLevel("kv_cache_onboarded_blocks_total", "Blocks loaded from a level.", (level) => {
      return level.level === "device" ? null : level.onboarded;
    }),
    {
      name: "kv_cache_evicted_blocks_total",
      help: "Cached blocks that left a level, by what became of their contents.",
      labelNames: ["level", "reason"],
      samples: fromCache(({ levels }) => levels.flatMap(evictions)),
    },
    perLevel("kv_cache_expired_blocks_total", "Durations of retention that ended.", (level) => {
      return level.expired;
    }),
  ];
}

/** Only the device counts moves: blocks written to disk stay in host memory until dropped. */
function evictions(report: CacheLevelReport): readonly Sample[] {
  const { level, offloaded, copiedAhead, forgotten, dropped, orphaned } = report;
  const moved = { labels: { level, reason: "offloaded" }, value: offloaded - copiedAhead };
  return [
    ...(level === "device" ? [moved] : []),
    { labels: { level, reason: "forgotten" }, value: forgotten },
    { labels: { level, reason: "dropped" }, value: dropped },
    { labels: { level, reason: "orphaned" }, value: orphaned },
  ];
}

function moveCounters(): readonly Metric[] {
  return [
    perDirection("kv_cache_moved_blocks_total", "Blocks moved.", "blocks"),
    perDirection("kv_cache_moved_bytes_total", "Bytes of blocks moved.", "bytes"),
    perDirection("kv_cache_move_seconds_total", "Time that moving took.", "seconds"),
    single(
      "kv_cache_copied_blocks_total",
      "Shared blocks that were copied before a write.",
      (cache) => {
        return cache.copiedBlocks;
      },
    ),
    {
      name: "kv_cache_swapped_blocks_total",
      help: "Blocks of preempted sequences that went to host memory, and came back.",
      labelNames: ["direction"],
      samples: fromCache((cache) => [
        { labels: { direction: "out" }, value: cache.swappedOutBlocks },
        { labels: { direction: "in" }, value: cache.swappedInBlocks },
      ]),
    },
    single(
      "kv_byte_seconds_total",
      "Bytes of the device's KV blocks times seconds that requests and transfers held them.",
      (cache) => cache.kvByteSeconds,
    ),
    single("kv_cache_disk_failures_total", "Disk reads and writes that failed.", (cache) => {
      return cache.diskFailures;
    }),
    {
      name: "kv_transfer_blocks_total",
      help: "Blocks sent to other workers, received from them, and missed: computed here instead.",
      labelNames: ["direction"],
      samples: fromCache(({ peers }) => [
        { labels: { direction: "sent" }, value: peers.sent },
        { labels: { direction: "received" }, value: peers.received },
        { labels: { direction: "missed" }, value: peers.missed },
      ]),
    },
    {
      name: "kv_transfer_sent_pieces_total",
      help: "Pieces of blocks that other workers took, by the way that they went.",
      labelNames: ["way"],
      samples: fromCache(({ sent }) =>
        Object.entries(sent).map(([way, value]) => ({ labels: { way }, value })),
      ),
    },
    single(
      "kv_transfer_fetched_pieces_total",
      "Pieces of blocks that came from other workers, which had them stored.",
      ({ fetched }) => fetched.pieces,
    ),
    single(
      "kv_transfer_fetch_seconds_total",
      "Seconds in which such pieces were on their way; of fetches at a time together.",
      ({ fetched }) => fetched.seconds,
    ),
  ];
}

function schedulingCounters(): readonly Metric[] {
  return [
    {
      name: "preemptions_total",
      help: "Preempted sequences, by what became of their blocks.",
      labelNames: ["kind"],
      samples: ({ preemptions, swapPreemptions }) => [
        { labels: { kind: "swap" }, value: swapPreemptions },
        { labels: { kind: "recompute" }, value: preemptions - swapPreemptions },
      ],
    },
    {
      name: "sequence_forks_total",
      help: "Sequences that share a prompt's blocks instead of computing it.",
      samples: ({ forks }) => [{ value: forks }],
    },
    {
      name: "kv_cache_disk_loads_total",
      help: "Requests that waited for blocks from disk.",
      samples: ({ loads }) => [{ value: loads }],
    },
  ];
}

function eventCounters(events: KvEventSource): readonly Metric[] {
  return [
    {
      name: "kv_events_total",
      help: "KV events that the cache recorded.",
      samples: () => (events.enabled ? [{ value: events.nextId }] : []),
    },
    {
      name: "kv_events_dropped_total",
      help: "KV events dropped from the buffer; readers that had not read them miss them.",
      samples: () => (events.enabled ? [{ value: events.firstId }] : []),
    },
  ];
}

/** Names that dashboards for vLLM's offloading query; units (tokens, bytes, seconds) are vLLM's. */
function vllmCounters(): readonly Metric[] {
  return [
    {
      name: "external_prefix_cache_queries_total",
      help: "Tokens looked up beyond the device: in host memory and on disk.",
      samples: (stats) => external(stats, (outside) => stats.prefixQueriedTokens - outside.device),
    },
    {
      name: "external_prefix_cache_hits_total",
      help: "Tokens found beyond the device: in host memory and on disk.",
      samples: (stats) => external(stats, (outside) => outside.host + outside.disk),
    },
    transfers(
      "kv_offload_total_bytes_total",
      "Bytes of KV blocks moved, under vLLM's name.",
      "bytes",
    ),
    transfers(
      "kv_offload_total_time_total",
      "Seconds spent moving KV blocks, under vLLM's name.",
      "seconds",
    ),
  ];
}

/** Combines hit tokens by level into one value; no series if the device is the only level. */
function external(
  { cache }: EngineStats,
  value: (hits: Record<CacheLevelReport["level"], number>) => number,
): readonly Sample[] {
  if (cache === null || cache.levels.length === 1) return [];
  const hits = { device: 0, host: 0, disk: 0 };
  for (const { level, hitTokens } of cache.levels) hits[level] = hitTokens;
  return [{ value: Math.max(0, value(hits)) }];
}

function fromCache(samples: (cache: CacheReport) => readonly Sample[]): Metric["samples"] {
  return ({ cache }) => (cache === null ? [] : samples(cache));
}

function single(name: string, help: string, value: (cache: CacheReport) => number): Metric {
  return { name, help, samples: fromCache((cache) => [{ value: value(cache) }]) };
}

function perLevel(name: string, help: string, count: LevelCount): Metric {
  const samples = fromCache(({ levels }) =>
    levels.flatMap((report) => {
      const value = count(report);
      return value === null ? [] : [{ labels: { level: report.level }, value }];
    }),
  );
  return { name, help, labelNames: ["level"], samples };
}

function perDirection(name: string, help: string, what: "blocks" | "bytes" | "seconds"): Metric {
  const samples = fromCache(({ moves }) =>
    DIRECTIONS.map(([way, direction]) => ({ labels: { direction }, value: moves[way][what] })),
  );
  return { name, help, labelNames: ["direction"], samples };
}

function transfers(name: string, help: string, what: "bytes" | "seconds"): Metric {
  const samples = fromCache(({ levels, moves }) =>
    levels.length === 1
      ? []
      : TRANSFER_TYPES.map(([way, type]) => ({
          labels: { transfer_type: type },
          value: moves[way][what],
        })),
  );
  return { name, help, labelNames: ["transfer_type"], samples };
}
