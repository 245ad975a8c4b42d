import type { Clock } from "#base";
import type { FetchedKv, Membership, RoutingChoice, WorkerInfo } from "#cluster/protocol";
import type {
  EarlyRejection,
  KvSourceChoice,
  PlanAsk,
  PlannedRequest,
  RequestPlan,
  RequestPlanner,
  Reservation,
  Rng,
  WaitingAhead,
} from "#cluster/routing";
import { computes } from "#cluster/routing";
import { Conductor, type ExplainedDecision } from "./conductor.ts";
import type { ConductorConfig } from "./conductor-config.ts";
import type { Accepted, ConductorRequest, Decision, InstanceNumber, Rejected } from "./decision.ts";
import { decisionLine } from "./decision-log.ts";
import { DecodeEstimator } from "./decode-estimator.ts";
import { type GroupSurvey, surveyOf } from "./fleet-survey.ts";
import { inlineCost } from "./inline-cost.ts";
import { LiveBooking } from "./live-booking.ts";
import { conductorRequest, deadlinesOf } from "./planned-request.ts";
import { groupOf, PoolGroup } from "./pool-group.ts";
import { sourceOf } from "./pool-source.ts";
import { PrefillEstimator } from "./prefill-estimator.ts";
import type { ServiceWatch } from "./service-watch.ts";

export interface FleetConductorOptions {
  readonly membership: Membership;
  readonly clock: Clock;
  readonly rng: Rng;
  readonly config: ConductorConfig;
  /** Pools are used where there are some; off: the policy alone chooses. */
  readonly usesPools: boolean;
  readonly watch: ServiceWatch;
}

/** A group's part of an explanation, with names of workers. */
export interface GroupExplanation extends ExplainedDecision {
  /** Of the request, or else the fleet's; null: none. */
  readonly deadlines: { readonly ttftMs: number | null; readonly tbtMs: number | null };
  readonly idOf: (instance: InstanceNumber) => string | null;
}

/** Groups that are kept with what was learned, though all their workers left. */
const GROUPS_MAX = 64;

/**
 * The conductor of a live fleet: members come and go by their membership, holdings come from the
 * index, books from reservations, and times from what requests took. A fleet with pools is routed
 * by Algorithm 1; elsewhere the policy chooses, and deadlines are looked at for its choice.
 */
export class FleetConductor implements RequestPlanner {
  readonly #options: FleetConductorOptions;
  readonly #groups = new Map<string, PoolGroup>();
  readonly #places = new Map<string, PoolGroup>();
  readonly #stopListening: () => void;

