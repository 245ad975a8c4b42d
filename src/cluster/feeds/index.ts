/**
 * cluster/feeds: what workers' caches announce, read in one form.
 *
 * A feed follows one worker for as long as it is a member: it connects, repairs gaps, and
 * translates its dialect into changes. What strangers send is bounded and checked; what cannot be
 * read is refused with a line, and a feed that lost its place starts anew.
 *
 *   feed-for.ts       which feed follows a worker; worker-scope.ts: which contents it has
 *   perigee-feed.ts   our own servers' stream over HTTP; perigee-changes.ts: its events;
 *                     worker-stream.ts, sse-messages.ts: its messages; snapshot-parts.ts: all a
 *                     worker has
 *   redis-feed.ts     our own workers' streams in Redis, filled by redis-publisher.ts and read by
 *                     one redis-streams.ts for all workers; redis-entry.ts, change-codec.ts: what
 *                     is in them; redis-client.ts: a connection that comes back
 *   engine-feed.ts    vLLM's and SGLang's publishers: one zmq-feed.ts per rank, joined by
 *                     feed-group.ts; zmq-sockets.ts, batch-frames.ts, batch-order.ts: transport
 *                     and gaps; engine-events.ts, engine-fields.ts, extra-keys.ts: what batches
 *                     say; msgpack-bounds.ts: what is not even decoded
 *   trtllm-feed.ts    TensorRT-LLM's polled events; trtllm-events.ts, trtllm-reader.ts: what they
 *                     say
 *   block-names.ts    64-bit names of blocks
 *   back-off.ts       the wait between tries; paced-warnings.ts: one line instead of thousands
 *
 * Invariant: a feed never throws and never ends by itself. Failures are `warn` and another try.
 *
 * @module
 */
export { engineFeed } from "./engine-feed.ts";
export { feedFor } from "./feed-for.ts";
export type { FeedOptions } from "./feed-options.ts";
export { PerigeeFeed } from "./perigee-feed.ts";
export { streamKey } from "./redis-entry.ts";
export { RedisFeed } from "./redis-feed.ts";
export {
  type KvEventOrigin,
  RedisPublisher,
  type RedisPublisherOptions,
} from "./redis-publisher.ts";
export { RedisStreams } from "./redis-streams.ts";
export { TrtllmFeed } from "./trtllm-feed.ts";
export { type WorkerScope, workerScope } from "./worker-scope.ts";
