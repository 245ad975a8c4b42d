/** The contract of who plans requests by deadlines and pools: cluster/conductor does. */
import type { Candidate, RoutingChoice, RoutingRequest } from "#cluster/protocol";
import type { KvSourceChoice } from "./kv-source.ts";
import type { Reservation } from "./reservation.ts";

/** A request as plans read it. */
export interface PlannedRequest extends RoutingRequest {
  /** Of the client's request. Default: "". */
  readonly id?: string;
  readonly model: string | null;
  readonly excluded: ReadonlySet<string>;
  readonly isUnseen?: boolean;
  readonly mayFetch?: boolean;
  /** Its own deadlines; what is absent is the fleet's, null is none. */
  readonly deadlines?: RequestDeadlines;
  /** When it came; the deadline of its first token counts from here. Default: now. */
  readonly arrivedMs?: number;
  /** It fills what is free. Default: false. */
  readonly isBatch?: boolean;
  /** It makes tokens; off: it is not planned, e.g. a text to encode. Default: true. */
  readonly isGenerated?: boolean;
  /** Sequences that are generated: gaps are those of one. Default: 1. */
  readonly choices?: number;
}

export interface RequestDeadlines {
  readonly ttftMs?: number | null;
  readonly tbtMs?: number | null;
}

/** What a plan is made of. */
export interface PlanAsk {
  readonly request: PlannedRequest;
  /** Workers that may get it, and with them those that compute prompts for others. */
  readonly candidates: readonly Candidate[];
  readonly all: readonly Candidate[];
  /** The policy's choice of the candidates. */
  readonly choose: () => RoutingChoice;
}

/** Requests that wait before another one. */
export interface WaitingAhead {
  readonly requests: number;
  /** To compute for them. */
  readonly tokens: number;
  /** Measured time until the next of them goes; 0: not measured. */
  readonly paceMs: number;
}

/** A deadline that a request would miss, so that it is not begun. */
export interface EarlyRejection {
  /** Of its first token, or between tokens. */
  readonly reason: "ttft" | "tbt";
  /** Of the predicted time to the deadline; for `tbt` also of memory to what there is. */
  readonly load: number;
  readonly deadlineMs: number;
  readonly retryAfterMs: number;
}

export type RequestPlan =
  | { readonly type: "rejected"; readonly rejection: EarlyRejection }
  | {
      readonly type: "planned";
      readonly choice: RoutingChoice;
      /** Who gives keys and values; null: no worker; undefined: the plan does not say. */
      readonly source: KvSourceChoice | null | undefined;
      /** The request was booked as planned. */
      readonly booked: (reservation: Reservation) => void;
    };

/** Decides whether requests are taken, and in fleets with pools where they run. */
export interface RequestPlanner {
  plan(ask: PlanAsk): RequestPlan;
  /** Whether it would be rejected behind those that wait. */
  foresee(ask: PlanAsk, ahead: WaitingAhead): EarlyRejection | null;
  /** Whether work that fills what is free may begin now. */
  mayFill(ask: PlanAsk): boolean;
  /** Whether the worker is one of a fleet with pools. */
  isPooled(workerId: string): boolean;
  /** Predicted time until the worker would begin a new prompt, in ms. */
  queueMsOf(workerId: string): number;
}
