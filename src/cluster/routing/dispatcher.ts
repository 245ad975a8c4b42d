import type { Clock } from "#base";
import type { Candidate, Member, Membership, RoutingPolicy, WorkerInfo } from "#cluster/protocol";
import type { Rng } from "./chance.ts";
import { createPolicy, type RoutingPolicyName } from "./create-policy.ts";
import type {
  Awaited,
  DispatchRequest,
  Explanation,
  LeftOut,
  Routed,
  Unrouted,
  Weighed,
} from "./dispatch-request.ts";
import { FleetSpeeds } from "./fleet-speeds.ts";
import type { PromptInFlight } from "./in-flight-prefixes.ts";
import { KnownModels } from "./known-models.ts";
import { prefixPlan } from "./kv-cost.ts";
import type { KvSourceChoice } from "./kv-source.ts";
import { type KvSource, KvSources } from "./kv-sources.ts";
import { LoadBooks } from "./load-books.ts";
import { PoolRoom } from "./pool-room.ts";
import { BLOCK_TOKENS, type PrefixFinder } from "./prefix-finder.ts";
import type { EarlyRejection, PlanAsk, RequestPlanner, WaitingAhead } from "./request-planner.ts";
import type { Reservation } from "./reservation.ts";
import { type Fullness, fullness, type RoomLimits } from "./room.ts";
import { computes, serves } from "./served-model.ts";
import { Traffic } from "./traffic.ts";

/** What the dispatcher is made of. */
export interface DispatcherOptions {
  readonly membership: Membership;
  readonly prefixes: PrefixFinder;
  readonly policy: RoutingPolicyName;
  readonly clock: Clock;
  readonly rng: Rng;
  /** Whether a worker may be asked now, e.g. its breaker is closed. Default: all may. */
  readonly isOpen?: (workerId: string) => boolean;
  /** Load beyond which workers are full. Default: none. */
  readonly room?: RoomLimits;
  /**
   * So long after the start, and after the membership was first told of workers, more of them, and
   * their models, may come [CL131]. Default: 0 ms.
   */
  readonly startingMs?: number;
  /** Plans requests by deadlines and pools. Default: none, the policy alone decides. */
  readonly planner?: RequestPlanner;
}

/**
 * Joins members, index, speeds and load, and asks the policy. A choice is booked before anything
 * else runs: of a burst, each request sees those before it.
 */
export class Dispatcher {
  readonly books: LoadBooks;
  readonly speeds: FleetSpeeds;
  readonly traffic = new Traffic();
  /** Who gives keys and values of a prompt to the worker that it was sent to. */
  readonly sources: KvSources;
  readonly #options: DispatcherOptions;
  readonly #policy: RoutingPolicy;
  readonly #models: KnownModels;
  readonly #startedMs: number;
  readonly #stopListening: () => void;

