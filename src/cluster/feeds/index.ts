/**
 * cluster/feeds: what workers' caches announce, read in one form.
 *
 * A feed follows one worker for as long as it is a member: it connects, repairs gaps, and
 * translates its dialect into changes. What strangers send is bounded and checked; what cannot be
 * read is refused with a line, and a feed that lost its place starts anew.
 *
 *   feed-for.ts          which feed follows a worker
 *   perigee-feed.ts      our own servers' stream of events; perigee-changes.ts: its events
 *   sse-messages.ts      server-sent events as messages
 *   block-names.ts       64-bit names of blocks
 *   back-off.ts          the wait between tries; paced-warnings.ts: one line instead of thousands
 *
 * Invariant: a feed never throws and never ends by itself. Failures are `warn` and another try.
 *
 * @module
 */
export { feedFor } from "./feed-for.ts";
export type { FeedOptions } from "./feed-options.ts";
export type { WorkerScope } from "./perigee-changes.ts";
export { PerigeeFeed, workerScope } from "./perigee-feed.ts";
