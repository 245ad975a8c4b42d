/**
 * cluster/conductor: where a prompt is computed, where its request decodes, and what moves.
 *
 * A fleet with pools has instances that compute prompts, instances that decode, and blocks of keys
 * and values on all of them. The conductor chooses a pair for each request by predicted times, and
 * rejects early what would miss its deadlines.
 *
 *   conductor.ts         joins the parts: decide, explain, book
 *   decision.ts          requests, instances and decisions as plain records; decision-log.ts: lines
 *   prefill-choice.ts    Algorithm 1's loop, and the simpler policies beside it
 *   decode-choice.ts     the decode instance by predicted time between tokens
 *   early-rejection.ts   loads against deadlines; decode-outlook.ts: who decodes at a time to come
 *   prefill-estimator.ts, transfer-estimator.ts, decode-estimator.ts   times, fitted and refined;
 *                        least-squares.ts: at the start; prediction-error.ts: how far they are off
 *   booking.ts           one request's part of the books; prefill-books.ts: a line of prompts,
 *                        decode-books.ts: a batch; instance-table.ts: all instances
 *   role-balance.ts      when a worker should change its role, from pool-needs.ts: how many each
 *                        pool needs for what it was asked (pool-demand.ts, pool-gauge.ts)
 *   conductor-config.ts  settings
 *   fleet-conductor.ts   the same for a live fleet; pool-group.ts: workers of one kind of blocks;
 *                        fleet-survey.ts: what they have for a request; live-booking.ts: a booking
 *                        kept by its reservation; pool-source.ts: who computes its prompt;
 *                        prompt-run.ts: prompts that were measured together; service-watch.ts;
 *                        planned-request.ts: what the conductor is asked;
 *                        inline-cost.ts: what a prompt costs those that decode;
 *                        scaled-fit.ts: beliefs of which the proportions alone hold;
 *                        fetch-speeds.ts: how fast keys and values come to workers
 *
 * Invariant: no sockets, no timers, no clock of its own; a run is repeated by its seed.
 * Invariant: `decide` and `explain` book nothing.
 *
 * @module
 */
export type { Booking } from "./booking.ts";
export {
  Conductor,
  type ConductorErrors,
  type ConductorOptions,
  type ExplainedDecision,
} from "./conductor.ts";
export {
  ConductorConfig,
  PREFILL_POLICIES,
  PRIORITY_CLASSES,
  type PrefillPolicyName,
  type PriorityClass,
  REJECTION_MODES,
  type RejectionMode,
} from "./conductor-config.ts";
export type {
  Accepted,
  ConductorRequest,
  Decision,
  HeldPrefix,
  InstanceNumber,
  InstanceRole,
  PoolInstance,
  PoolLoads,
  PrefillTerms,
  PrefixTransfer,
  Rejected,
  RejectionReason,
} from "./decision.ts";
export { decisionLine } from "./decision-log.ts";
export type { DecodeTerms } from "./decode-choice.ts";
export { DecodeEstimator, type DecodePoint } from "./decode-estimator.ts";
export {
  FleetConductor,
  type FleetConductorOptions,
  type GroupExplanation,
} from "./fleet-conductor.ts";
export type { InstanceBooks } from "./instance-table.ts";
export { type PoolLoad, sumOfLoads } from "./pool-demand.ts";
export type { PoolGroup } from "./pool-group.ts";
export { type PoolMember, withWaiting } from "./pool-needs.ts";
export type { ErrorReport } from "./prediction-error.ts";
export { PrefillEstimator, type PrefillPoint } from "./prefill-estimator.ts";
export {
  type BalanceMember,
  type PoolNeeds,
  RoleBalance,
  type RoleBalanceSettings,
  type RoleChange,
} from "./role-balance.ts";
export type { DecisionRecord, ServiceWatch } from "./service-watch.ts";
export { TransferEstimator, type TransferPlan } from "./transfer-estimator.ts";
