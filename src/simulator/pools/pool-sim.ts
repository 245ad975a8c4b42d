/** A fleet with pools on a simulated clock: production conductor, index, schedulers and caches. */
import { EngineError } from "#base";
import {
  type Accepted,
  type Booking,
  Conductor,
  type ConductorConfig,
  type ConductorRequest,
  DecodeEstimator,
  decisionLine,
  FleetIndex,
  PrefillEstimator,
  seededRng,
} from "#cluster";
import { SimClock } from "../sim-clock.ts";
import type { Trace, TraceRequest } from "../trace.ts";
import { DecodeNode } from "./decode-node.ts";
import { Network } from "./network.ts";
import { decodeStepMs, type NodeCosts, promptPartMs } from "./node-costs.ts";
import type { PoolResult } from "./pool-result.ts";
import { PoolStats } from "./pool-stats.ts";
import { POOL_SCOPE, PrefillNode } from "./prefill-node.ts";

/** A fleet of two pools. */
export interface PoolOptions {
  readonly trace: Trace;
  readonly prefillNodes: number;
  readonly decodeNodes: number;
  readonly costs: NodeCosts;
  readonly conductor: ConductorConfig;
  readonly seed: number;
  /** Requests come so many times as often. Default: 1. */
  readonly speed?: number;
  /** Most prompt tokens of a step. Default: 2048. */
  readonly chunkTokens?: number;
  /** Most sequences of a decode node. Default: 256. */
  readonly sequencesMax?: number;
  readonly onDecision?: (line: string) => void;
  /** Receives the number of requests that ended, now and then. */
  readonly onProgress?: (requests: number) => void;
}

const CHUNK_TOKENS = 2048;
const SEQUENCES_MAX = 256;
const NETWORK_LATENCY_MS = 1;
const SAMPLE_MS_MIN = 10_000;
const SAMPLES_MAX = 400;
/** Some 30 years: what is beyond is no time in ms. */
const SPAN_MS_MAX = 1e12;
const INDEX_BYTES = 4 * 2 ** 30;
const PROGRESS_REQUESTS = 500;
const SCOPE = { ...POOL_SCOPE, salt: null, lora: null, group: 0 } as const;

/** Runs a trace through a fleet with pools. The same options give the same result. */
export function runPools(options: PoolOptions): PoolResult {
  return new PoolSim(options).run();
}

class PoolSim {
  readonly #options: PoolOptions;
  readonly #clock = new SimClock();
  readonly #index: FleetIndex;
  readonly #network = new Network(this.#clock, NETWORK_LATENCY_MS);
  readonly #conductor: Conductor;
  /** By the conductor's number; the numbers of network and index are the same. */
  readonly #prefill: PrefillNode[] = [];
  readonly #decode = new Map<number, DecodeNode>();
  readonly #stats: PoolStats;
  readonly #sampleMs: number;
  #next = 0;
  #open = 0;
  #ended = 0;

