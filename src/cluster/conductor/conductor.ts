import { assert, type Clock } from "#base";
import type { Rng } from "#cluster/routing";
import { Booking, type BookingKeeper } from "./booking.ts";
import type { ConductorConfig } from "./conductor-config.ts";
import type {
  Accepted,
  ConductorRequest,
  Decision,
  HeldPrefix,
  InstanceNumber,
  InstanceRole,
  PoolInstance,
  PrefillTerms,
} from "./decision.ts";
import type { DecodeBooks } from "./decode-books.ts";
import { chooseDecode, type DecodeSearch, type DecodeTerms, decodeTerms } from "./decode-choice.ts";
import { DecodeEstimator } from "./decode-estimator.ts";
import { DecodeOutlook } from "./decode-outlook.ts";
import {
  type Deadlines,
  type DecodePool,
  type DecodeState,
  decodeLoad,
  futureState,
  poolLoads,
  presentState,
  rejectionOf,
  retryAfterMs,
} from "./early-rejection.ts";
import {
  type Instance,
  type InstanceBooks,
  InstanceTable,
  instanceBooks,
} from "./instance-table.ts";
import { PoolGauge } from "./pool-gauge.ts";
import { isKnown, type NeedsParts } from "./pool-needs.ts";
import { type ErrorReport, PredictionError } from "./prediction-error.ts";
import type { PromptWork } from "./prefill-books.ts";
import { type BestPrefix, isMoved, PrefillChooser, type PrefillSearch } from "./prefill-choice.ts";
import { PrefillEstimator } from "./prefill-estimator.ts";
import { TransferEstimator } from "./transfer-estimator.ts";

/** Parts of a conductor. */
export interface ConductorOptions {
  readonly clock: Clock;
  readonly rng: Rng;
  readonly config: ConductorConfig;
  /** Keys and values of one token, all layers. */
  readonly bytesPerToken: number;
  /** Bookings refine estimators of prompts; off: the owner tells `measured`. Default: off. */
  readonly learns?: boolean;
  /** Estimators that were fitted before, by kind of instance. Default: new ones. */
  readonly prefillOf?: (kind: string) => PrefillEstimator;
  readonly decodeOf?: (kind: string) => DecodeEstimator;
}

/** A decision with all that was weighed. */
export interface ExplainedDecision {
  readonly decision: Decision;
  readonly prefill: readonly PrefillTerms[];
  readonly decode: readonly DecodeTerms[];
}

/** How far predictions are from what came. */
export interface ConductorErrors {
  readonly ttft: ErrorReport;
  readonly prefill: ErrorReport;
  readonly decode: ErrorReport;
  readonly transfer: ErrorReport;
}

/** Of means of what requests took: a newer one counts so much. */
const NEWEST = 1 / 64;

/**
 * Decides where a request's prompt is computed, where it decodes and what moves. `decide` changes
 * nothing but the state of chance; `book` enters an accepted request into the books.
 */
