/**
 * cluster/routing: which worker gets a request.
 *
 * A dispatcher joins members, the index of prefixes, measured speeds and the books of load, and
 * asks a policy. All costs are times.
 *
 *   dispatcher.ts        joins the parts, books the choice, explains it
 *   create-policy.ts     policies by name: kv.ts (kv-cost.ts: its terms), round-robin.ts,
 *                        random-choice.ts, least-loaded.ts, power-of-two.ts, prefix-hash.ts,
 *                        session.ts; ring-choice.ts, hash-ring.ts: consistent hashing
 *   load-books.ts        what was handed out and not got back; reservation.ts: one request's part;
 *                        worker-account.ts: one worker's sums
 *   fleet-speeds.ts      speeds of all workers; measured-speeds.ts: of one; decayed-fit.ts,
 *                        relative-speed.ts: whether it differs from others
 *   kv-sources.ts        who gives keys and values of a prompt to the worker that got it;
 *                        kv-source.ts: the choice
 *   served-model.ts      whether a worker computes; models and adapters by their names
 *   traffic.ts           how often requests come, and how long they are
 *   prefix-finder.ts     asks each index that knows of a worker
 *   in-flight-prefixes.ts   prompts that are not announced yet
 *   shared-dispatch.ts   the same beside other routers
 *   room.ts              whether a worker has room for more; pool-room.ts: whether pools have
 *   dispatch-request.ts  what a dispatcher is asked and answers; request-planner.ts: who decides by
 *                        deadlines and pools (cluster/conductor)
 *   request-queue.ts     requests that no worker takes yet; queue-lane.ts: those that wait for the
 *                        same workers; fair-queue.ts: between API keys
 *   load.ts, chance.ts   load in ms; the least of equals; chance
 *
 * Invariant: no sockets, no timers, no clock of its own; a run is repeated by its seed.
 *
 * @module
 */
export { drawIndex, type Rng, seededRng } from "./chance.ts";
export {
  createPolicy,
  type PolicyParts,
  ROUTING_POLICIES,
  type RoutingPolicyName,
} from "./create-policy.ts";
export { DecayedFit } from "./decayed-fit.ts";
export type {
  DispatchRequest,
  ExplainedWorker,
  Explanation,
  LeftOut,
  Routed,
  Unrouted,
  Weighed,
} from "./dispatch-request.ts";
export { Dispatcher, type DispatcherOptions } from "./dispatcher.ts";
export { FleetSpeeds } from "./fleet-speeds.ts";
export { hashText } from "./hash-ring.ts";
export { InFlightPrefixes, type PromptInFlight } from "./in-flight-prefixes.ts";
export { prefixPlan, type TrafficOutlook } from "./kv-cost.ts";
export { type KvSourceChoice, mayGive } from "./kv-source.ts";
export type { KvSource } from "./kv-sources.ts";
export { LoadBooks, type LoadBooksOptions } from "./load-books.ts";
export {
  type HitLedger,
  IndexedPrefixes,
  type IndexedPrefixesOptions,
  type IndexPlace,
  type PrefixAnswer,
  type PrefixFinder,
  type PrefixQuery,
  type ServedPrompt,
} from "./prefix-finder.ts";
export type {
  EarlyRejection,
  PlanAsk,
  PlannedRequest,
  RequestDeadlines,
  RequestPlan,
  RequestPlanner,
  WaitingAhead,
} from "./request-planner.ts";
export {
  type QueuedRequest,
  type Refusal,
  RequestQueue,
  type RequestQueueOptions,
} from "./request-queue.ts";
export type {
  DecodeLoad,
  GapWatch,
  LoadClaim,
  LoadObserver,
  Reservation,
  ReservationEnd,
  ReservationWatcher,
} from "./reservation.ts";
export type { Fullness, RoomLimits } from "./room.ts";
export { adapterOf, computes, serves } from "./served-model.ts";
export { SharedDispatch } from "./shared-dispatch.ts";
