/**
 * Metrics of the engine: names, help texts, buckets, and sources of the values. Those of the cache
 * are in metrics-cache.ts, counters of requests and of the process in metrics.ts.
 */

import type { EngineStats, KvEventSource, ModelInfo } from "#engine";
import type { Metric } from "./metric.ts";
import { cacheCounters, cacheGauges } from "./metrics-cache.ts";
import { stageCounters } from "./metrics-stages.ts";

export const OWN_PREFIX = "perigee:";
export const VLLM_PREFIX = "vllm:";

/** Metric names that dashboards for older vLLM versions query. */
export const OLD_NAMES: Readonly<Record<string, readonly string[]>> = {
  kv_cache_usage_perc: ["gpu_cache_usage_perc"],
  inter_token_latency_seconds: ["time_per_output_token_seconds"],
};

const TOKEN_LATENCY = [
  0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80,
] as const;
const REQUEST_LATENCY = [
  0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680,
] as const;
const FIRST_TOKEN = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80,
  160, 640, 2560,
] as const;
const STEP_TOKENS = [1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384] as const;
const SEQUENCES = [1, 2, 5, 10, 20] as const;
/** 1, 2, 5, 10, … 200,000. */
const TOKENS: readonly number[] = [0, 1, 2, 3, 4, 5].flatMap((exponent) =>
  [1, 2, 5].map((digit) => digit * 10 ** exponent).filter((bucket) => bucket <= 200_000),
);

/** 100 kB · s, 300 kB · s, 1 MB · s, … 30 TB · s. */
const BYTE_SECONDS: readonly number[] = [5, 6, 7, 8, 9, 10, 11, 12, 13].flatMap((exponent) => [
  10 ** exponent,
  3 * 10 ** exponent,
]);

/** Histograms, updated as requests run. Source of names and buckets: vLLM 0.27. */
export const HISTOGRAMS = {
  time_to_first_token_seconds: { help: "Arrival to first token.", buckets: FIRST_TOKEN },
  inter_token_latency_seconds: { help: "Time between tokens.", buckets: TOKEN_LATENCY },
  request_time_per_output_token_seconds: {
    help: "Decode time of a request per generated token.",
    buckets: TOKEN_LATENCY,
  },
  e2e_request_latency_seconds: { help: "Arrival to last token.", buckets: REQUEST_LATENCY },
  request_queue_time_seconds: { help: "Time in the queue.", buckets: REQUEST_LATENCY },
  request_inference_time_seconds: {
    help: "Time from start to last token: prefill and decode.",
    buckets: REQUEST_LATENCY,
  },
  request_prefill_time_seconds: { help: "Start to first token.", buckets: REQUEST_LATENCY },
  request_decode_time_seconds: { help: "First to last token.", buckets: REQUEST_LATENCY },
  request_prompt_tokens: { help: "Prompt tokens of a request.", buckets: TOKENS },
  request_generation_tokens: { help: "Generated tokens of a request.", buckets: TOKENS },
  request_max_num_generation_tokens: { help: "Generated tokens per sequence.", buckets: TOKENS },
  request_params_max_tokens: { help: "`max_tokens` of requests.", buckets: TOKENS },
  request_params_n: { help: "`n` of requests.", buckets: SEQUENCES },
  request_prefill_kv_computed_tokens: {
    help: "Prompt tokens computed, cached ones left out.",
    buckets: TOKENS,
  },
  request_kv_byte_seconds: {
    help: "Bytes of the device's KV blocks times seconds that a request held them.",
    buckets: BYTE_SECONDS,
  },
  peer_request_kv_byte_seconds: {
    help: "The same of what was computed, or kept, for another worker.",
    buckets: BYTE_SECONDS,
  },
  iteration_tokens_total: { help: "Tokens computed in one step.", buckets: STEP_TOKENS },
} as const satisfies Record<string, { help: string; buckets: readonly number[] }>;
export type HistogramName = keyof typeof HISTOGRAMS;

type Value = (stats: EngineStats) => number;