export class Conductor {
  readonly config: ConductorConfig;
  /** What both pools are asked for, and need. */
  readonly pools = new PoolGauge({ nowMs: () => this.#nowMs(), parts: () => this.#needsParts() });
  readonly #options: ConductorOptions;
  readonly #table = new InstanceTable();
  readonly #chooser = new PrefillChooser();
  readonly #outlook = new DecodeOutlook();
  readonly #transfers = new TransferEstimator();
  readonly #prefills = new Map<string, PrefillEstimator>();
  readonly #decodes = new Map<string, DecodeEstimator>();
  readonly #ttftError = new PredictionError();
  #decodeMs: number;
  #outputTokens: number;

  constructor(options: ConductorOptions) {
    this.#options = options;
    this.config = options.config;
    this.#decodeMs = options.config.decodeMs;
    this.#outputTokens = options.config.outputTokens;
  }

  join(instance: PoolInstance): InstanceNumber {
    return this.#table.join(instance).number;
  }

  /** It gets nothing new; what it has goes on, and its bookings end as others do. */
  leave(instance: InstanceNumber): void {
    this.#table.leave(instance);
  }

  setRole(instance: InstanceNumber, role: InstanceRole, kind?: string): void {
    this.#table.setRole(instance, role, kind);
  }

  /** 0: unknown. */
  setNetwork(instance: InstanceNumber, bytesPerMs: number): void {
    const found = this.#table.find(instance);
    if (found !== null) found.networkBytesPerMs = bytesPerMs;
  }

  /** Null: no such instance. */
  idOf(instance: InstanceNumber): string | null {
    return this.#table.find(instance)?.id ?? null;
  }

  /** Null: no such instance. */
  kindOf(instance: InstanceNumber): string | null {
    return this.#table.find(instance)?.kind ?? null;
  }

  /** As measured, once some have ended. */
  get usualOutputTokens(): number {
    return this.#outputTokens;
  }

  prefillEstimator(kind = ""): PrefillEstimator {
    const make = this.#options.prefillOf ?? (() => new PrefillEstimator());
    return existing(this.#prefills, kind, make);
  }

  decodeEstimator(kind = ""): DecodeEstimator {
    const make = this.#options.decodeOf ?? (() => new DecodeEstimator());
    return existing(this.#decodes, kind, make);
  }

  /**
   * Algorithm 1. `held`: what instances have of the prompt, in any order. `at`: the instance that
   * computes and decodes it, where that is chosen already; it must not have left.
   */
  decide(
    request: ConductorRequest,
    held: readonly HeldPrefix[],
    at: InstanceNumber | null = null,
  ): Decision {
    const search = this.#search(request, held);
    return this.#decide(request, search, this.#chooser.bestPrefix(search), at);
  }

  /** `decide`, with the terms of all instances. */
  explain(
    request: ConductorRequest,
    held: readonly HeldPrefix[],
    at: InstanceNumber | null = null,
  ): ExplainedDecision {
    const search = this.#search(request, held);
    const best = this.#chooser.bestPrefix(search);
    const decode = this.#decodeSearch(request);
    return {
      decision: this.#decide(request, search, best, at),
      prefill: this.#chooser.weighAll(search, best),
      decode: decode.instances.map((instance) => decodeTerms(decode, instance)),
    };
  }

  /** Enters an accepted request; its instances must not have left since. */
  book(decision: Accepted): Booking {
    const { chosen, transfer } = decision;
    const prefill = this.#table.find(chosen.instance);
    const decode = this.#table.find(decision.decode);
    assert(prefill !== null && decode !== null, "Cannot book at an instance that left");
    const sender = transfer === null ? null : this.#table.find(transfer.from);
    const contextTokens = decision.contextTokens;
    this.pools.taken(decision);
    const plan =
      transfer === null || sender === null
        ? null
        : {
            bytes: (transfer.endTokens - transfer.startTokens) * this.#options.bytesPerToken,
            sender: { bytesPerMs: sender.networkBytesPerMs, flows: sender.sends },
            receiver: { bytesPerMs: prefill.networkBytesPerMs, flows: prefill.receives },
          };
    const keeper: BookingKeeper = {
      nowMs: () => this.#nowMs(),
      expectJoin: (joinMs, tokens) => this.#outlook.expect(joinMs, tokens),
      unexpectJoin: (joinMs, tokens) => this.#outlook.unexpect(joinMs, tokens),
      decodeBegan: (atMs, tokens) => this.#outlook.began(atMs, tokens),
      decodeEnded: (beganMs, tokens, output) => this.#decodeEnded(beganMs, tokens, output),
      transferred: (ms) => plan !== null && this.#transfers.measured(plan, ms),
      firstToken: (predictedMs, actualMs) => this.#ttftError.add(predictedMs, actualMs),
      computed: (worked) => {
        if (this.#options.learns === true) this.#learn(prefill, decision, worked);
      },
    };
    return new Booking(decision, { prefill, decode, sender, contextTokens }, keeper);
  }

  /** Of mode `late`: whether a request whose prompt is computed may decode. */
  mayDecode(request: ConductorRequest): boolean {
    const { tbtMs } = this.#deadlinesOf(request);
    if (this.config.rejection !== "late" || tbtMs === null) return true;
    const nowMs = this.#nowMs();
    const joining = { nowMs, atMs: nowMs, contextTokens: this.#contextOf(request) };
    const load = decodeLoad(presentState(this.#decodePool(), joining), tbtMs);
    return load <= this.config.loadLimits[request.priority ?? "normal"];
  }

  errors(kind = ""): ConductorErrors {
    return {
      ttft: this.#ttftError.report(),
      prefill: this.prefillEstimator(kind).error(),
      decode: this.decodeEstimator(kind).error(),
      transfer: this.#transfers.error(),
    };
  }

  /** What is counted of an instance now; null: it left. */
  booksOf(instance: InstanceNumber): InstanceBooks | null {
    const found = this.#table.find(instance);
    return found === null ? null : instanceBooks(found, this.#nowMs());
  }

  /** What decodes at an instance now; null: it left. */
  batchOf(instance: InstanceNumber): Pick<DecodeBooks, "decoding" | "decodingTokens"> | null {
    return this.#table.find(instance)?.decode ?? null;
  }

  #decide(
    request: ConductorRequest,
    search: PrefillSearch,
    best: BestPrefix,
    at: InstanceNumber | null,
  ): Decision {
    const { config } = this;
    const { priority = "normal", waitedMs = 0 } = request;
    const choice =
      at === null ? this.#chooser.choose(search, best) : this.#chooser.weighOne(search, best, at);
    const decode = this.#chooseDecode(request, choice?.terms ?? null, at);
    const deadlines = this.#deadlinesOf(request);
    const contextTokens = this.#contextOf(request);
    const ttftMs = waitedMs + (choice?.terms.ttftMs ?? 0);
    const joinMs = search.nowMs + (choice?.terms.ttftMs ?? 0);
    const decodeState = () =>
      at === null ? this.#decodeState(joinMs, contextTokens) : this.#stateAt(at, decode);
    const loads = poolLoads(config, { ttftMs, decode: decodeState }, deadlines);
    const basis = {
      ...{ request: request.id, atMs: search.nowMs, policy: config.policy, priority },
      promptTokens: request.promptTokens,
      bestPrefixTokens: best.tokens,
      bestPrefixAt: best.holder?.number ?? null,
      ...{ loads, chosen: choice?.terms ?? null, decode: decode?.instance ?? null },
      ...{ predictedTbtMs: decode?.tbtMs ?? 0, contextTokens },
    };
    if (choice === null || decode === null) {
      const reason = choice === null ? "no-prefill" : "no-decode";
      return { type: "rejected", ...basis, reason, retryAfterMs: NO_INSTANCE_RETRY_MS };
    }
    const reason = request.mustTake === true ? null : rejectionOf(config, loads, priority);
    if (reason !== null) {
      const state = { loads, ttftDeadlineMs: deadlines.ttftMs, decodeMs: this.#decodeMs };
      const retry = retryAfterMs(reason, config.loadLimits[priority], state);
      return { type: "rejected", ...basis, reason, retryAfterMs: retry };
    }
    const { terms, from } = choice;
    const transfer =
      from === null || !isMoved(terms)
        ? null
        : { from, startTokens: terms.ownPrefixTokens, endTokens: terms.usedPrefixTokens };
    return { type: "accepted", ...basis, chosen: terms, decode: decode.instance, transfer };
  }

  /** An instance that does both decodes what it computed: nothing has to move. */
  #chooseDecode(
    request: ConductorRequest,
    terms: PrefillTerms | null,
    at: InstanceNumber | null,
  ): DecodeTerms | null {
    const search = this.#decodeSearch(request);
    const fixed = at === null ? null : this.#table.find(at);
    if (fixed !== null) return decodeTerms(search, fixed);
    const prefill = terms === null ? null : this.#table.find(terms.instance);
    if (prefill?.role === "both") return decodeTerms(search, prefill);
    return chooseDecode(search);
  }

  #decodeState(atMs: number, contextTokens: number): DecodeState {
    const pool = this.#decodePool();
    const joining = { nowMs: this.#nowMs(), atMs, contextTokens };
    const present = presentState(pool, joining);
    if (this.config.rejection !== "predicted") return present;
    const future = futureState(pool, joining);
    // Outputs longer than usual stay: devices that are full now are not taken to be empty then.
    return { tbtMs: future.tbtMs, fullness: Math.max(future.fullness, present.fullness) };
  }

  /** One instance with the request, and all that are coming. */
  #stateAt(at: InstanceNumber, terms: DecodeTerms | null): DecodeState {
    const { decode, kvTokens = 0 } = this.#table.find(at) ?? {};
    const fullness = kvTokens > 0 ? (decode?.tokens ?? 0) / kvTokens : 0;
    return { tbtMs: terms?.tbtMs ?? 0, fullness };
  }

  #search({ promptTokens, barred }: ConductorRequest, held: readonly HeldPrefix[]): PrefillSearch {
    return {
      ...{ table: this.#table, config: this.config, promptTokens, held },
      ...{ nowMs: this.#nowMs(), bytesPerToken: this.#options.bytesPerToken },
      transfers: this.#transfers,
      coefficientsOf: (kind) => this.prefillEstimator(kind).coefficients,
      ...{ rng: this.#options.rng, barred: barred ?? null },
    };
  }

  #decodeSearch(request: ConductorRequest): DecodeSearch {
    return {
      instances: this.#table.decoding,
      heldTokens: request.promptTokens + (request.outputTokens ?? this.#outputTokens),
      contextTokens: this.#contextOf(request),
      estimatorOf: (kind) => this.decodeEstimator(kind),
      ...{ rng: this.#options.rng, barred: request.barred ?? null },
    };
  }

  #decodePool(): DecodePool {
    return {
      instances: this.#table.decoding,
      outlook: this.#outlook,
      estimatorOf: (kind) => this.decodeEstimator(kind),
      decodeMs: this.#decodeMs,
    };
  }

  #needsParts(): NeedsParts {
    const { learns = false } = this.#options;
    return {
      ...{ table: this.#table, config: this.config, pool: this.#decodePool() },
      isMeasured: {
        prefill: !learns || isKnown(this.#prefills),
        decode: !learns || isKnown(this.#decodes),
      },
    };
  }

  #contextOf({ promptTokens, outputTokens }: ConductorRequest): number {
    return promptTokens + (outputTokens ?? this.#outputTokens) / 2;
  }

  #deadlinesOf({ ttftDeadlineMs, tbtDeadlineMs }: ConductorRequest): Deadlines {
    const { config } = this;
    return {
      ttftMs: ttftDeadlineMs === undefined ? config.ttftDeadlineMs : ttftDeadlineMs,
      tbtMs: tbtDeadlineMs === undefined ? config.tbtDeadlineMs : tbtDeadlineMs,
    };
  }

  #decodeEnded(beganMs: number, tokens: number, outputTokens: number | null): void {
    this.#outlook.ended(beganMs, tokens);
    if (outputTokens === null) return;
    const tookMs = this.#nowMs() - beganMs;
    this.#decodeMs += (tookMs - this.#decodeMs) * NEWEST;
    this.#outputTokens += (outputTokens - this.#outputTokens) * NEWEST;
  }

  #learn(at: Instance, { promptTokens, chosen }: Accepted, worked: PromptWork): void {
    const prompt = { promptTokens, prefixTokens: chosen.usedPrefixTokens };
    const run = at.run.add(prompt, worked);
    if (run !== null) this.prefillEstimator(at.kind).measuredRun(run.prompts, run.ms);
  }

  #nowMs(): number {
    return this.#options.clock.nowMs();
  }
}

const NO_INSTANCE_RETRY_MS = 1000;

function existing<T>(known: Map<string, T>, key: string, make: (key: string) => T): T {
  const found = known.get(key);
  if (found !== undefined) return found;
  const made = make(key);
  known.set(key, made);
  return made;
}
