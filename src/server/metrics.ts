/**
 * Prometheus metrics of one served model. Names and buckets are vLLM's, so that its dashboards
 * work: each metric is stored once, as `perigee:NAME`, and printed again as `vllm:NAME` and under
 * the names that older dashboards query.
 */
import {
  AggregatorRegistry,
  Counter,
  collectDefaultMetrics,
  Gauge,
  Histogram,
  Registry,
} from "prom-client";
import type { EngineListener, RequestSummary, RequestTimes, ServedModel } from "#engine";
import type { EndedRequest } from "./ended-request.ts";
import type { Metric } from "./metric.ts";
import {
  engineCounters,
  engineGauges,
  HISTOGRAMS,
  type HistogramName,
  OLD_NAMES,
  OWN_PREFIX,
  VLLM_PREFIX,
} from "./metrics-catalogue.ts";

type Labels = Record<string, string>;

/** Other methods share one label, so that clients cannot create series. */
const COUNTED_METHODS = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]);

/** Memory, event loop and garbage collection: one registry per process, for all its servers. */
let processRegistry: Registry | null = null;

/** The metrics of one thread, as plain data. */
export type MetricsSnapshot = Awaited<ReturnType<Registry["getMetricsAsJSON"]>>;

/** The metrics that this thread reports beside those of its requests. */
export interface MetricsScope {
  /** The engine's statistics; false if another thread reports them. Default: true. */
  readonly books?: boolean;
  /** Metrics of other threads, added to this thread's. */
  readonly others?: () => Promise<readonly MetricsSnapshot[]>;
}

/** The sum of all snapshots. */
export function sumOf(snapshots: readonly MetricsSnapshot[]): Registry {
  return AggregatorRegistry.aggregate([...snapshots]);
}

/** The metrics of one model for `/metrics`. Listens to it from construction until `close`. */
export class EngineMetrics {
  readonly contentType: string = Registry.PROMETHEUS_CONTENT_TYPE;
  readonly #registry = new Registry();
  readonly #labels: Labels;
  readonly #histograms = new Map<HistogramName, Histogram.Internal<string>>();
  readonly #finished: Counter;
  readonly #requests: Counter;
  readonly #others: () => Promise<readonly MetricsSnapshot[]>;
  readonly #stop: () => void;

  constructor(model: ServedModel, modelName: string, scope: MetricsScope = {}) {
    const { books = true, others = async () => [] } = scope;
    this.#others = others;
    this.#labels = { model_name: modelName, engine: "0" };
    this.#finished = this.#makeFinishedCounter();
    this.#requests = this.#makeRequestCounter();
    for (const [name, { help, buckets }] of Object.entries(HISTOGRAMS)) {
      this.#makeHistogram(name as HistogramName, help, [...buckets]); // a key of the same table
    }
    if (books) {
      this.#makeGauges(model);
      this.#makeCounters(model);
    }
    this.#stop = model.listen(this.#listener(books));
  }

  /** All metrics in Prometheus' text format. */
  async text(): Promise<string> {
    const parts: string[] = [];
    const others = await this.#others();
    const registry =
      others.length === 0 ? this.#registry : sumOf([await this.snapshot(), ...others]);
    for (const { name } of registry.getMetricsAsArray()) {
      const text = await registry.getSingleMetricAsString(name);
      parts.push(text);
      const short = name.slice(OWN_PREFIX.length);
      parts.push(renamed(text, name, VLLM_PREFIX + short));
      for (const old of OLD_NAMES[short] ?? []) parts.push(renamed(text, name, VLLM_PREFIX + old));
    }
    processRegistry ??= makeProcessRegistry();
    parts.push(withoutNaN(await processRegistry.metrics()));
    return `${parts.join("\n\n")}\n`;
  }

  /** This thread's metrics, for the thread that answers `/metrics`. */
  snapshot(): Promise<MetricsSnapshot> {
    return this.#registry.getMetricsAsJSON();
  }