  constructor(options: DispatcherOptions) {
    const { clock, rng, membership, policy } = options;
    this.#options = options;
    this.#models = new KnownModels(clock);
    this.#startedMs = clock.nowMs();
    this.speeds = new FleetSpeeds(clock);
    this.books = new LoadBooks({ clock, observer: this.speeds });
    this.#policy = createPolicy(policy, { rng, outlook: () => this.traffic.outlook() });
    this.sources = new KvSources({
      ...{ membership, books: this.books, isOpen: options.isOpen ?? (() => true) },
      candidates: (request, workers) => this.#candidates(request, workers, true),
    });
    for (const { info } of membership.workers.values()) this.#joined(info);
    this.#stopListening = membership.listen({
      joined: ({ info }) => this.#joined(info),
      changed: ({ info }) => this.#models.joined(info.id, info.models),
      left: (id) => {
        this.books.left(id);
        this.speeds.left(id);
        this.#models.left(id);
      },
    });
  }

  /** Chooses a worker and books the request there. */
  route(request: DispatchRequest): Routed | Unrouted {
    const weighed = this.weigh(request);
    return weighed.type === "unrouted" ? weighed : this.book(weighed, weighed.choice.chosen);
  }

  /** Who may take the request, and what the policy says; nothing is booked. */
  weigh(request: DispatchRequest): Weighed | Unrouted {
    const members = this.#eligible(request);
    if (members.workers.length === 0) return { type: "unrouted", reason: members.reason };
    const { planner } = this.#options;
    if (planner === undefined) {
      const candidates = this.#candidates(request, members.workers);
      const choice = this.#policy.choose(request, candidates);
      return { type: "weighed", request, candidates, choice, plan: null };
    }
    const ask = this.#askOf(request, members);
    const plan = planner.plan(ask);
    if (plan.type === "rejected") {
      return { type: "unrouted", reason: "deadline", rejection: plan.rejection };
    }
    const { candidates } = ask;
    return { type: "weighed", request, candidates, choice: plan.choice, plan };
  }

  /**
   * The deadline that a request would miss behind those that wait before it; null: none, as far as
   * is known.
   */
  foresee(request: DispatchRequest, ahead: WaitingAhead): EarlyRejection | null {
    const ask = this.planAskOf(request);
    return ask === null ? null : (this.#options.planner?.foresee(ask, ahead) ?? null);
  }

  /** Whether a request that fills what is free may begin now. */
  mayFill(request: DispatchRequest): boolean {
    const ask = this.planAskOf(request);
    return ask === null || (this.#options.planner?.mayFill(ask) ?? true);
  }

  /** What plans are made of; null: no worker may take it, or nothing plans. */
  planAskOf(request: DispatchRequest): PlanAsk | null {
    if (this.#options.planner === undefined) return null;
    const members = this.#eligible(request);
    return members.workers.length === 0 ? null : this.#askOf(request, members);
  }

  #askOf(request: DispatchRequest, { all, workers }: EligibleMembers): PlanAsk {
    const everyone = this.#candidates(request, all, true);
    const isSame = workers.length === all.length;
    const candidates = isSame ? everyone : everyone.filter(({ info }) => workers.includes(info));
    const choose = () => this.#policy.choose(request, candidates);
    return { request, candidates, all: everyone, choose };
  }

  /** The terms of every member for a request, without booking it. */
  explain(request: DispatchRequest): Explanation {
    const members = this.#eligible(request);
    const candidates = this.#candidates(request, members.workers, true);
    const choice = candidates.length === 0 ? null : this.#policy.choose(request, candidates);
    const workers = [...this.#options.membership.workers.values()].map((member) => {
      const at = members.workers.indexOf(member.info);
      const candidate = candidates[at] ?? null;
      const cost = choice?.costs[at] ?? null;
      const leftOut = this.#leftOut(request, member);
      const full = this.fullness(member.info.id);
      return {
        worker: member.info,
        leftOut,
        match: candidate?.match ?? null,
        candidate,
        cost,
        full,
      };
    });
    const unrouted = candidates.length === 0 ? members.reason : null;
    return { policy: this.#policy.name, choice, unrouted, workers };
  }

  /** Whether all workers that may take the request are full, or none can be asked yet. */
  isFull(request: DispatchRequest): boolean {
    let isSome = false;
    const { planner, room } = this.#options;
    const pools = new PoolRoom();
    for (const member of this.#options.membership.workers.values()) {
      const { info } = member;
      if (this.#leftOut(request, member) !== null || !hasRoom(request, info)) continue;
      const full = this.fullness(info.id);
      isSome = true;
      if (planner?.isPooled(info.id) !== true) {
        if (full === null) return false;
        continue;
      }
      // What it computes for others is measured by who plans it.
      const isLong = planner.queueMsOf(info.id) > (room?.waitMsMax ?? Infinity);
      pools.add(info.role ?? "both", isLong ? (full ?? "prompts") : full);
    }
    if (pools.hasRoom) return false;
    return isSome || this.awaited(request) !== null;
  }

  /**
   * Which workers may take the request soon, where none may now. `breakers`: those that failed and
   * are left alone for a moment; `members`: those that this router, which has just begun to hear
   * of workers or has not yet, does not know. Null: one may now, or there is no such hope.
   */
  awaited(request: DispatchRequest): Awaited | null {
    let hasFailed = false;
    let isBroken = false;
    for (const member of this.#options.membership.workers.values()) {
      const leftOut = this.#leftOut(request, member);
      if (leftOut === null) return null;
      hasFailed ||= request.excluded.has(member.info.id);
      isBroken ||= leftOut === "excluded" && !request.excluded.has(member.info.id);
    }
    if (isBroken) return "breakers";
    return !hasFailed && this.#isStarting() ? "members" : null;
  }

  /** Why the worker gets no request that can wait; null: it has room. */
  fullness(workerId: string): Fullness | null {
    const { room } = this.#options;
    if (room === undefined) return null;
    return fullness(this.books, workerId, this.speeds.speedsOf(workerId), room);
  }

  /** Names the set of members that a request may go to, whatever their breakers say now. */
  laneOf(request: DispatchRequest): string {
    const ids: string[] = [];
    for (const { info, state } of this.#options.membership.workers.values()) {
      const mayServe = serves(info, request.model) && computes(info) && state === "ready";
      if (mayServe && hasRoom(request, info)) ids.push(info.id);
    }
    return ids.join(" ");
  }

  /** Tokens to compute for a request: of its prompt where most of it is cached, and its output. */
  tokensToCompute(request: DispatchRequest): number {
    const { workers } = this.#eligible(request);
    const usual = this.traffic.outlook().outputTokens;
    const output = Math.min(request.outputTokens ?? usual, usual);
    if (workers.length === 0) return request.promptTokens + output;
    const candidates = this.#candidates(request, workers);
    const plans = candidates.map((each) => prefixPlan(request, each).uncachedTokens);
    return Math.min(...plans) + output;
  }

  close(): void {
    this.#stopListening();
  }

  #joined({ id, models, kind, version }: WorkerInfo): void {
    this.#models.joined(id, models);
    this.speeds.joined(id, `${kind} ${version} ${models[0] ?? ""}`);
  }

  /** Books the request at one of the candidates. */
  book({ request, candidates, choice, plan }: Weighed, chosen: number): Routed | Unrouted {
    const candidate = candidates[chosen];
    if (candidate === undefined) return { type: "unrouted", reason: "gone" };
    const { info: worker, blockTokens } = candidate;
    const plans = candidates.map((each) => prefixPlan(request, each));
    const expected = plans[chosen]?.uncachedTokens ?? request.promptTokens;
    // One that was moved elsewhere since is not as planned.
    const planned = chosen === choice.chosen ? plan : null;
    const source = this.#sourceOf(request, worker, planned?.source);
    const uncachedTokens = Math.min(expected, source?.leftTokens ?? expected);
    const reservation = this.books.reserve({
      workerId: worker.id,
      epoch: worker.epoch,
      promptTokens: request.promptTokens,
      uncachedTokens,
      blockTokens,
      isUnseen: request.isUnseen ?? false,
      isFed: source !== null,
    });
    if (source !== null) reservation.watch(source);
    planned?.booked(reservation);
    this.#watch(reservation, this.#options.prefixes.routed(request, worker));
    const fewest = Math.min(...plans.map((plan) => plan.uncachedTokens));
    return {
      type: "routed",
      worker,
      reservation,
      source,
      choice: { ...choice, chosen },
      promisedTokens: request.promptTokens - expected,
      bestTokens: request.promptTokens - fewest,
      served: (cachedTokens) => {
        const { promptTokens } = request;
        this.traffic.served(promptTokens, cachedTokens ?? promptTokens - expected);
        this.#options.prefixes.served(request, worker, cachedTokens);
      },
    };
  }

  /** `planned` undefined: no plan says who. */
  #sourceOf(
    request: DispatchRequest,
    worker: WorkerInfo,
    planned: KvSourceChoice | null | undefined,
  ): KvSource | null {
    if (request.mayFetch !== true) return null;
    return planned === undefined
      ? this.sources.sourceFor(request, worker)
      : this.sources.planned(request, worker, planned);
  }

  #watch(reservation: Reservation, prompt: PromptInFlight): void {
    reservation.watch({
      firstToken: () => prompt.computed(),
      end: () => prompt.dropped(),
    });
  }

  #candidates(
    request: DispatchRequest,
    workers: readonly WorkerInfo[],
    alwaysLook = false,
  ): Candidate[] {
    const looks = alwaysLook || this.#policy.readsPrefixes;
    const matches = looks ? this.#options.prefixes.find(request, workers) : [];
    return workers.map((info, at) => {
      const speeds = this.speeds.speedsOf(info.id);
      return {
        info,
        speeds,
        books: this.books.viewOf(info.id, speeds),
        match: matches[at] ?? null,
        blockTokens: info.kv?.blockTokens ?? BLOCK_TOKENS,
        blocks: info.kv?.blocks[0] ?? 0,
      };
    });
  }

  /** Those that may be asked; where there is none, the reason that held back the last of them. */
  #eligible(request: DispatchRequest): EligibleMembers {
    const workers: WorkerInfo[] = [];
    let reason: LeftOut = this.#isExpected(request.model) ? "gone" : "model";
    for (const member of this.#options.membership.workers.values()) {
      const leftOut = this.#leftOut(request, member);
      if (leftOut === null) workers.push(member.info);
      else if (leftOut === "excluded" || (leftOut === "gone" && reason === "model")) {
        reason = leftOut;
      }
    }
    const all = withRoom(request, workers);
    return { all, workers: withRoom(request, withoutPrefills(workers)), reason };
  }

  /** Whether workers of the model may come, as far as can be known [CL131]. */
  #isExpected(model: string | null): boolean {
    if (model === null || this.#options.membership.workers.size === 0) return true;
    return this.#isStarting() || this.#models.has(model);
  }

  /** Whether workers that are there may not be known yet: little or nothing was heard of them. */
  #isStarting(): boolean {
    const { membership, clock, startingMs = 0 } = this.#options;
    if (startingMs === 0) return false;
    const { heardMs } = membership;
    return heardMs === null || clock.nowMs() - Math.max(this.#startedMs, heardMs) < startingMs;
  }

  #leftOut(request: DispatchRequest, { info, state }: Member): LeftOut | "memory" | null {
    if (!serves(info, request.model)) return "model";
    if (!computes(info)) return "memory";
    if (state !== "ready") return "gone";
    const isOpen = this.#options.isOpen?.(info.id) ?? true;
    return request.excluded.has(info.id) || !isOpen ? "excluded" : null;
  }
}

interface EligibleMembers {
  /** With those that compute prompts for others. */
  readonly all: readonly WorkerInfo[];
  readonly workers: readonly WorkerInfo[];
  readonly reason: LeftOut;
}

/** Those that compute prompts for others get whole requests where no other is left. */
function withoutPrefills(workers: readonly WorkerInfo[]): readonly WorkerInfo[] {
  const others = workers.filter(({ role }) => role !== "prefill");
  return others.length > 0 ? others : workers;
}

/** Workers whose context is too short would refuse; where all are, one of them says so. */
function withRoom(request: DispatchRequest, workers: readonly WorkerInfo[]): readonly WorkerInfo[] {
  const roomy = workers.filter((info) => hasRoom(request, info));
  return roomy.length > 0 ? roomy : workers;
}

function hasRoom({ promptTokens }: DispatchRequest, { contextTokensMax }: WorkerInfo): boolean {
  return contextTokensMax === 0 || contextTokensMax > promptTokens;
}