/** Gauges of the engine. */
export function engineGauges(info: ModelInfo): readonly Metric[] {
  const config = cacheConfig(info);
  return [
    metric("num_requests_running", "Requests in the running batch.", (stats) => stats.running),
    metric("num_requests_waiting", "Requests waiting in the queue.", (stats) => stats.waiting),
    metric(
      "num_requests_paused",
      "Running or waiting requests that are paused until their readers catch up.",
      (stats) => stats.paused,
    ),
    {
      name: "num_requests_waiting_by_reason",
      help: "Requests waiting in the queue, by reason.",
      labelNames: ["reason"],
      samples: (stats) => [
        { labels: { reason: "capacity" }, value: stats.waiting },
        { labels: { reason: "deferred" }, value: 0 },
      ],
    },
    metric("kv_cache_usage_perc", "Share of KV blocks held by sequences, 0 to 1.", heldShare),
    metric("kv_blocks_cached", "Cached KV blocks that no sequence holds.", (stats) => {
      return stats.cachedBlocks;
    }),
    {
      name: "cache_config_info",
      help: "Configuration of the KV cache, as labels; always 1.",
      labelNames: Object.keys(config),
      samples: () => [{ labels: config, value: 1 }],
    },
    ...cacheGauges(),
  ];
}

/** Counters of the engine. */
export function engineCounters(events: KvEventSource): readonly Metric[] {
  return [
    metric("prompt_tokens_total", "Prompt tokens taken in, cached ones included.", (stats) => {
      return stats.promptTokens;
    }),
    metric("generation_tokens_total", "Tokens generated.", (stats) => stats.generatedTokens),
    metric("spec_decode_num_drafts_total", "Drafts that were verified.", (stats) => stats.drafts),
    metric("spec_decode_num_draft_tokens_total", "Drafted tokens that were verified.", (stats) => {
      return stats.draftedTokens;
    }),
    metric(
      "spec_decode_num_accepted_tokens_total",
      "Drafted tokens that became output.",
      (stats) => stats.acceptedTokens,
    ),
    {
      name: "spec_decode_num_accepted_tokens_per_pos_total",
      help: "Drafts whose token at this position became output.",
      labelNames: ["position"],
      samples: ({ acceptedPerPosition }) =>
        acceptedPerPosition.map((value, position) => ({
          labels: { position: String(position) },
          value,
        })),
    },
    metric("prompt_tokens_cached_total", "Prompt tokens found in the cache.", (stats) => {
      return stats.cachedPromptTokens;
    }),
    metric(
      "prompt_tokens_computed_total",
      "Prompt tokens computed, those of a preempted request again.",
      (stats) => stats.computedPromptTokens,
    ),
    {
      name: "prompt_tokens_by_source_total",
      help: "Prompt tokens taken in, by where their KV came from.",
      labelNames: ["source"],
      samples: ({ promptTokens, cachedPromptTokens: cached }) => [
        { labels: { source: "local_compute" }, value: promptTokens - cached },
        { labels: { source: "local_cache_hit" }, value: cached },
      ],
    },
    metric("prefix_cache_queries_total", "Tokens looked up in the prefix cache.", (stats) => {
      return stats.prefixQueriedTokens;
    }),
    metric("prefix_cache_hits_total", "Tokens found in the prefix cache.", (stats) => {
      return stats.prefixHitTokens;
    }),
    metric("num_preemptions_total", "Preempted sequences.", (stats) => {
      return stats.preemptions;
    }),
    metric("steps_total", "Steps of the engine.", (stats) => stats.steps),
    ...cacheCounters(events),
    ...stageCounters(),
  ];
}

/** A metric with one series. */
function metric(name: string, help: string, value: Value): Metric {
  return { name, help, samples: (stats) => [{ value: value(stats) }] };
}

function heldShare(stats: EngineStats): number {
  return stats.totalBlocks === 0 ? 0 : stats.heldBlocks / stats.totalBlocks;
}

/** Labels as vLLM names them. */
function cacheConfig(info: ModelInfo): Record<string, string> {
  return {
    block_size: String(info.blockTokens),
    num_gpu_blocks: String(info.blocks),
    cache_dtype: info.kvFormat,
    bytes_per_block: String(info.bytesPerBlock),
  };
}