  constructor(options: PoolOptions) {
    const { costs, conductor, seed } = options;
    this.#options = options;
    this.#sampleMs = Math.max(SAMPLE_MS_MIN, spanMs(options) / SAMPLES_MAX);
    this.#stats = new PoolStats(options.conductor);
    this.#index = new FleetIndex({ clock: this.#clock, bytesMax: INDEX_BYTES });
    this.#conductor = new Conductor({
      ...{ clock: this.#clock, rng: seededRng(seed), config: conductor },
      bytesPerToken: costs.bytesPerToken,
      prefillOf: () => new PrefillEstimator(prefillPoints(costs)),
      decodeOf: () => new DecodeEstimator(decodePoints(costs)),
    });
    for (let at = 0; at < options.prefillNodes; at++) this.#addPrefill(at);
    for (let at = 0; at < options.decodeNodes; at++) this.#addDecode(at);
  }

  run(): PoolResult {
    this.#arrive();
    this.#sample();
    this.#clock.run();
    return this.#stats.result({
      ...{ seed: this.#options.seed, openBookings: this.#open },
      transferBytes: this.#network.bytes,
      prefillBusyMs: this.#prefill.map(({ busyMs }) => busyMs),
      decodeBusyMs: [...this.#decode.values()].map(({ busyMs }) => busyMs),
      errors: this.#conductor.errors(),
    });
  }

  #addPrefill(at: number): void {
    const { costs, trace, chunkTokens = CHUNK_TOKENS } = this.#options;
    const number = this.#join(`prefill-${at}`, "prefill", costs.cacheTokens);
    this.#index.join({ announces: true });
    this.#prefill[number] = new PrefillNode({
      ...{ clock: this.#clock, costs, blockTokens: trace.blockTokens, chunkTokens },
      onChanges: (changes) => this.#index.apply(number, changes),
    });
  }

  #addDecode(at: number): void {
    const { costs, trace, sequencesMax = SEQUENCES_MAX } = this.#options;
    const number = this.#join(`decode-${at}`, "decode", costs.deviceTokens);
    const estimator = this.#conductor.decodeEstimator();
    let steps = 0;
    const node = new DecodeNode({
      ...{ clock: this.#clock, costs, blockTokens: trace.blockTokens, sequencesMax },
      contextTokensMax: costs.deviceTokens,
      onStep: (sequences, contextTokens, ms) => {
        // As a router would be told of it: now and then.
        if (steps++ % STEPS_PER_REPORT === 0) estimator.measured({ sequences, contextTokens, ms });
      },
    });
    this.#decode.set(number, node);
  }

  #join(id: string, role: "prefill" | "decode", kvTokens: number): number {
    const { networkBytesPerMs } = this.#options.costs;
    this.#network.addEnd({ bytesPerMs: networkBytesPerMs });
    return this.#conductor.join({ id, role, kvTokens, networkBytesPerMs });
  }

  /** One event at a time. */
  #arrive(): void {
    const { trace, speed = 1 } = this.#options;
    const at = this.#next++;
    const request = trace.requests[at];
    if (request === undefined) return;
    this.#clock.at(request.timestampMs / speed, () => {
      this.#serve({ ...request, ids: allBlocks(request, at, trace.blockTokens) }, at);
      this.#arrive();
    });
  }

  #serve(request: TraceRequest, at: number): void {
    const { inputTokens, outputTokens, ids } = request;
    const asked = { id: String(at), promptTokens: inputTokens, outputTokens: null };
    const prompt = this.#index.blocksOf(SCOPE, unsigned(ids));
    const { blockTokens } = this.#options.trace;
    const held = this.#index
      .find(prompt)
      .map(({ worker, levels }) => ({ instance: worker, tokens: levels[2] * blockTokens }));
    const decision = this.#conductor.decide(asked, held);
    this.#options.onDecision?.(decisionLine(decision, (number) => this.#conductor.idOf(number)));
    this.#stats.arrived(inputTokens);
    if (inputTokens === 0) {
      this.#endRejected("empty");
      return;
    }
    if (decision.type === "rejected") {
      this.#endRejected(decision.reason);
      return;
    }
    const prefill = this.#prefill[decision.chosen.instance];
    const decode = this.#decode.get(decision.decode);
    if (prefill?.fits({ ids }) !== true || decode?.fits({ inputTokens, outputTokens }) !== true) {
      this.#endRejected("too-long");
      return;
    }
    this.#open++;
    const booking = this.#conductor.book(decision);
    const served = { request, asked, decision, booking, arrivedMs: this.#clock.nowMs() };
    if (decision.transfer === null) this.#compute(served, null);
    else this.#fetch(served);
  }

  /** The missing part of the best prefix comes first, and stays where it came. */
  #fetch(served: Served): void {
    const { decision, request, booking } = served;
    const { chosen, transfer } = decision;
    const { blockTokens } = this.#options.trace;
    const source = this.#prefill[transfer?.from ?? -1];
    const target = this.#prefill[chosen.instance];
    if (transfer === null || source === undefined || target === undefined) return;
    // Blocks may have been evicted since they were announced.
    const blocks = Math.min(
      source.leadingBlocks(request.ids),
      Math.ceil(transfer.endTokens / blockTokens),
    );
    const tokens = Math.min(blocks * blockTokens, request.inputTokens) - transfer.startTokens;
    if (tokens <= 0) {
      booking.transferred(false);
      this.#compute(served, null);
      return;
    }
    const bytes = tokens * this.#options.costs.bytesPerToken;
    this.#network.send({ from: transfer.from, to: chosen.instance }, bytes, () => {
      booking.transferred();
      this.#stats.fetched(tokens);
      this.#compute(served, target.install(request.ids, blocks));
    });
  }

  #compute(served: Served, lease: ReturnType<PrefillNode["install"]>): void {
    const { decision, request, booking, arrivedMs } = served;
    const { inputTokens, outputTokens, ids } = request;
    const from = decision.chosen.instance;
    const estimator = this.#conductor.prefillEstimator();
    let prefixTokens = 0;
    // Keys and values travel while they are computed: the hand-over ends behind both.
    let open = 2;
    const half = () => {
      open--;
      if (open === 0) this.#load(served);
    };
    const job = {
      ...{ id: decision.request, ids, inputTokens, priority: 0 },
      begun: (cachedTokens: number) => {
        prefixTokens = cachedTokens;
        this.#stats.found(cachedTokens);
        if (outputTokens < 2) return;
        const bytes = inputTokens * this.#options.costs.bytesPerToken;
        this.#network.send({ from, to: decision.decode }, bytes, half);
      },
      done: (ms: number) => {
        estimator.measured({ promptTokens: inputTokens, prefixTokens, ms });
        booking.prefilled();
        this.#stats.firstToken(this.#clock.nowMs() - arrivedMs);
        if (outputTokens < 2) this.#end(served, 1, null);
        else half();
      },
    };
    this.#prefill[from]?.submit(job, lease);
  }

  /** From the decode node's host memory to its device. */
  #load(served: Served): void {
    const { request, asked } = served;
    if (!this.#conductor.mayDecode(asked)) {
      served.booking.ended();
      this.#open--;
      this.#endRejected("tbt-late");
      return;
    }
    const { bytesPerToken, hostBytesPerMs } = this.#options.costs;
    const ms = (request.inputTokens * bytesPerToken) / hostBytesPerMs;
    const firstMs = this.#clock.nowMs();
    this.#clock.after(ms, () => this.#decodeAt(served, firstMs));
  }

  #decodeAt(served: Served, firstMs: number): void {
    const { request, booking, decision } = served;
    const { inputTokens, outputTokens } = request;
    // What waits there for room counts as what decodes: its tokens wait.
    booking.decoding();
    const gaps = new Float64Array(outputTokens - 1);
    let count = 0;
    let lastMs = firstMs;
    this.#decode.get(decision.decode)?.submit({
      ...{ id: decision.request, inputTokens, outputTokens, priority: 0 },
      token: () => {
        const nowMs = this.#clock.nowMs();
        gaps[count++] = nowMs - lastMs;
        lastMs = nowMs;
      },
      done: () => this.#end(served, outputTokens, gaps),
    });
  }

  #end({ booking }: Served, outputTokens: number, gaps: Float64Array | null): void {
    booking.ended(outputTokens);
    this.#open--;
    this.#stats.completed(outputTokens, gaps, this.#clock.nowMs());
    this.#progress();
  }

  #endRejected(reason: string): void {
    this.#stats.rejected(reason);
    this.#progress();
  }

  #progress(): void {
    this.#ended++;
    if (this.#ended % PROGRESS_REQUESTS === 0) this.#options.onProgress?.(this.#ended);
  }

  #sample(): void {
    const queues = this.#prefill.map((_, at) => this.#conductor.booksOf(at)?.queueMs ?? 0);
    const requests = [...this.#decode.values()].map((node) => node.requests);
    this.#stats.sample(this.#clock.nowMs(), queues, requests);
    if (this.#ended >= this.#options.trace.requests.length) return;
    this.#clock.after(this.#sampleMs, () => this.#sample());
  }
}

