/**
 * cluster/membership: which workers a fleet has, and whether they take requests.
 *
 * A worker announces itself in Redis and refreshes its entry; routers read all entries, and hold
 * what they know while Redis is away. Workers that announce nothing are given by URL and probed.
 *
 *   config.ts              options of a worker
 *   announcer.ts           a worker's side; redis-announcer.ts: in Redis
 *   role-desk.ts           one of several routers decides about roles
 *   redis-membership.ts    a router's side of Redis; lease-record.ts: a worker's entry
 *   redis-link.ts          a connection that comes back; hang-watch.ts: pauses of this process
 *   static-membership.ts   workers that are given by address: static-worker.ts checks one,
 *                          probe.ts asks which server it is, bounded-get.ts: a bounded answer
 *   joined-membership.ts   several memberships as one; open-membership.ts: those that are wanted
 *   model-differences.ts   workers of one model's name that are not equal
 *   load-watch.ts          loads that workers report: report-stream.ts follows one of them
 *   redis-books.ts         loads that routers keep together; book-scripts.ts: what Redis runs
 *   local-bus.ts           the same inside one process
 *   member-book.ts         what is known, and who is told
 *   worker-info-reader.ts  what workers say of themselves, as far as it can be true
 *
 * Invariant: time here is monotonic; no lease depends on the time of day of any machine.
 * Invariant: nothing that a worker or Redis says is used before it is checked.
 *
 * @module
 */
export type { Announcer } from "./announcer.ts";
export { type WorkerConfig, WorkerOptions } from "./config.ts";
export { JoinedMembership } from "./joined-membership.ts";
export { LoadWatch, type LoadWatchOptions } from "./load-watch.ts";
export { LocalBus } from "./local-bus.ts";
export { differenceOf, watchDifferences } from "./model-differences.ts";
export { type MembershipSources, openMembership } from "./open-membership.ts";
export type { ProbeAccess } from "./probe.ts";
export { RedisAnnouncer, type RedisAnnouncerOptions } from "./redis-announcer.ts";
export { RedisBooks, type RedisBooksOptions } from "./redis-books.ts";
export { RedisLink, type RedisLinkOptions } from "./redis-link.ts";
export { RedisMembership, type RedisMembershipOptions } from "./redis-membership.ts";
export { RoleDesk, type RoleDeskOptions, type ToldDesk } from "./role-desk.ts";
export { StaticMembership, type StaticMembershipOptions } from "./static-membership.ts";
export {
  type ReportedWorker,
  readToldRole,
  readUrl,
  readWorkerInfo,
  readWorkerReport,
} from "./worker-info-reader.ts";