  /** Counts an answered HTTP request by route, method and status; 429: rejected by a limit. */
  countRequest({ route, method, status }: EndedRequest): void {
    this.#requests.inc({
      ...this.#labels,
      handler: route ?? "none",
      method: COUNTED_METHODS.has(method) ? method : "other",
      status: String(status),
    });
  }

  close(): void {
    this.#stop();
    this.#registry.clear();
  }

  #listener(books: boolean): EngineListener {
    return {
      // Every thread receives step reports; only one counts them.
      ...(books
        ? {
            onStep: (report) => this.#observe("iteration_tokens_total", report.stepTokens),
            onPeerServed: (held) => this.#observe("peer_request_kv_byte_seconds", held),
          }
        : {}),
      onFirstToken: (_id, seconds) => this.#observe("time_to_first_token_seconds", seconds),
      onTokens: (_id, _count, seconds) => this.#observe("inter_token_latency_seconds", seconds),
      onRequestEnd: (times, summary) => this.#onRequestEnd(times, summary),
    };
  }

  #onRequestEnd(times: RequestTimes, summary: RequestSummary): void {
    const { promptTokens, cachedTokens, generatedTokens } = summary;
    this.#observe("e2e_request_latency_seconds", times.endToEndSeconds);
    this.#observe("request_queue_time_seconds", times.queueSeconds);
    this.#observe("request_prefill_time_seconds", times.prefillSeconds);
    this.#observe("request_decode_time_seconds", times.decodeSeconds);
    this.#observe("request_inference_time_seconds", times.prefillSeconds + times.decodeSeconds);
    this.#observe("request_prompt_tokens", promptTokens);
    this.#observe("request_generation_tokens", generatedTokens);
    this.#observe("request_max_num_generation_tokens", Math.ceil(generatedTokens / summary.n));
    this.#observe("request_prefill_kv_computed_tokens", promptTokens - cachedTokens);
    this.#observe("request_kv_byte_seconds", summary.kvByteSeconds);
    this.#observe("request_params_n", summary.n);
    if (summary.maxTokens !== null) this.#observe("request_params_max_tokens", summary.maxTokens);
    const decoded = generatedTokens - summary.n;
    if (decoded > 0) {
      const seconds = (times.decodeSeconds * summary.n) / decoded;
      this.#observe("request_time_per_output_token_seconds", seconds);
    }
    for (const reason of summary.finishReasons) {
      this.#finished.inc({ ...this.#labels, finished_reason: reason });
    }
  }

  #observe(name: HistogramName, value: number): void {
    this.#histograms.get(name)?.observe(value);
  }

  #makeHistogram(name: HistogramName, help: string, buckets: number[]): void {
    const histogram = new Histogram({
      name: OWN_PREFIX + name,
      help,
      buckets,
      labelNames: Object.keys(this.#labels),
      registers: [this.#registry],
    });
    this.#histograms.set(name, histogram.labels(this.#labels));
  }

  #makeFinishedCounter(): Counter {
    return new Counter({
      name: `${OWN_PREFIX}request_success_total`,
      help: "Sequences that ended, by reason.",
      labelNames: [...Object.keys(this.#labels), "finished_reason"],
      registers: [this.#registry],
    });
  }

  #makeRequestCounter(): Counter {
    return new Counter({
      name: `${OWN_PREFIX}http_requests_total`,
      help: "HTTP requests that were answered, by route, method and status; 499: the client left.",
      labelNames: [...Object.keys(this.#labels), "handler", "method", "status"],
      registers: [this.#registry],
    });
  }

  #description({ name, help, labelNames = [] }: Metric) {
    return {
      name: OWN_PREFIX + name,
      help,
      labelNames: [...Object.keys(this.#labels), ...labelNames],
      registers: [this.#registry],
    };
  }

  /** Values are read from the engine's statistics at each scrape, at no cost per step. */
  #makeGauges(model: ServedModel): void {
    const labels = this.#labels;
    for (const metric of engineGauges(model.info)) {
      new Gauge({
        ...this.#description(metric),
        collect() {
          for (const { labels: own, value } of metric.samples(model.stats())) {
            this.set({ ...labels, ...own }, value);
          }
        },
      });
    }
  }

  #makeCounters(model: ServedModel): void {
    const labels = this.#labels;
    for (const metric of engineCounters(model.kvEvents)) {
      new Counter({
        ...this.#description(metric),
        collect() {
          this.reset();
          for (const { labels: own, value } of metric.samples(model.stats())) {
            this.inc({ ...labels, ...own }, value);
          }
        },
      });
    }
  }
}

/** The exposition text of metric `name` under another name. */
function renamed(text: string, name: string, other: string): string {
  return text.replaceAll(new RegExp(`^(# HELP |# TYPE |)${name}`, "gm"), `$1${other}`);
}

/**
 * Without a sample since the last scrape, the event loop's delay has no mean, and prom-client
 * prints NaN; no delay was measured, so it is 0.
 */
function withoutNaN(text: string): string {
  return text.replaceAll(/^(nodejs_eventloop_lag_\S+) nan$/gim, "$1 0");
}

function makeProcessRegistry(): Registry {
  const registry = new Registry();
  // Sampling the event loop every 10 ms, the default, would keep an idle server awake.
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: 100 });
  return registry;
}