interface Served {
  readonly request: TraceRequest;
  readonly asked: ConductorRequest;
  readonly decision: Accepted;
  readonly booking: Booking;
  readonly arrivedMs: number;
}

const STEPS_PER_REPORT = 64;
const LENGTHS = [256, 1024, 4096, 16_384, 65_536, 131_072];

/** As an operator would measure a node before it serves. */
function prefillPoints(costs: NodeCosts) {
  return LENGTHS.flatMap((promptTokens) =>
    [0, 0.5, 0.9].map((part) => {
      const prefixTokens = Math.floor(part * promptTokens);
      const ms = costs.promptMs + promptPartMs(costs, prefixTokens, promptTokens);
      return { promptTokens, prefixTokens, ms };
    }),
  );
}

function decodePoints(costs: NodeCosts) {
  return [1, 4, 16, 64].flatMap((sequences) =>
    [1024, 8192, 65_536].map((tokens) => {
      const contextTokens = sequences * tokens;
      return { sequences, contextTokens, ms: decodeStepMs(costs, sequences, contextTokens) };
    }),
  );
}

/** Traces may leave out a last block that is not full: it is the request's own. */
function allBlocks(
  { ids, inputTokens }: TraceRequest,
  at: number,
  blockTokens: number,
): Int32Array {
  if (ids.length * blockTokens >= inputTokens) return ids;
  const all = new Int32Array(ids.length + 1);
  all.set(ids);
  all[ids.length] = -2 - at;
  return all;
}

function spanMs({ trace, speed = 1 }: PoolOptions): number {
  const last = trace.requests.reduce((most, { timestampMs }) => Math.max(most, timestampMs), 0);
  const span = last / speed;
  if (span <= SPAN_MS_MAX) return span;
  throw new EngineError(
    "INVALID_ARGUMENT",
    `Cannot simulate: timestamps at this speed must end before ${SPAN_MS_MAX} ms, ` +
      `current value is ${span}; timestamps are in ms`,
    { param: "trace" },
  );
}

function unsigned(ids: Int32Array): Uint32Array {
  return new Uint32Array(ids.buffer, ids.byteOffset, ids.length);
}
