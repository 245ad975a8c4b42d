/** A fleet with pools on a simulated clock: production conductor, index, schedulers and caches. */
import {
  type Accepted,
  type Booking,
  Conductor,
  type ConductorRequest,
  DecodeEstimator,
  decisionLine,
  drawIndex,
  FleetIndex,
  PrefillEstimator,
  type Rng,
  seededRng,
} from "#cluster";
import type { BlockTable } from "#kvcache";
import { SimClock } from "../sim-clock.ts";
import type { TraceRequest } from "../trace.ts";
import type { CoupledNode } from "./coupled-node.ts";
import { HotBlocks } from "./hot-blocks.ts";
import { Network } from "./network.ts";
import { decodePoints, prefillPoints } from "./node-points.ts";
import { PoolNodes } from "./pool-nodes.ts";
import type { PoolOptions } from "./pool-options.ts";
import type { PoolResult } from "./pool-result.ts";
import { PoolStats } from "./pool-stats.ts";
import { allBlocks, spanMs, unsigned } from "./pool-trace.ts";
import type { LinedPrompt } from "./prefill-line.ts";
import { POOL_SCOPE, type PrefillJob } from "./prefill-node.ts";
import { gapsOf, type PoolRequestRow } from "./request-row.ts";
import { RoleShifts } from "./role-shifts.ts";
import { TokenGaps } from "./token-gaps.ts";

