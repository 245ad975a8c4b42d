/**
 * cluster/protocol: what the rooms of a fleet say to each other, as types.
 *
 *   kv-change.ts      a worker's KV events in one form, and who tells and takes them
 *   prefix-lookup.ts  what the index answers
 *   worker.ts         a worker, its state and load; the members of a fleet
 *   routing.ts        what a routing policy sees, and what it says
 *   shared-books.ts   load that several routers count together
 *
 * @module
 */
export type {
  BlockNames,
  KvChange,
  KvFeed,
  KvFeedSink,
  KvLevel,
  KvScope,
} from "./kv-change.ts";
export type {
  GroupBlocks,
  PrefixLookup,
  PrefixMatch,
  PromptBlocks,
  WorkerNumber,
} from "./prefix-lookup.ts";
export type {
  Candidate,
  CandidateCost,
  RoutingChoice,
  RoutingPolicy,
  RoutingRequest,
  WorkerBooks,
  WorkerSpeeds,
} from "./routing.ts";
export type { SharedAnswer, SharedBid, SharedBooks, SharedLoad } from "./shared-books.ts";
export type {
  FetchedKv,
  Member,
  Membership,
  MembershipListener,
  ToldRole,
  TransferAddress,
  WorkerInfo,
  WorkerKind,
  WorkerKv,
  WorkerLoad,
  WorkerRole,
  WorkerState,
  ZmqEvents,
} from "./worker.ts";
