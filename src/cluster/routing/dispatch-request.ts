/** What a dispatcher is asked, and what it answers. */
import type {
  Candidate,
  CandidateCost,
  PrefixMatch,
  RoutingChoice,
  WorkerInfo,
} from "#cluster/protocol";
import type { KvSource } from "./kv-sources.ts";
import type { PrefixQuery } from "./prefix-finder.ts";
import type { EarlyRejection, PlannedRequest, RequestPlan } from "./request-planner.ts";
import type { Reservation } from "./reservation.ts";
import type { Fullness } from "./room.ts";

/** A request that wants a worker. */
export interface DispatchRequest extends PlannedRequest, PrefixQuery {
  /** The name that the client asked for; null: any worker serves it. */
  readonly model: string | null;
  /** Ids of workers that are not to be asked again, e.g. those that failed this request. */
  readonly excluded: ReadonlySet<string>;
  /** Its answer comes in one piece: when its first token came is not seen. Default: false. */
  readonly isUnseen?: boolean;
  /** Keys and values of its prompt may come from another worker. Default: false. */
  readonly mayFetch?: boolean;
}

/** A worker was chosen, and its load booked. */
export interface Routed {
  readonly type: "routed";
  readonly worker: WorkerInfo;
  /** Must be ended, in whichever way the request ends. */
  readonly reservation: Reservation;
  /** Who gives keys and values of the prompt to the worker; null: no worker. */
  readonly source: KvSource | null;
  readonly choice: RoutingChoice;
  /** Of the chosen worker: cached tokens, as far as the index knows; 0 where no index was asked. */
  readonly promisedTokens: number;
  /** Most cached tokens that any candidate has. */
  readonly bestTokens: number;
  /** Told what the worker says of it: cached tokens of its prompt; null: it does not say. */
  readonly served: (cachedTokens: number | null) => void;
}

/** Whose turn it is to come back. */
export type Awaited = "breakers" | "members";

/** What the policy says of a request, before it is booked. */
export interface Weighed {
  readonly type: "weighed";
  readonly request: DispatchRequest;
  readonly candidates: readonly Candidate[];
  readonly choice: RoutingChoice;
  /** Null: nothing plans requests. */
  readonly plan: Extract<RequestPlan, { readonly type: "planned" }> | null;
}

/** No worker takes it: an answer, not an error. */
export interface Unrouted {
  readonly type: "unrouted";
  /**
   * `model`: no member serves it; `gone`: those that serve it drain or are unreachable, or there is
   * no member at all;
   * `excluded`: all others have failed the request or are held to be broken;
   * `deadline`: it would miss one.
   */
  readonly reason: LeftOut | "deadline";
  /** Of the reason `deadline`. */
  readonly rejection?: EarlyRejection;
}

/** Why a worker may not have a request. */
export type LeftOut = "model" | "gone" | "excluded";

/** Who would get a request, and why. Nothing is booked. */
export interface Explanation {
  readonly policy: string;
  readonly choice: RoutingChoice | null;
  readonly unrouted: LeftOut | null;
  readonly workers: readonly ExplainedWorker[];
}

/** One member in an explanation. */
export interface ExplainedWorker {
  readonly worker: WorkerInfo;
  /** Null: it may be chosen. */
  readonly leftOut: string | null;
  readonly match: PrefixMatch | null;
  readonly candidate: Candidate | null;
  readonly cost: CandidateCost | null;
  /** Why no request that waits is sent to it now; null: it has room. */
  readonly full: Fullness | null;
}