const NETWORK_LATENCY_MS = 1;
const SAMPLE_MS_MIN = 10_000;
const SAMPLES_MAX = 400;
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
  readonly #nodes: PoolNodes;
  readonly #shifts: RoleShifts;
  readonly #hot: HotBlocks;
  /** Of places in the pool: another stream than the conductor's, which they must not change. */
  readonly #places: Rng;
  readonly #stats: PoolStats;
  readonly #sampleMs: number;
  #next = 0;
  #open = 0;
  #ended = 0;

  constructor(options: PoolOptions) {
    const { costs, conductor, seed } = options;
    this.#options = options;
    const span = spanMs(options.trace, options.speed ?? 1);
    this.#sampleMs = Math.max(SAMPLE_MS_MIN, span / SAMPLES_MAX);
    this.#hot = new HotBlocks(options.trace.requests);
    this.#places = seededRng(seed + 1);
    this.#stats = new PoolStats(options.conductor);
    this.#index = new FleetIndex({ clock: this.#clock, bytesMax: INDEX_BYTES });
    this.#conductor = new Conductor({
      ...{ clock: this.#clock, rng: seededRng(seed), config: conductor },
      bytesPerToken: costs.bytesPerToken,
      prefillOf: () => new PrefillEstimator(prefillPoints(costs)),
      decodeOf: () => new DecodeEstimator(decodePoints(costs)),
    });
    this.#nodes = new PoolNodes({
      ...{ options, clock: this.#clock, conductor: this.#conductor },
      ...{ index: this.#index, network: this.#network, hot: this.#hot },
    });
    this.#shifts = new RoleShifts({
      ...{ clock: this.#clock, conductor: this.#conductor, nodes: this.#nodes },
      settings: options.roleChanges ?? null,
    });
  }

  run(): PoolResult {
    this.#arrive();
    this.#shifts.watch(() => this.#isOver());
    this.#sample();
    this.#clock.run();
    return this.#stats.result({
      ...{ seed: this.#options.seed, openBookings: this.#open },
      // Steps that ran together count as if each had waited for its turn.
      events: this.#clock.ran + this.#nodes.stepsPassed,
      transferBytes: this.#network.bytes,
      prefillBusyMs: this.#nodes.prefill.flatMap(({ busyMs }) => busyMs),
      decodeBusyMs: this.#nodes.decoders.map(({ busyMs }) => busyMs),
      errors: this.#conductor.errors(),
      roleChanges: this.#shifts.all,
    });
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
    const barred = this.#shifts.barred;
    const asked = { id: String(at), promptTokens: inputTokens, outputTokens: null, barred };
    const prompt = this.#index.blocksOf(SCOPE, unsigned(ids));
    const { blockTokens } = this.#options.trace;
    const held = this.#index
      .find(prompt)
      .map(({ worker, levels }) => ({ instance: worker, tokens: levels[2] * blockTokens }));
    const decision = this.#conductor.decide(asked, held);
    this.#options.onDecision?.(decisionLine(decision, (number) => this.#conductor.idOf(number)));
    this.#stats.arrived(inputTokens);
    const arrived: Arrived = { at, request, arrivedMs: this.#clock.nowMs() };
    if (inputTokens === 0) {
      this.#endRejected("empty", arrived);
      return;
    }
    if (decision.type === "rejected") {
      this.#conductor.pools.refused(decision);
      this.#endRejected(decision.reason, arrived);
      return;
    }
    const coupled = this.#nodes.coupled.get(decision.decode);
    const decode = coupled ?? this.#nodes.decode.get(decision.decode);
    const prefill = this.#nodes.prefill[decision.chosen.instance];
    const fits = coupled !== undefined || prefill?.fits({ ids }) === true;
    if (!fits || decode?.fits({ inputTokens, outputTokens }) !== true) {
      this.#endRejected("too-long", arrived);
      return;
    }
    this.#open++;
    const booking = this.#conductor.book(decision);
    const begun = { cachedTokens: null, ttftMs: 0 };
    const served: Served = { ...arrived, ...begun, asked, decision, booking };
    if (coupled !== undefined) this.#runCoupled(served, coupled);
    else if (decision.transfer !== null) this.#fetch(served);
    else if (this.#options.cachePlace === "pool") this.#fetchOwn(served);
    else this.#enter(served, null);
  }

  /** The whole request on one node. */
  #runCoupled(served: Served, node: CoupledNode): void {
    const { decision, request, booking, arrivedMs } = served;
    const { inputTokens, outputTokens, ids } = request;
    const gaps = new TokenGaps(outputTokens);
    node.submit({
      ...{ id: decision.request, ids, inputTokens, outputTokens },
      begun: (cachedTokens) => {
        served.cachedTokens = cachedTokens;
        this.#stats.found(cachedTokens, inputTokens);
      },
      token: () => {
        if (gaps.started) {
          gaps.token(this.#clock.nowMs());
          return;
        }
        booking.prefilled();
        booking.decoding();
        served.ttftMs = this.#clock.nowMs() - arrivedMs;
        this.#stats.firstToken(served.ttftMs);
        gaps.start(this.#clock.nowMs());
      },
      done: () => this.#end(served, Math.max(outputTokens, 1), gaps.all),
    });
  }

  /** A prefix that lies in the pool: it travels though its node counts as having it. */
  #fetchOwn(served: Served): void {
    const { instance, usedPrefixTokens: tokens } = served.decision.chosen;
    const from = this.#anyNode(instance);
    this.#fetchFrom(served, { from, tokens, install: () => null });
  }

  /** A node of either pool by chance, another than `but`: there are two at least. */
  #anyNode(but: number): number {
    const { prefillNodes, decodeNodes } = this.#options;
    const drawn = drawIndex(this.#places, prefillNodes + decodeNodes - 1);
    return drawn < but ? drawn : drawn + 1;
  }

  /** The missing part of the best prefix comes first, and stays where it came. */
  #fetch(served: Served): void {
    const { decision, request, booking } = served;
    const { chosen, transfer } = decision;
    const { blockTokens } = this.#options.trace;
    const source = this.#nodes.prefill[transfer?.from ?? -1];
    const target = this.#nodes.prefill[chosen.instance];
    if (transfer === null || source === undefined || target === undefined) return;
    // Blocks may have been evicted since they were announced.
    const blocks = Math.min(
      source.leadingBlocks(request.ids),
      Math.ceil(transfer.endTokens / blockTokens),
    );
    const tokens = Math.min(blocks * blockTokens, request.inputTokens) - transfer.startTokens;
    if (tokens <= 0) booking.transferred(false);
    const install = () => target.install(request.ids, blocks);
    this.#fetchFrom(served, { from: transfer.from, tokens, install });
  }

  /** A part of the prefix travels while its prompt is in the line. */
  #fetchFrom(served: Served, { from, tokens, install }: Fetch): void {
    if (tokens <= 0) {
      this.#enter(served, null);
      return;
    }
    const { chosen } = served.decision;
    const { bytesPerToken, networkBytesPerMs } = this.#options.costs;
    const bytes = tokens * bytesPerToken;
    const sentMs = this.#clock.nowMs();
    const expectedMs = chosen.transferMs > 0 ? chosen.transferMs : bytes / networkBytesPerMs;
    const prompt = this.#enter(served, sentMs + expectedMs);
    this.#network.send({ from, to: chosen.instance }, bytes, () => {
      served.booking.transferred();
      this.#stats.fetched(tokens, this.#clock.nowMs() - sentMs);
      if (prompt !== null) this.#nodes.lines[chosen.instance]?.ready(prompt, install());
    });
  }

  /** The prompt's place in its node's line. */
  #enter(served: Served, prefixAtMs: number | null): LinedPrompt | null {
    const { instance, prefillMs } = served.decision.chosen;
    const line = this.#nodes.lines[instance];
    return line?.enter(this.#prefillJob(served), prefillMs, prefixAtMs) ?? null;
  }

  #prefillJob(served: Served): PrefillJob {
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
    return {
      ...{ id: decision.request, ids, inputTokens, priority: 0 },
      begun: (cachedTokens: number) => {
        prefixTokens = cachedTokens;
        served.cachedTokens = cachedTokens;
        this.#stats.found(cachedTokens, inputTokens);
        if (this.#options.cachePlace === "pool") this.#store(from, inputTokens - cachedTokens);
        if (outputTokens < 2) return;
        const bytes = inputTokens * this.#options.costs.bytesPerToken;
        this.#network.send({ from, to: decision.decode }, bytes, half);
      },
      done: (ms: number) => {
        estimator.measured({ promptTokens: inputTokens, prefixTokens, ms });
        booking.prefilled();
        served.ttftMs = this.#clock.nowMs() - arrivedMs;
        this.#stats.firstToken(served.ttftMs);
        if (outputTokens < 2) this.#end(served, 1, null);
        else half();
      },
    };
  }

  /** What was computed goes to its places in the pool; no request waits for it. */
  #store(from: number, tokens: number): void {
    const ends = { from, to: this.#anyNode(from) };
    this.#network.send(ends, tokens * this.#options.costs.bytesPerToken, () => undefined);
  }

  /** From the decode node's host memory to its device. */
  #load(served: Served): void {
    const { request, asked } = served;
    if (!this.#conductor.mayDecode(asked)) {
      served.booking.ended();
      this.#open--;
      this.#endRejected("tbt-late", served, served);
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
    const gaps = new TokenGaps(outputTokens);
    gaps.start(firstMs);
    this.#nodes.decode.get(decision.decode)?.submit({
      ...{ id: decision.request, inputTokens, outputTokens, priority: 0 },
      token: (atMs) => gaps.token(atMs),
      done: () => this.#end(served, outputTokens, gaps.all),
    });
  }

  #end(served: Served, outputTokens: number, gaps: Float64Array | null): void {
    const { booking, ttftMs } = served;
    booking.ended(outputTokens);
    this.#open--;
    this.#tell(served, { ...this.#computed(served), outputTokens, ...gapsOf(gaps) }, "accepted");
    this.#stats.completed({ outputTokens, ttftMs, gaps, nowMs: this.#clock.nowMs() });
    this.#progress();
  }

  /** `computed`: its prompt was. */
  #endRejected(reason: string, arrived: Arrived, computed: Served | null = null): void {
    this.#stats.rejected(reason);
    this.#tell(arrived, computed === null ? {} : this.#computed(computed), reason);
    this.#progress();
  }

  /** What is known of a request whose prompt was computed. */
  #computed({ cachedTokens, ttftMs, decision }: Served): Partial<PoolRequestRow> {
    return {
      ...{ cachedTokens, ttftMs },
      prefill: this.#conductor.idOf(decision.chosen.instance),
      decode: this.#conductor.idOf(decision.decode),
    };
  }

  #tell(
    { at, request, arrivedMs }: Arrived,
    known: Partial<PoolRequestRow>,
    decision: string,
  ): void {
    this.#options.onRequest?.({
      ...{ request: at, arrivalMs: arrivedMs, promptTokens: request.inputTokens },
      ...{ cachedTokens: null, outputTokens: null, ttftMs: null, tbtMeanMs: null, tbtMaxMs: null },
      ...{ prefill: null, decode: null, ...known, decision },
    });
  }

  #progress(): void {
    this.#ended++;
    if (this.#ended % PROGRESS_REQUESTS === 0) this.#options.onProgress?.(this.#ended);
  }

  #isOver(): boolean {
    return this.#ended >= this.#options.trace.requests.length;
  }

  #sample(): void {
    this.#stats.sample({
      atMs: this.#clock.nowMs(),
      queuesMs: this.#nodes.prefilling.map((at) => this.#conductor.booksOf(at)?.queueMs ?? 0),
      decoding: this.#nodes.decoders.map((node) => node.requests),
      replicas: this.#hot.replicas,
    });
    if (this.#isOver()) return;
    this.#clock.after(this.#sampleMs, () => this.#sample());
  }
}

/** A part of a prefix that travels. */
interface Fetch {
  readonly from: number;
  readonly tokens: number;
  /** Stores it where it came to. */
  install(): BlockTable | null;
}

/** A request that came. */
interface Arrived {
  /** Its place in the trace. */
  readonly at: number;
  readonly request: TraceRequest;
  readonly arrivedMs: number;
}

interface Served extends Arrived {
  readonly asked: ConductorRequest;
  readonly decision: Accepted;
  readonly booking: Booking;
  /** Of its prompt, when it was computed; null: it was not yet. */
  cachedTokens: number | null;
  ttftMs: number;
}