  constructor(options: FleetConductorOptions) {
    this.#options = options;
    for (const { info } of options.membership.workers.values()) this.#joined(info);
    this.#stopListening = options.membership.listen({
      joined: ({ info }) => this.#joined(info),
      changed: ({ info }) => this.#changed(info),
      left: (id) => this.#left(id),
    });
  }

  close(): void {
    this.#stopListening();
  }

  plan(ask: PlanAsk): RequestPlan {
    const surveys = this.#survey(ask);
    const pooled = this.#pooled(ask.request, surveys);
    if (pooled !== null) return this.#planPools(ask, pooled);
    const choice = ask.choose();
    const { survey, at } = this.#placeOf(ask, surveys, choice);
    if (survey === undefined || at === undefined) {
      return { type: "planned", choice, source: undefined, booked: () => {} };
    }
    const { conductor } = survey.group;
    const decision = conductor.decide(this.#requestOf(ask.request, survey), survey.held, at);
    this.#record(survey, decision, { by: "policy" });
    if (decision.type === "rejected" && isDeadline(decision)) {
      return this.#rejected(ask.request, decision);
    }
    const booked = this.#bookerOf(survey, ask.request, decision);
    return { type: "planned", choice, source: undefined, booked };
  }

  foresee(ask: PlanAsk, ahead: WaitingAhead): EarlyRejection | null {
    const surveys = this.#survey(ask);
    const [decision, survey] = this.#wouldDecide(ask, surveys, (at, { waitedMs = 0 }) => ({
      waitedMs: waitedMs + this.#aheadMs(at, ahead),
    }));
    if (decision === null || survey === null) return null;
    if (decision.type !== "rejected" || !isDeadline(decision)) return null;
    this.#record(survey, decision, { by: "queue" });
    return this.#rejected(ask.request, decision).rejection;
  }

  mayFill(ask: PlanAsk): boolean {
    const surveys = this.#survey(ask);
    const [decision, survey] = this.#wouldDecide(ask, surveys, ({ group }) => {
      const { tbtDeadlineMs } = this.#options.config;
      const running = group.shortestTbtMs();
      const tbtMs = Math.min(tbtDeadlineMs ?? Infinity, running ?? Infinity);
      return {
        ...{ priority: "batch", waitedMs: 0, mustTake: group.urgent.size === 0 },
        tbtDeadlineMs: Number.isFinite(tbtMs) ? tbtMs : null,
      };
    });
    if (decision === null || survey === null) return true;
    return decision.type === "accepted" || !isDeadline(decision);
  }

  /** Groups that have both pools now. */
  get poolGroups(): readonly PoolGroup[] {
    const groups = this.#options.usesPools ? [...this.#groups.values()] : [];
    return groups.filter(({ hasPools }) => hasPools);
  }

  isPooled(workerId: string): boolean {
    return this.#options.usesPools && this.#places.get(workerId)?.hasPools === true;
  }

  queueMsOf(workerId: string): number {
    const group = this.#places.get(workerId);
    const number = group?.numbers.get(workerId);
    return number === undefined ? 0 : (group?.conductor.booksOf(number)?.queueMs ?? 0);
  }

  /** What a worker says of its fetches since its start: transfers are predicted by it. */
  fetched(workerId: string, total: FetchedKv | undefined): void {
    if (total !== undefined) this.#places.get(workerId)?.fetched(workerId, total);
  }

  /** The terms of the group that would have the request; null: none. Nothing is booked. */
  explain(ask: PlanAsk): GroupExplanation | null {
    const surveys = this.#survey(ask);
    const pooled = this.#pooled(ask.request, surveys);
    const placed = pooled === null ? this.#placeOf(ask, surveys, ask.choose()) : null;
    const survey = pooled ?? placed?.survey;
    if (survey === undefined) return null;
    const { conductor } = survey.group;
    const request = this.#requestOf(ask.request, survey);
    const found = conductor.explain(request, survey.held, placed?.at ?? null);
    const isSplit = pooled !== null && found.decision.type === "accepted";
    const decision = isSplit
      ? this.#chosenOf(ask, pooled, found.decision).decision
      : found.decision;
    const deadlines = deadlinesOf(ask.request, this.#options.config);
    return { ...found, decision, deadlines, idOf: (instance) => conductor.idOf(instance) };
  }

  /** Groups with their errors of prediction, by name. */
  errors(): ReadonlyMap<string, ReturnType<Conductor["errors"]>> {
    const found = new Map<string, ReturnType<Conductor["errors"]>>();
    for (const { conductor } of this.#groups.values()) {
      for (const role of ["prefill", "decode", "both"]) {
        const errors = conductor.errors(role);
        const samples = errors.prefill.samples + errors.decode.samples;
        if (samples > (found.get(role)?.prefill.samples ?? 0)) found.set(role, errors);
      }
    }
    return found;
  }

  #planPools(ask: PlanAsk, survey: GroupSurvey): RequestPlan {
    const { request } = ask;
    const { conductor } = survey.group;
    const decision = conductor.decide(this.#requestOf(request, survey), survey.held);
    if (decision.type === "rejected") {
      this.#record(survey, decision, { by: "pools" });
      conductor.pools.refused(decision);
      return this.#rejected(request, decision);
    }
    const chosen = this.#chosenOf(ask, survey, decision);
    this.#record(survey, chosen.decision, {
      by: "pools",
      source: chosen.source?.worker.id ?? null,
    });
    const at = conductor.idOf(chosen.decision.decode);
    const choice: RoutingChoice = {
      chosen: ask.candidates.findIndex(({ info }) => info.id === at),
      costs: [],
      reason: chosen.source === null ? "inline" : "pools",
    };
    const booked = this.#bookerOf(survey, request, chosen.decision);
    return { type: "planned", choice, source: chosen.source, booked };
  }

  /** Whether the prompt is computed elsewhere, or where it decodes. */
  #chosenOf(
    ask: PlanAsk,
    survey: GroupSurvey,
    decision: Accepted,
  ): { readonly decision: Accepted; readonly source: KvSourceChoice | null } {
    const { conductor } = survey.group;
    const [from, to] = [decision.chosen.instance, decision.decode].map((instance) =>
      ask.all.find(({ info }) => info.id === conductor.idOf(instance)),
    );
    if (from === undefined || to === undefined) return { decision, source: null };
    const inline = () => {
      const request = { ...this.#requestOf(ask.request, survey), mustTake: true };
      const own = conductor.decide(request, survey.held, decision.decode);
      return own.type === "accepted" ? own : decision;
    };
    const cost = inlineCost(ask.request, survey, { decision, config: this.#options.config });
    const sender = decision.transfer?.from;
    const holder =
      sender === undefined
        ? null
        : (ask.all.find(({ info }) => info.id === conductor.idOf(sender)) ?? null);
    const source = sourceOf(ask.request, { decode: to, prefill: from, holder }, cost);
    if (source !== null) return { decision, source };
    return { decision: inline(), source: null };
  }

  #wouldDecide(
    ask: PlanAsk,
    surveys: readonly GroupSurvey[],
    more: (survey: GroupSurvey, own: ConductorRequest) => Partial<ConductorRequest>,
  ): readonly [Decision | null, GroupSurvey | null] {
    const pooled = this.#pooled(ask.request, surveys);
    const placed = pooled === null ? this.#placeOf(ask, surveys, ask.choose()) : null;
    const survey = pooled ?? placed?.survey;
    if (survey === undefined) return [null, null];
    const own = this.#requestOf(ask.request, survey);
    const request = { ...own, ...more(survey, own) };
    const { conductor } = survey.group;
    return [conductor.decide(request, survey.held, placed?.at ?? null), survey];
  }

  #placeOf(ask: PlanAsk, surveys: readonly GroupSurvey[], { chosen }: RoutingChoice) {
    const id = ask.candidates[chosen]?.info.id ?? "";
    const group = this.#places.get(id);
    return { survey: surveys.find((each) => each.group === group), at: group?.numbers.get(id) };
  }

  /** Of several groups with pools, the one that is predicted to begin soonest. */
  #pooled(request: PlannedRequest, surveys: readonly GroupSurvey[]): GroupSurvey | null {
    // What no other worker may compute the prompt of, one that decodes gets whole.
    const mayUse = this.#options.usesPools && request.mayFetch === true;
    const pooled = mayUse ? surveys.filter(({ hasPools }) => hasPools) : [];
    const [first = null] = pooled;
    if (pooled.length < 2) return first;
    let best = first;
    let bestMs = Number.POSITIVE_INFINITY;
    for (const survey of pooled) {
      const own = this.#requestOf(request, survey);
      const decision = survey.group.conductor.decide({ ...own, mustTake: true }, survey.held);
      const ms = decision.chosen?.ttftMs ?? Number.POSITIVE_INFINITY;
      if (ms < bestMs) [best, bestMs] = [survey, ms];
    }
    return best;
  }

  #survey({ request, all }: PlanAsk): readonly GroupSurvey[] {
    const nowMs = this.#nowMs();
    if (request.isGenerated === false) return [];
    const surveys = surveyOf(request, all, (id) => this.#places.get(id));
    for (const { group } of surveys) group.passUnseen(nowMs);
    return surveys;
  }

  #requestOf(request: PlannedRequest, survey: GroupSurvey): ConductorRequest {
    const { config, usesPools } = this.#options;
    return conductorRequest(request, survey, { config, usesPools, nowMs: this.#nowMs() });
  }

  /** By the pace at which those before it went, or by what they are predicted to take. */
  #aheadMs({ group, barred, hasPools }: GroupSurvey, ahead: WaitingAhead): number {
    const workers = Math.max(group.numbers.size - (barred?.size ?? 0), 1);
    const estimator = group.conductor.prefillEstimator(hasPools ? "prefill" : "both");
    const [perPrompt, perThousand] = estimator.coefficients;
    const predictedMs = ahead.requests * perPrompt + (ahead.tokens / 1e3) * perThousand;
    return Math.max(predictedMs / workers, ahead.requests * ahead.paceMs);
  }

  #rejected(request: PlannedRequest, { reason, loads, retryAfterMs }: Rejected) {
    const { ttftMs, tbtMs } = deadlinesOf(request, this.#options.config);
    const isFirst = reason === "ttft";
    const rejection: EarlyRejection = {
      reason: isFirst ? "ttft" : "tbt",
      load: (isFirst ? loads.prefill : loads.decode) ?? 0,
      deadlineMs: (isFirst ? ttftMs : tbtMs) ?? 0,
      retryAfterMs,
    };
    return { type: "rejected", rejection } as const;
  }

  #bookerOf(survey: GroupSurvey, request: PlannedRequest, decision: Decision) {
    return (reservation: Reservation): void => {
      if (decision.type === "accepted") this.#book(survey.group, request, decision, reservation);
    };
  }

  #book(
    group: PoolGroup,
    request: PlannedRequest,
    decision: Accepted,
    reservation: Reservation,
  ): void {
    const { clock, watch } = this.#options;
    const { conductor } = group;
    const isUnseen = request.isUnseen ?? false;
    const booking = new LiveBooking({
      ...{ booking: conductor.book(decision), clock, watch, isUnseen },
      arrivedMs: request.arrivedMs ?? clock.nowMs(),
      deadlines:
        request.isBatch === true ? NO_DEADLINES : deadlinesOf(request, this.#options.config),
      isSingle: (request.choices ?? 1) === 1,
      batch: () => {
        const batch = conductor.batchOf(decision.decode);
        return { sequences: batch?.decoding ?? 1, contextTokens: batch?.decodingTokens ?? 0 };
      },
      measured: (point) => {
        group.measuredMs = clock.nowMs();
        conductor.decodeEstimator(conductor.kindOf(decision.decode) ?? "both").measured(point);
      },
      onEnd: () => {
        for (const set of [group.bookings, group.unseen, group.urgent]) set.delete(booking);
      },
    });
    group.bookings.add(booking);
    if (isUnseen) group.unseen.add(booking);
    if (request.isBatch !== true) group.urgent.add(booking);
    reservation.watch(booking);
  }

  #record({ group }: GroupSurvey, decision: Decision, more: Readonly<Record<string, unknown>>) {
    const { watch } = this.#options;
    watch.decided({
      ...{ request: decision.request, type: decision.type },
      reason: decision.type === "rejected" ? decision.reason : null,
      isBatch: decision.priority === "batch",
      stage: more.by === "queue" ? "queue" : "dispatch",
      line: decisionLine(decision, (instance) => group.conductor.idOf(instance), more),
    });
  }

  #joined(info: WorkerInfo): void {
    if (!computes(info)) return;
    const name = groupOf(info);
    const group = this.#groups.get(name) ?? this.#newGroup(name);
    this.#groups.delete(name);
    this.#groups.set(name, group); // the one that was used last is the last to go
    group.join(info);
    this.#places.set(info.id, group);
    this.#forgetGroups();
  }

  #changed(info: WorkerInfo): void {
    const group = this.#places.get(info.id);
    if (group !== this.#groups.get(groupOf(info))) {
      this.#left(info.id);
      this.#joined(info);
      return;
    }
    group?.changed(info);
  }

  #left(id: string): void {
    this.#places.get(id)?.leave(id);
    this.#places.delete(id);
  }

  #newGroup(name: string): PoolGroup {
    const { clock, rng, config } = this.#options;
    const conductor = new Conductor({
      // Workers tell the speed of their networks in tokens.
      ...{ clock, rng, config, bytesPerToken: 1, learns: true },
      prefillOf: () => new PrefillEstimator([], undefined, { isUnknown: true }),
      decodeOf: () => new DecodeEstimator([], undefined, { isUnknown: true }),
    });
    return new PoolGroup(name, conductor);
  }

  #forgetGroups(): void {
    for (const [name, group] of this.#groups) {
      if (this.#groups.size <= GROUPS_MAX) return;
      if (group.numbers.size === 0) this.#groups.delete(name);
    }
  }

  #nowMs(): number {
    return this.#options.clock.nowMs();
  }
}

const NO_DEADLINES = { ttftMs: null, tbtMs: null };

/** A pool without workers is the dispatcher's to tell. */
function isDeadline({ reason }: Rejected): boolean {
  return reason === "ttft" || reason === "tbt";
}
